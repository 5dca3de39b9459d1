"""Many threads at one run: some ask, some add and drop queries, one looks, one stops and starts.

`python -m sash.testing.concurrency [MINUTES] [SEED] [RUNTIME]` runs sessions over generated packets, whose
rows are a function of their number, so the truth of every answer is recomputed by DuckDB from the rows with
timestamps in its window. Checked are all answers of one-time questions, and of the queries that come and go;
every exception must be a SashError that has a reason to be there.
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from sash.connectors.sources import Chunk
from sash.connectors.sources.packets import read_packets
from sash.errors import SashError
from sash.session import Session, connect
from sash.session.once import INSTANT
from sash.testing.runs import bound

_SECOND = 1_000_000
_START = 1_767_225_600 * _SECOND
"""2026-01-01, which is where generated packets begin."""
RATE = 1000
RETAIN = 30
KEEPING, BARE = "p", "q"
"""A stream that keeps rows, and one that does not."""
_STREAM = """
CREATE STREAM {name} (ts TIMESTAMP, src STRING, proto STRING, port BIGINT, length BIGINT)
  TIMESTAMP BY ts {retain} FROM 'generator:packets' WITH (rate = {rate}, hosts = 60, seed = {seed}{pace});
"""
_BASE = """
CREATE QUERY base_{name} INTO 'noop:' AS
  SELECT src, COUNT(*) AS n, SUM(length) AS s FROM {name} [RANGE 20 SEC SLIDE 1 SEC] GROUP BY src;
