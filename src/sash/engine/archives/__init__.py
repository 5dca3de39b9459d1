"""Archives as outputs of a run."""
