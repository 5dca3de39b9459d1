"""spark-operators: how near do keyed operators come to a Spark stage that does nothing?

Two Parquet streams with a key are read by Spark and handed through an empty `mapInArrow`, and then by a join,
a DISTINCT and a NOT EXISTS by key, whose windows hold a million tuples. Every fifth tuple finds a partner;
the busy join, of which nothing is claimed, gives five times as many results. All runs share one Spark
session; each is measured from the end of the batch that fills its windows to the end of its last, so neither
start-up nor the filling counts. Only the ratios mean anything elsewhere.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sash.engine.observe.report import BatchReport, Silent
from sash.lang import bind_program
from sash.runtime.run import run_program
from sash.runtime.spark.scan import empty_stage
from sash.runtime.spark.session import spark_session
from sash_experiments.result import Claim, Note, Result, silent

NAME = "spark-operators"
TITLE = "rows a second of keyed operators on Spark, against an empty mapInArrow stage"

_STREAMS = """
CREATE STREAM a (t BIGINT, k BIGINT, g BIGINT, v BIGINT) TIMESTAMP BY t
  FROM 'parquet:{folder}/a' WITH (unit = 'ms');
CREATE STREAM b (t BIGINT, k BIGINT, g BIGINT, v BIGINT) TIMESTAMP BY t
  FROM 'parquet:{folder}/b' WITH (unit = 'ms');
