"""The Spark runtime: batches are Structured Streaming micro-batches, chunks are tasks.

Nothing is imported here: Spark's planning process loads `feed_source` and should not load the rest.
"""
