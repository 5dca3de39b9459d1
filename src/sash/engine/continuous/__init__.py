"""Continuous operators: rows go in, changes of answers come out."""
