"""Sinks: where a query's answers go, each row once whatever happens to the run."""

from sash.connectors.sinks.base import Committed, Sink
from sash.connectors.sinks.registry import SCHEMES, open_sink

__all__ = ["SCHEMES", "Committed", "Sink", "open_sink"]
