"""Sash: standing CQL queries over sliding windows of data streams, on Apache Spark.

The names below are all that is public. They are imported when they are first used: Arrow, DuckDB and numba
take a second, and `import sash` should not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sash.errors import SashError as SashError
    from sash.session import Answer as Answer
    from sash.session import Query as Query
    from sash.session import Session as Session
    from sash.session import connect as connect

__version__ = "0.1.0"

_HOMES = {
    "Answer": "sash.session",
    "Query": "sash.session",
    "SashError": "sash.errors",
    "Session": "sash.session",
    "connect": "sash.session",
}
__all__ = ["Answer", "Query", "SashError", "Session", "__version__", "connect"]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'sash' has no attribute '{name}'")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
