"""What the tests of the session share: a folder with trades, and a session over it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sash.session import Answer, Query, Session, connect

STREAM = "CREATE STREAM s (t BIGINT, k STRING, v BIGINT) TIMESTAMP BY t FROM 'csv:s.csv'"
SUMS = "SELECT k, SUM(v) AS v FROM s [RANGE 10 SEC SLIDE 1 SEC] GROUP BY k"

ENDLESS = (
    "CREATE STREAM p (ts TIMESTAMP, src STRING, length BIGINT) TIMESTAMP BY ts "
    "FROM 'generator:packets' WITH (rate = 1000)"
)
PACKETS = "SELECT src, COUNT(*) AS n FROM p [RANGE 1 SEC SLIDE 1 SEC] GROUP BY src"


def write_rows(folder: Path, count: int) -> None:
    """One row a second: k is a, b or c in turn, v is the second."""
    lines = [f"{t},{'abc'[t % 3]},{t}" for t in range(1, count + 1)]
    (folder / "s.csv").write_text("\n".join(["t,k,v", *lines]) + "\n")


def session_over(folder: Path, count: int = 30, **options: Any) -> Session:
    write_rows(folder, count)
    session = connect(base_dir=folder, runtime="inline", **options)
    session.sql(STREAM)
    return session


def logged(query: Query) -> list[tuple[Any, ...]]:
    """All answers of a query."""
    return log_of(iter(query))


def log_of(answers: Iterator[Answer]) -> list[tuple[Any, ...]]:
    """Answers as (instant, values …), in order within an instant of their text."""
    rows = [(answer.at, *row.values()) for answer in answers for row in answer.rows.to_pylist()]
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    return sorted(rows, key=lambda row: (row[0], repr(row)))


def contents(query: Query) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in query.latest().to_pylist())


def expected_log(folder: Path, text: str = SUMS) -> list[tuple[Any, ...]]:
    """What a run of the query alone gives."""
    with session_over(folder) as session:
        return logged(session.query(text))


def running() -> list[str]:
    """The threads that a session has left."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("sash")]
