"""Operators: whole columns in, whole columns out."""
