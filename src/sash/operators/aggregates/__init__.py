"""Incremental aggregates: what a group's values are worth while rows come and go."""
