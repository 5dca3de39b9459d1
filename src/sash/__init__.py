"""Sash: standing CQL queries over sliding windows of data streams, on Apache Spark."""

__version__ = "0.1.0"
