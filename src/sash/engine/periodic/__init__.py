"""Periodic queries: groups of queries, and the synopses that they share."""
