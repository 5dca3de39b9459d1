"""State: what a run keeps between batches, as arrays, and the compiled loops over it."""
