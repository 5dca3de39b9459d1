"""The DuckDB of this process: one database in memory, of which every thread has its own connection.

A database takes some 30 ms to open, a connection to it next to nothing, and runs have threads that come and
go. A query runs in the thread that asks, and nothing is fetched from the network behind its back.
"""

from __future__ import annotations

import os
import threading
from functools import cache

import duckdb

_local = threading.local()


def connection() -> duckdb.DuckDBPyConnection:
    """The connection of this thread."""
    process = os.getpid()
    if getattr(_local, "process", None) != process:
        _local.connection = _database(process).cursor()
        _local.process = process
    found: duckdb.DuckDBPyConnection = _local.connection
    return found


@cache
def _database(process: int) -> duckdb.DuckDBPyConnection:
    """A process that was forked opens its own: somebody may have been at work in the one that it inherits."""
    return duckdb.connect(
        ":memory:",
        config={"threads": 1, "autoinstall_known_extensions": False, "autoload_known_extensions": False},
    )