"""
# How long a session lasts.
_MOST_SECONDS = 60.0
# What may be refused, always or only for a stream that keeps no rows.
_BEFORE_THE_FIRST = frozenset({"nothing-yet"})
_AFTER_THE_LAST = frozenset({"endless-input", "closed", "nothing-yet"})
_UNKEPT = frozenset({"not-kept"})
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Template:
    """A question or a query: what it selects `of` a window, and the same for DuckDB over the rows `w`."""

    select: str
    rest: str = ""
    is_join: bool = False

    def cql(self, stream: str, window: str) -> str:
        source = f"{stream} {window} a, {stream} {window} b" if self.is_join else f"{stream} {window}"
        return f"SELECT {self.select} FROM {source} {self.rest}"

    def duckdb(self) -> str:
        source = "w a, w b" if self.is_join else "w"
        return f"SELECT {self.select} FROM {source} {self.rest}"


_COVERED = (
    Template("src, COUNT(*) AS n", "GROUP BY src"),
    Template("src, COUNT(*) AS n, SUM(length) AS s", "GROUP BY src"),
)
_AGGREGATES = (
    *_COVERED,
    Template("COUNT(*) AS n"),
    Template("COUNT(*) AS n, SUM(length) AS s, MAX(length) AS m"),
    Template("proto, COUNT(*) AS n, MIN(length) AS m", "GROUP BY proto"),
    Template("port, SUM(length) AS s", "WHERE proto = 'udp' GROUP BY port"),
    Template("src, COUNT(DISTINCT port) AS d", "GROUP BY src"),
    Template("src, COUNT(*) AS n", "WHERE length > 1000 GROUP BY src HAVING COUNT(*) > 3"),
)
_ROWS = (
    Template("DISTINCT port", ""),
    Template("src, port, length", "WHERE port = 22"),
    Template("COUNT(*) AS n", "WHERE a.src = b.src AND a.port < b.port", is_join=True),
)


def truth(name: str, template: Template, instant: int, span: float, slide: float | None) -> list[Row]:
    """The answer by definition: the template over the rows of (τ - span, τ] of a stream."""
    if slide is not None:
        step = round(slide * _SECOND)
        instant = instant // step * step
    since = instant - round(span * _SECOND)
    first, last = (max(0, ((at - _START) * RATE) // _SECOND + 1) for at in (since, instant))
    connection = _connection()
    connection.register("w", _rows(name, int(first), int(last)))
    return _sorted(connection.execute(template.duckdb()).fetchall())


_local = threading.local()


def _connection() -> duckdb.DuckDBPyConnection:
    """DuckDB for this thread: to connect takes longer than most questions."""
    if not hasattr(_local, "connection"):
        _local.connection = duckdb.connect(config={"threads": 1})
    connection: duckdb.DuckDBPyConnection = _local.connection
    return connection


def _rows(name: str, first: int, last: int) -> pa.Table:
    (stream,) = bound(_stream(name, pace=False)).streams
    columns = list(stream.schema.names)
    if last <= first:
        first, last = 0, 1
        return _read(stream, first, last, columns).slice(0, 0)
    return _read(stream, first, last, columns)


def _read(stream: Any, first: int, last: int, columns: Sequence[str]) -> pa.Table:
    chunk = Chunk(stream.name, 0, stream.source, first, last - first, first, last)
    return read_packets(stream, chunk, columns).table


def _stream(name: str, *, pace: bool) -> str:
    retain = f"RETAIN {RETAIN} SEC" if name == KEEPING else ""
    return _STREAM.format(
        name=name,
        retain=retain,
        rate=RATE,
        seed=1 if name == KEEPING else 2,
        pace=", pace = true" if pace else "",
    )


def _sorted(rows: Sequence[Row]) -> list[Row]:
    return sorted((tuple(row) for row in rows), key=repr)


def _given(table: pa.Table) -> list[Row]:
    return _sorted(list(zip(*(column.to_pylist() for column in table.columns), strict=True)))


@dataclass(slots=True)
class Tally:
    """What was seen, over all threads."""

    questions: int = 0
    answered: int = 0
    standing: int = 0
    queries: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    longest: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, **what: int) -> None:
        with self._lock:
            for name, number in what.items():
                setattr(self, name, getattr(self, name) + number)

    def refuse(self, id: str) -> None:
        with self._lock:
            self.refused[id] += 1

    def lasted(self, seconds: float) -> None:
        with self._lock:
            self.longest = max(self.longest, seconds)

    def fault(self, what: str) -> None:
        with self._lock:
            self.faults.append(what)

    def __str__(self) -> str:
        refused = ", ".join(f"{count} x {id}" for id, count in sorted(self.refused.items())) or "none"
        return (
            f"{self.questions:,} questions, {self.answered:,} answered (at most {self.longest:.2f} s), "
            f"refused: {refused}; {self.queries:,} queries came, {self.standing:,} of their answers checked; "
            f"{len(self.faults)} faults"
        )


@dataclass(slots=True)
class Concurrency:
    """Threads against sessions of one kind, one session after the other."""

    directory: Path
    seed: int = 0
    runtime: str = "inline"
    batch_rows: int = 1000
    pace: bool = False
    has_checkpoint: bool = False
    partitions: int | None = None
    askers: int = 4
    changers: int = 3
    record_history: bool = False
    tally: Tally = field(default_factory=Tally)
    _number: int = 0

    def run(self, seconds: float) -> Tally:
        """Let all threads work for so long on one session; one with a checkpoint goes on from the last."""
        self._number += 1
        directory = self.directory / ("run1" if self.has_checkpoint else f"run{self._number}")
        directory.mkdir(parents=True, exist_ok=True)
        session = connect(
            directory,
            self.runtime,
            "local[2]",
            checkpoint=directory / "checkpoint" if self.has_checkpoint else None,
            batch_rows=self.batch_rows,
            dead_letters=directory / "dead-letters",
            partitions=self.partitions,
            record_history=directory / "history.jsonl" if self.record_history else None,
        )
        with session:
            for name in (KEEPING, BARE):
                session.sql(_stream(name, pace=self.pace) + _BASE.format(name=name))
            session.start()
            self._wait_for_first(session)
            end = time.monotonic() + seconds
            works: list[Callable[[random.Random, Session, float], None]] = [
                *[self._ask] * self.askers,
                *[self._change] * self.changers,
                self._look,
            ]
            threads = [
                threading.Thread(
                    target=self._guarded,
                    args=(work, random.Random(f"{self.seed} {self._number} {i}"), session, end),
                    daemon=True,
                )
                for i, work in enumerate(works)
            ]
            for thread in threads:
                thread.start()
            while time.monotonic() < end and session.state == "running":
                time.sleep(0.1)
            if session.state != "running":
                self.tally.fault(f"the run is over: {session.state}")
            # Others still ask while the run stops.
            session.stop()
            for thread in threads:
                thread.join(120)
                if thread.is_alive():
                    self.tally.fault("a thread hangs")
        return self.tally

    def _wait_for_first(self, session: Session) -> None:
        while True:
            try:
                session.ask(f"SELECT COUNT(*) AS n FROM {KEEPING} [RANGE 1 SEC]")
                return
            except SashError as refused:
                if refused.id not in _BEFORE_THE_FIRST or session.state != "running":
                    raise
                time.sleep(0.02)

    def _guarded(
        self,
        work: Callable[[random.Random, Session, float], None],
        draw: random.Random,
        session: Session,
        end: float,
    ) -> None:
        try:
            work(draw, session, end)
        except Exception:
            self.tally.fault(traceback.format_exc())

    # ------------------------------------------------------------------ one-time questions

    def _ask(self, draw: random.Random, session: Session, end: float) -> None:
        while time.monotonic() < end:
            self._ask_once(draw, session)

    def _ask_once(self, draw: random.Random, session: Session) -> None:
        name = draw.choice((KEEPING, KEEPING, BARE))
        must = True
        template = draw.choice((*_AGGREGATES, *_ROWS))
        span: float = draw.choice((1, 2, 3, 5, 7.5, 10, 15, 20, 25))
        slide = draw.choice((None, None, 1, 2))
        if template.is_join:
            span, slide = draw.choice((0.5, 1)), None
        if name == BARE:
            # Only what the base query keeps can be answered for sure, and only at its boundaries.
            template = draw.choice((*_COVERED, template))
            reach = 20 - (slide or 0) + 1
            must = template in _COVERED and slide is not None and span <= reach and span == int(span)
        window = _window(span, slide)
        text = template.cql(name, window)
        isolation = draw.choice((None, None, "ws"))
        self.tally.count(questions=1)
        began = time.monotonic()
        try:
            table = session.ask(text, isolation=isolation)
        except SashError as refused:
            self._refused(refused, text, session, must)
            return
        self.tally.lasted(time.monotonic() - began)
        instant = int((table.schema.metadata or {})[INSTANT])
        right = truth(name, template, instant, span, slide)
        given = _given(table)
        if given != right:
            self.tally.fault(_wrong(text, instant, given, right))
        self.tally.count(answered=1)

    def _refused(self, refused: SashError, text: str, session: Session, must: bool) -> None:
        allowed: frozenset[str] = frozenset() if must else _UNKEPT
        if session.state != "running":
            allowed |= _AFTER_THE_LAST
        if refused.id in allowed:
            self.tally.refuse(refused.id)
        else:
            self.tally.fault(f"refused: {text}\n{refused.render()}\n{traceback.format_exc()}")

    # ------------------------------------------------------------------ queries that come and go

    def _change(self, draw: random.Random, session: Session, end: float) -> None:
        number = 0
        mine = f"c{draw.randrange(1 << 30)}"
        while time.monotonic() < end:
            name = draw.choice((KEEPING, BARE))
            template = draw.choice(_AGGREGATES)
            span = draw.choice((1, 2, 3, 5, 7.5, 10, 20))
            slide = draw.choice((1, 1, 2, 0.5))
            number += 1
            title = f"{mine}_{number}"
            text = f"Rstream({template.cql(name, _window(span, slide))})"
            try:
                handle = session.query(text, name=title)
                self.tally.count(queries=1)
                answers = iter(handle)
                for _ in range(draw.choice((0, 1, 3))):
                    answer = next(answers, None)
                    if answer is None:
                        break
                    instant = _microseconds(answer.at)
                    right = truth(name, template, instant, span, slide)
                    if (given := _given(answer.rows)) != right:
                        self.tally.fault(_wrong(text, instant, given, right))
                    self.tally.count(standing=1)
                answers.close()
                session.sql(f"DROP QUERY {title}")
            except SashError as refused:
                if session.state == "running" or refused.id not in _AFTER_THE_LAST:
                    self.tally.fault(f"refused: {text}\n{refused.render()}\n{traceback.format_exc()}")

    # ------------------------------------------------------------------ one who looks

    def _look(self, draw: random.Random, session: Session, end: float) -> None:
        while time.monotonic() < end:
            session.sql("SHOW QUERIES")
            repr(session)
            time.sleep(0.01 * draw.random())


def _window(span: float, slide: float | None) -> str:
    slides = "" if slide is None else f" SLIDE {_length(slide)}"
    return f"[RANGE {_length(span)}{slides}]"


def _length(seconds: float) -> str:
    return f"{seconds:g} SEC" if seconds == int(seconds) else f"{round(1000 * seconds)} MS"


def _microseconds(at: Any) -> int:
    return int(pa.scalar(at, pa.timestamp("us", tz="UTC")).value)


def _wrong(text: str, instant: int, given: Sequence[Row], right: Sequence[Row]) -> str:
    since = (instant - _START) / _SECOND
    shown = f"  given {given[:4]} ({len(given)})\n  right {right[:4]} ({len(right)})"
    return f"wrong at {since:g} s: {text}\n{shown}"


def attack(seconds: float, seed: int, runtime: str, say: Callable[[str], None]) -> Tally:
    """Sessions of several kinds in turn, for so long all together; all are stopped while they are asked."""
    tally = Tally()
    kinds = ((False, False, 300), (False, True, 1000), (False, False, 3000), (True, False, 1000))
    with tempfile.TemporaryDirectory(prefix="sash-") as directory:
        attacked = [
            Concurrency(
                Path(directory) / str(number),
                seed,
                runtime,
                rows,
                pace=pace,
                has_checkpoint=has_checkpoint,
                tally=tally,
            )
            for number, (pace, has_checkpoint, rows) in enumerate(kinds)
        ]
        rounds = max(1, round(seconds / len(kinds) / _MOST_SECONDS))
        for one in attacked * rounds:
            one.run(seconds / len(kinds) / rounds)
            kind = f"{', paced' * one.pace}{', with a checkpoint' * one.has_checkpoint}"
            say(f"{one.batch_rows} rows a batch{kind}: {tally}")
    return tally


def main(arguments: Sequence[str]) -> int:
    minutes = float(arguments[0]) if arguments else 2.0
    seed = int(arguments[1]) if len(arguments) > 1 else random.randrange(1 << 30)
    runtime = arguments[2] if len(arguments) > 2 else "inline"
    print(f"seed {seed}, {runtime}", flush=True)
    tally = attack(60 * minutes, seed, runtime, lambda text: print(text, flush=True))
    for fault, count in Counter(tally.faults).most_common(20):
        print(f"--- {count} x\n{fault}")
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
