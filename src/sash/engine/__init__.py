"""The engine: what happens to a batch, whatever runs it."""
