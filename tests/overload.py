"""A run that cannot keep pace: a batch brings 50 µs of a live stream, and every batch takes longer than that.

Files lie in a watched directory, so rows are there as fast as they can be read. When they have been read the
clock goes on by heartbeats, and whoever still waits gets his turn.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.change_logs import Contents

from sash.engine.observe.report import BatchReport, QueryRefreshStats, Silent
from sash.lang import bind_program
from sash.runtime.run import run_program

START = datetime(2026, 1, 1, tzinfo=UTC)
FIRST = int(START.timestamp()) * 1_000_000
RANGE = 40
BATCH = 50

Row = tuple[int, int, int]
"""Microseconds after the start, group, number."""


@dataclass
class Overload(Silent):
    """Stops the run when all rows have been read and every query has answered an instant after them."""

    last: int
    queries: int
    stop: threading.Event = field(default_factory=threading.Event)
    fares: list[dict[str, QueryRefreshStats]] = field(default_factory=list)

    def batch(self, report: BatchReport) -> None:
        fares = dict(report.refresh())
        self.fares.append(fares)
        reached = [each for each in fares.values() if each.at is not None and each.at >= self.last]
        if len(reached) == self.queries:
            self.stop.set()


def select(query: int) -> str:
    """Queries have conditions of their own, so none is answered along with another; every third is a view."""
    text = f"SELECT g, COUNT(*) AS c, SUM(n) AS s FROM s [RANGE {RANGE} US SLIDE {query % 3 + 1}0 US]"
    text = f"{text} WHERE n >= {query} GROUP BY g"
    return text if query % 3 == 0 else f"Rstream({text})"


def rows_of(count: int) -> list[Row]:
    return [(i, i * i % 3, i * 7 % 20) for i in range(count)]


def run_overloaded(
    directory: Path, rows: list[Row], queries: int, runtime: str, refresh: str = "elastic"
) -> Overload:
    (directory / "in").mkdir()
    for first in range(0, len(rows), BATCH):
        part = rows[first : first + BATCH]
        lines = [f"{(START + timedelta(microseconds=t)).isoformat()},{g},{n}" for t, g, n in part]
        (directory / "in" / f"{first:06}.csv").write_text("\n".join(("ts,g,n", *lines)) + "\n")
    program = (
        "CREATE STREAM s (ts TIMESTAMP, g BIGINT, n BIGINT) TIMESTAMP BY ts FROM 'csv:in/' "
        "WITH (watch = true, heartbeat = 0.01);\n"
    )
    for query in range(queries):
        program += f"CREATE QUERY q{query} INTO 'jsonl:q{query}.jsonl' AS {select(query)};\n"
    watch = Overload(FIRST + rows[-1][0], queries)
    run_program(
        bind_program(program),
        base_dir=directory,
        runtime=runtime,
        master="local[2]",
        checkpoint=directory / "state",
        batch_rows=BATCH,
        refresh=refresh,
        monitor=watch,
        stop=watch.stop,
    )
    return watch


def answers(directory: Path, query: int) -> Contents:
    """What a query held after each instant that it answered, in microseconds after the start."""
    held: Contents = {}
    bag: Counter[str] = Counter()
    for line in (directory / f"q{query}.jsonl").read_text().splitlines():
        row = json.loads(line)
        at = round((datetime.fromisoformat(row.pop("ts")) - START) / timedelta(microseconds=1))
        op = row.pop("op", None)
        if op is None and at not in held:
            bag = Counter()
        bag[json.dumps(row)] += -1 if op == "-" else 1
        held[at] = +bag
    return held


def right(rows: list[Row], query: int, at: int) -> Counter[str]:
    """The answer at an instant, from scratch."""
    groups: dict[int, list[int]] = {}
    for t, g, n in rows:
        if at - RANGE < t <= at and n >= query:
            groups.setdefault(g, []).append(n)
    return Counter(json.dumps({"g": g, "c": len(ns), "s": sum(ns)}) for g, ns in groups.items())
