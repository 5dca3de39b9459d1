"""Approximate aggregates by Apache DataSketches: a sketch per pane and group, merged and estimated."""
