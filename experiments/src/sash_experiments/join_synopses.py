"""join-synopses: what do more queries over one join cost, with join synopses and with operators alone?

Two streams are joined by a key; queries ask for COUNT, SUM, MAX and AVG by group over windows of different
lengths. With `WITH (strategy = 'upa')` each has its own join and its own rows of results; without, one join
feeds one synopsis (002, section 8.3.2). Both run inline over the same rows, in one process, after a run to
warm up; time is that of the processor. Answers are compared.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sash.engine.observe.report import BatchReport, Silent
from sash.lang import bind_program
from sash.runtime.run import run_program
from sash_experiments.charts import Panel, draw_lines
from sash_experiments.result import Cell, Claim, Note, Result, silent

NAME = "join-synopses"
TITLE = "many aggregates over one join: join synopses against a join for each"

_CALLS = ("COUNT(*)", "SUM(b.n)", "MAX(b.n)", "AVG(a.n)")
_WAYS = {"synopses": "", "operators": " WITH (strategy = 'upa')"}


@dataclass(frozen=True, slots=True)
class Sizes:
    """`rows` of each stream, in so many `seconds`."""

    rows: int = 200_000
    seconds: int = 200
    keys: int = 10_000
    groups: int = 100
    queries: tuple[int, ...] = (1, 4, 12)


SCALES = {"small": Sizes(), "paper": Sizes(rows=1_000_000, seconds=1000, queries=(1, 4, 16, 48))}


def measure(scale: str, note: Note = silent) -> Result:
    return measure_at(SCALES[scale], scale, note)


def measure_at(sizes: Sizes, scale: str, note: Note = silent) -> Result:
    rows: list[dict[str, Cell]] = []
    with tempfile.TemporaryDirectory(prefix="sash-join-synopses-") as name:
        folder = Path(name)
        _write(folder, sizes)
        for way in _WAYS:
            _run(folder, way, 1)
        for done, count in enumerate(sizes.queries):
            for way in _WAYS:
                note(f"{count} queries, {way}", done / len(sizes.queries))
                seconds, state = _run(folder, way, count)
                rows.append({"queries": count, "way": way, "CPU s": seconds, "state MB": state / 1e6})
            if any(_answers(folder, "synopses", i) != _answers(folder, "operators", i) for i in range(count)):
                raise AssertionError("answers depend on how they are computed")
    return Result(NAME, TITLE, scale, rows, _claims(rows))


def _write(folder: Path, sizes: Sizes) -> None:
    rng = np.random.default_rng(8)
    for name in ("a", "b"):
        table = pa.table(
            {
                "ts": pa.array(np.sort(rng.integers(0, sizes.seconds * 10**6, sizes.rows))).cast(
                    pa.timestamp("us")
                ),
                "k": rng.integers(0, sizes.keys, sizes.rows),
                "g": rng.integers(0, sizes.groups, sizes.rows),
                "n": rng.integers(0, 1500, sizes.rows),
            }
        )
        pq.write_table(table, folder / f"{name}.parquet")


def _run(folder: Path, way: str, count: int) -> tuple[float, int]:
    """Seconds of the processor, and the bytes of state when there were most."""
    streams = (
        f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, g BIGINT, n BIGINT) TIMESTAMP BY ts "
        f"FROM 'parquet:{name}.parquet';\n"
        for name in ("a", "b")
    )
    queries = (
        f"CREATE QUERY q{i} INTO 'jsonl:{way}{i}.jsonl' AS SELECT a.g, {_CALLS[i % 4]} AS c "
        f"FROM a [RANGE {20 + 5 * (i % 5)} SEC SLIDE 5 SEC], b [RANGE {20 + 5 * (i % 7)} SEC SLIDE 5 SEC] "
        f"WHERE a.k = b.k GROUP BY a.g{_WAYS[way]};\n"
        for i in range(count)
    )
    program, most = bind_program("".join((*streams, *queries))), _Most()
    began = time.process_time()
    run_program(program, base_dir=folder, runtime="inline", batch_rows=50_000, monitor=most)
    return time.process_time() - began, most.bytes


class _Most(Silent):
    bytes = 0

    def batch(self, report: BatchReport) -> None:
        self.bytes = max(self.bytes, sum(held.bytes for held in report.state.values()))


def _answers(folder: Path, way: str, number: int) -> list[str]:
    return sorted((folder / f"{way}{number}.jsonl").read_text().splitlines())


def _claims(rows: list[dict[str, Cell]]) -> list[Claim]:
    most = max(int(row["queries"] or 0) for row in rows)
    last = {str(row["way"]): row for row in rows if row["queries"] == most}
    claims = []
    for column, what in (("CPU s", "processor time"), ("state MB", "state")):
        ratio = float(last["operators"][column] or 0) / float(last["synopses"][column] or 1)
        claims.append(
            Claim(
                column.split()[0].lower(),
                f"{most} queries over one join take less {what} with a join synopsis, for the same answers",
                "≥ 2× (our bound, not a published one)",
                f"{ratio:.1f}×",
                ratio >= 2,
            )
        )
    return claims


def draw(result: Result, path: Path) -> None:
    panels = [
        Panel(
            column,
            "queries",
            column,
            {
                way: [
                    (float(row["queries"] or 0), float(row[column] or 0))
                    for row in result.table
                    if row["way"] == way
                ]
                for way in _WAYS
            },
        )
        for column in ("CPU s", "state MB")
    ]
    draw_lines(f"Aggregates over one join ({result.scale})", panels, path)
