"""Synopses: pre-aggregated windows, and the answers read from them."""
