"""Connectors: where rows come from, and where answers go."""
