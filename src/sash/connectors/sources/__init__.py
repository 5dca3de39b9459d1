"""Sources: where a stream's rows come from. The driver plans chunks, tasks read them."""

from sash.connectors.sources.base import Source
from sash.connectors.sources.chunk import REJECTS_SCHEMA, Chunk, Plan, Position, Rows
from sash.connectors.sources.registry import SCHEMES, check_ends, open_source, read, read_whole

__all__ = [
    "REJECTS_SCHEMA",
    "SCHEMES",
    "Chunk",
    "Plan",
    "Position",
    "Rows",
    "Source",
    "check_ends",
    "open_source",
    "read",
    "read_whole",
]
