"""many-queries: 2,000 standing queries over ten streams on Spark, refreshed exactly and elastically.

The queries have six conditions, four groupings and windows of 10 to 60 s that slide every 2 to 12 s; where a
condition follows from others they read each other's synopses. For each query answers at some instants are
compared with DuckDB's over the rows of the window. Decisions are those of the scheduler of elastic refresh.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sash.engine.observe.report import BatchReport, Silent
from sash.lang import bind_program
from sash.plan.refresh import MODES
from sash.plan.run_plan import plan_run
from sash.runtime.run import run_program
from sash_experiments.charts import draw_bars
from sash_experiments.result import Cell, Claim, Note, Result, silent

NAME = "many-queries"
TITLE = "2,000 queries over ten streams on Spark: answers, decisions, memory"

_CONDITIONS = ("", "k = 'a'", "k = 'b'", "k IN ('a', 'b')", "n < 50", "n >= 50 AND k = 'a'")
_GROUPINGS = ("", "g", "k", "g, k")
_AGGREGATES = ("COUNT(*)", "SUM(n)", "MAX(n)", "AVG(n)")
_WINDOWS = ((10, 2), (20, 2), (30, 4), (60, 6), (60, 12))
_LIMIT_MS = 1.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """`instants`: at so many are the answers of each query checked."""

    streams: int = 10
    queries: int = 2_000
    rows: int = 20_000
    seconds: int = 120
    batches: int = 8
    instants: int = 1


_SCALES = {"small": Sizes(), "paper": Sizes(rows=400_000, seconds=600, batches=24, instants=5)}


@dataclass(frozen=True, slots=True)
class Standing:
    """A query, and what it asks of its stream at an instant, for DuckDB."""

    name: str
    stream: str
    keys: str
    shown: str
    where: str
    range: int
    slide: int

    @property
    def text(self) -> str:
        group = f" GROUP BY {self.keys}" if self.keys else ""
        where = f" WHERE {self.where}" if self.where else ""
        window = f"[RANGE {self.range} SEC SLIDE {self.slide} SEC]"
        select = f"SELECT {self.columns} FROM {self.stream} {window}{where}{group}"
        return f"CREATE QUERY {self.name} INTO 'noop:' AS Rstream({select});\n"

    @property
    def columns(self) -> str:
        return f"{self.keys + ', ' if self.keys else ''}{self.shown}"

    def at(self, instant: int) -> str:
        """The same as SQL over the rows of the window at an instant, in microseconds."""
        window = f"us > {instant - self.range * 1_000_000} AND us <= {instant}"
        where = f"{window} AND ({self.where})" if self.where else window
        group = f" GROUP BY {self.keys}" if self.keys else ""
        return f"SELECT {self.columns} FROM {self.stream} WHERE {where}{group}"


@dataclass(slots=True)
class Watch(Silent):
    """Keeps the answers that are to be checked, and the figures of the batches."""

    wanted: Mapping[str, random.Random]
    instants: int
    answers: dict[str, dict[int, pa.Table]] = field(default_factory=lambda: defaultdict(dict))
    given: int = 0
    memory: int = 0
    state: int = 0
    answering: float = 0.0
    decisions: int = 0
    deciding: float = 0.0

    def batch(self, report: BatchReport) -> None:
        self.memory = max(self.memory, report.memory or 0)
        self.state = max(self.state, report.held.bytes)
        self.answering += report.parts.answer
        measures = report.measure()
        self.decisions, self.deciding = measures.decisions, measures.deciding
        for name, table in report.answers.items():
            instants = pc.unique(table.column("ts").cast(pa.int64()))
            self.given += len(instants)
            kept = self.answers[name]
            for instant in instants.to_pylist():
                # Now and then a later answer takes the place of the oldest that is kept.
                if len(kept) < self.instants or self.wanted[name].random() < 0.1:
                    if len(kept) >= self.instants:
                        kept.pop(next(iter(kept)))
                    at = pc.equal(table.column("ts").cast(pa.int64()), instant)
                    kept[instant] = table.filter(at).drop_columns(["ts"])


def measure(scale: str, note: Note = silent) -> Result:
    return measured(_SCALES[scale], "spark", scale, note)


def measured(sizes: Sizes, runtime: str, scale: str, note: Note = silent) -> Result:
    """The experiment at any size."""
    queries = workload(sizes)
    table: list[dict[str, Cell]] = []
    with tempfile.TemporaryDirectory(prefix="sash-many-queries-") as folder:
        directory = Path(folder)
        note("making streams", 0.0)
        streams = _write(directory, sizes)
        text = "".join((*(_declared(name) for name in streams), *(query.text for query in queries)))
        begun = time.perf_counter()
        program = bind_program(text)
        plan = plan_run(program)
        planning = time.perf_counter() - begun
        synopses = [spec for spec in plan.synopses if spec.of is None]
        for step, refresh in enumerate(MODES):
            note(f"{refresh} refresh of {len(queries):,} queries", 0.1 + 0.45 * step)
            watch = Watch({query.name: random.Random(query.name) for query in queries}, sizes.instants)
            begun = time.perf_counter()
            run_program(
                program,
                base_dir=directory,
                runtime=runtime,
                master="local[2]",
                batch_rows=sizes.rows * sizes.streams // sizes.batches,
                refresh=refresh,
                monitor=watch,
            )
            seconds = time.perf_counter() - begun
            checked, wrong = check(queries, streams, watch.answers)
            table.append(
                {
                    "refresh": refresh,
                    "queries": len(queries),
                    "synopses kept": sum(spec.cover is None for spec in synopses),
                    "read from others": sum(spec.cover is not None for spec in synopses),
                    "answers": watch.given,
                    "checked": checked,
                    "wrong": wrong,
                    "seconds": seconds,
                    "planning seconds": planning,
                    "answering seconds": watch.answering,
                    "decisions": watch.decisions,
                    "decision ms": 1e3 * watch.deciding / watch.decisions if watch.decisions else None,
                    "state MB": watch.state / 1e6,
                    "driver MB": watch.memory / 1e6,
                }
            )
    return Result(NAME, TITLE, scale, table, _claims(table, len(queries)))


def _claims(table: list[dict[str, Cell]], queries: int) -> list[Claim]:
    wrong, checked = (sum(int(row[column] or 0) for row in table) for column in ("wrong", "checked"))
    decision = float(table[-1]["decision ms"] or 0)
    return [
        Claim(
            "answers",
            "no answer is wrong",
            "0 wrong",
            f"{wrong} of {checked:,} checked, of each query",
            wrong == 0 and checked >= queries,
        ),
        Claim(
            "decision",
            "a decision takes less than a millisecond",
            f"< {_LIMIT_MS:g} ms",
            f"{decision:.3f} ms on the average of {table[-1]['decisions']:,}",
            decision < _LIMIT_MS,
        ),
    ]


def workload(sizes: Sizes) -> list[Standing]:
    """Queries in all combinations, dealt to the streams."""
    chance = random.Random(7)
    queries = []
    for number in range(sizes.queries):
        shown = chance.sample(_AGGREGATES, 2)
        range_, slide = chance.choice(_WINDOWS)
        queries.append(
            Standing(
                f"q{number}",
                f"s{number % sizes.streams}",
                chance.choice(_GROUPINGS),
                ", ".join(f"{call} AS c{i}" for i, call in enumerate(shown)),
                chance.choice(_CONDITIONS),
                range_,
                slide,
            )
        )
    return queries


def _declared(stream: str) -> str:
    return (
        f"CREATE STREAM {stream} (ts TIMESTAMP, g BIGINT, k STRING, n BIGINT) TIMESTAMP BY ts "
        f"FROM 'parquet:{stream}.parquet';\n"
    )


def _write(directory: Path, sizes: Sizes) -> dict[str, pa.Table]:
    streams = {}
    for number in range(sizes.streams):
        draw = np.random.default_rng(number)
        us = np.sort(draw.integers(0, sizes.seconds * 1_000_000, sizes.rows)) + 1_700_000_000_000_000
        n = draw.integers(0, 100, sizes.rows)
        table = pa.table(
            {
                "ts": pa.array(us).cast(pa.timestamp("us", tz="UTC")),
                "g": draw.integers(0, 10, sizes.rows),
                "k": pa.array(["a", "b", "c", None]).take(pa.array(draw.integers(0, 4, sizes.rows))),
                "n": pa.array(n, mask=n == 0),
            }
        )
        groups = max(1, sizes.rows // (4 * sizes.batches))
        pq.write_table(table, directory / f"s{number}.parquet", row_group_size=groups)
        streams[f"s{number}"] = table.append_column("us", pa.array(us))
    return streams


def check(
    queries: list[Standing], streams: Mapping[str, pa.Table], answers: Mapping[str, Mapping[int, pa.Table]]
) -> tuple[int, int]:
    """How many answers were compared with DuckDB's, and how many were not the same."""
    checked = wrong = 0
    with duckdb.connect() as connection:
        for name, table in streams.items():
            connection.register(name, table)
        for query in queries:
            for instant, given in answers.get(query.name, {}).items():
                right = connection.sql(query.at(instant)).to_arrow_table()
                checked += 1
                wrong += _bag(given) != _bag(right)
    return checked, wrong


def _bag(table: pa.Table) -> Counter[tuple[object, ...]]:
    columns = [
        [
            round(float(v), 9) if isinstance(v, float) else v if v is None or isinstance(v, str) else int(v)
            for v in c
        ]
        for c in (column.to_pylist() for column in table.columns)
    ]
    return Counter(zip(*columns, strict=True))


def draw(result: Result, path: Path) -> None:
    names = [str(row["refresh"]) for row in result.table]
    columns = ("seconds", "answering seconds", "planning seconds")
    bars = {column: [float(row[column] or 0) for row in result.table] for column in columns}
    draw_bars(f"{result.table[0]['queries']:,} queries ({result.scale})", "seconds", names, bars, path)