"""
_QUERIES = {
    "join": "SELECT a.k, a.v, b.v AS w FROM a [RANGE {half} MS], b [RANGE {half} MS] WHERE a.k = b.k",
    "DISTINCT": "SELECT DISTINCT g FROM a [RANGE {half} MS] UNION SELECT g FROM b [RANGE {half} MS]",
    "NOT EXISTS": "SELECT a.g, a.v FROM a [RANGE {half} MS] "
    "WHERE NOT EXISTS (SELECT * FROM b [RANGE {half} MS] WHERE a.g = b.g)",
    "busy join": "SELECT a.g, a.v, b.v AS w FROM a [RANGE {half} MS], b [RANGE {half} MS] WHERE a.g = b.g",
}
_CLAIMED = ("join", "DISTINCT", "NOT EXISTS")


@dataclass(frozen=True, slots=True)
class _Scale:
    """`window`: tuples that the windows of both streams hold together."""

    rows: int
    batch: int
    window: int = 1_000_000
    keys: int = 2_500_000
    groups: int = 500_000
    rate: int = 500

    @property
    def half(self) -> int:
        """Milliseconds in which one stream brings half of the window."""
        return self.window // 2 // self.rate


_SCALES = {"small": _Scale(14_000_000, 2_000_000), "paper": _Scale(60_000_000, 2_000_000)}
_WARM = _Scale(600_000, 200_000, window=100_000)


def measure(scale: str, note: Note = silent) -> Result:
    sizes = _SCALES[scale]
    with tempfile.TemporaryDirectory(prefix="sash-spark-operators-") as folder:
        directory = Path(folder)
        note("making streams", 0.0)
        _write(directory / "warm", _WARM)
        _write(directory / "rows", sizes)
        note("starting Spark", 0.1)
        with spark_session("local[2]", directory / "spark.log", optimising=True):
            note("warming up", 0.2)
            empty_stage([directory / "warm" / "a", directory / "warm" / "b"], 1)
            for name in _QUERIES:
                _run(directory, "warm", name, _WARM)
            streams = [directory / "rows" / name for name in ("a", "b")]
            files = max(1, sizes.batch // 2 // _FILE_ROWS)
            note("an empty stage", 0.35)
            before = empty_stage(streams, files)
            runs: dict[str, _Timed] = {}
            for done, name in enumerate(_QUERIES):
                note(name, 0.45 + 0.12 * done)
                runs[name] = _run(directory, "rows", name, sizes)
            note("an empty stage again", 0.95)
            after = empty_stage(streams, files)
    # The machine may speed up or slow down meanwhile: before and after stand for it together.
    limit = (before + after) / 2
    table: list[dict[str, str | int | float | None]] = [
        {
            "run": "empty mapInArrow",
            "rows/s": limit,
            "of it": 1.0,
            "changes a row": None,
            "later/earlier": None,
        }
    ]
    for name, run in runs.items():
        table.append(
            {
                "run": name,
                "rows/s": run.throughput,
                "of it": run.throughput / limit,
                "changes a row": run.changes / sum(run.rows),
                "later/earlier": run.growth,
            }
        )
    return Result(NAME, TITLE, scale, table, _claims(limit, runs))


def _claims(limit: float, runs: Mapping[str, _Timed]) -> list[Claim]:
    claims = []
    for name in _CLAIMED:
        share = runs[name].throughput / limit
        claims.append(
            Claim(
                f"{name.lower().replace(' ', '-')}-of-empty",
                f"{name} with a million tuples in its windows runs at 0.6 of an empty stage or better",
                "≥ 0.6",
                f"{share:.2f}",
                share >= 0.6,
            )
        )
    worst = max(run.growth for run in runs.values())
    claims.append(
        Claim(
            "batch-time",
            "the time of a batch does not grow with the number of batches done",
            "< 1.25 from the first half of the full windows to the second",
            f"{worst:.2f}",
            worst < 1.25,
        )
    )
    return claims


_FILE_ROWS = 250_000


def _write(directory: Path, sizes: _Scale) -> None:
    random = np.random.default_rng(7)
    for name in ("a", "b"):
        (directory / name).mkdir(parents=True)
        for number, start in enumerate(range(0, sizes.rows // 2, _FILE_ROWS)):
            count = min(_FILE_ROWS, sizes.rows // 2 - start)
            table = pa.table(
                {
                    "t": np.arange(start, start + count) // sizes.rate,
                    "k": random.integers(0, sizes.keys, count),
                    "g": random.integers(0, sizes.groups, count),
                    "v": random.integers(0, 1_000, count),
                }
            )
            pq.write_table(table, directory / name / f"{number:05d}.parquet")


@dataclass
class _Timed(Silent):
    """Watches a run: when its batches ended, and how many rows they had."""

    full: int
    ends: list[float] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    changes: int = 0

    def batch(self, report: BatchReport) -> None:
        self.ends.append(time.perf_counter())
        self.rows.append(report.rows)
        self.changes = sum(report.answered.values())

    @property
    def _first(self) -> int:
        """The batch with which the windows are full."""
        filled = np.cumsum(self.rows)
        return int(np.searchsorted(filled, self.full))

    @property
    def throughput(self) -> float:
        first = self._first
        return sum(self.rows[first + 1 :]) / (self.ends[-1] - self.ends[first])

    @property
    def growth(self) -> float:
        """How much longer the later batches took than the earlier ones, once windows were full."""
        seconds = np.diff(self.ends[self._first : -1])
        half = len(seconds) // 2
        return float(np.median(seconds[half:]) / np.median(seconds[:half]))


def _run(directory: Path, source: str, name: str, sizes: _Scale) -> _Timed:
    timed = _Timed(sizes.window)
    query = _QUERIES[name].format(half=sizes.half)
    text = _STREAMS.format(folder=source) + f"CREATE QUERY q INTO 'noop:' AS {query};"
    run_program(
        bind_program(text),
        base_dir=directory,
        master="local[2]",
        batch_rows=sizes.batch,
        monitor=timed,
    )
    return timed


def draw(result: Result, path: Path) -> None:
    figure, axes = plt.subplots(figsize=(7, 3.5))
    names = [str(row["run"]) for row in result.table]
    rates = [float(row["rows/s"] or 0) / 1e6 for row in result.table]
    bars = axes.barh(names, rates, color=["#999999", *["#4477aa"] * (len(names) - 1)])
    axes.bar_label(bars, [f"{rate:.2f}" for rate in rates], padding=3)
    axes.axvline(0.6 * rates[0], color="#cc6677", linestyle="--", label="0.6 of the empty stage")
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_xlabel("million rows a second")
    axes.set_title(f"{NAME} ({result.scale})")
    axes.legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
