"""The test kit: the oracle, and whatever a test of stream queries needs."""
