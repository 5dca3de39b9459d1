"""One-time queries: of a run, of a checkpoint, of archives."""
