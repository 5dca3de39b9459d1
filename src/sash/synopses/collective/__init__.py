"""Collective indexes: which groups have an aggregate beyond a threshold, without asking every group."""
