"""Sources: where a stream's rows come from. The driver plans chunks, tasks read them."""

from sash.runtime.sources.base import Source
from sash.runtime.sources.chunk import REJECTS_SCHEMA, Chunk, Plan, Position, Rows
from sash.runtime.sources.registry import SCHEMES, check_ends, open_source, read, read_whole

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
