"""driver-groups: a million groups on Spark, with the driver, in partitions, and moved meanwhile.

One stream of numbers with a key of a million values; a window that holds most of them slides on with every
batch, and HAVING lets a few of the groups through. Each run has a process of its own, so that its memory is
its own. Whatever the limit, the answers must be the same to the row; with the limit the driver holds none of
the groups.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sash.engine.observe.report import DRIVER, BatchReport, Silent
from sash.lang import bind_program
from sash.runtime.run import run_program
from sash_experiments.charts import draw_bars
from sash_experiments.result import Cell, Claim, Note, Result, silent

NAME = "driver-groups"
TITLE = "a million groups on Spark: with the driver, in partitions, and moved while the run goes on"

_PROGRAM = """
CREATE STREAM s (t BIGINT, g BIGINT, v BIGINT) TIMESTAMP BY t FROM 'parquet:rows' WITH (unit = 'ms');
CREATE QUERY heavy INTO 'jsonl:{out}.jsonl' AS
  SELECT g, SUM(v) AS total, MAX(v) AS most FROM s [RANGE {range} MS SLIDE {slide} MS]
  GROUP BY g HAVING SUM(v) > {least};
"""
_RATE = 50


@dataclass(frozen=True, slots=True)
class Sizes:
    """`panes` of a window, which slides on by one with every batch."""

    groups: int = 1_000_000
    batch: int = 500_000
    panes: int = 3
    batches: int = 8

    @property
    def slide(self) -> int:
        return self.batch // _RATE


SCALES = {"small": Sizes(), "paper": Sizes(groups=4_000_000, batch=2_000_000, batches=24)}


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds are the median of a batch with a full window; bytes are the most that there were."""

    seconds: float
    driver_state: int
    partition_state: int
    driver_memory: int
    groups: int
    answers: int
    digest: str


class _Watch(Silent):
    def __init__(self) -> None:
        self.reports: list[BatchReport] = []

    def batch(self, report: BatchReport) -> None:
        self.reports.append(report)


def measure(scale: str, note: Note = silent) -> Result:
    sizes = SCALES[scale]
    limits = {"driver": sizes.groups, "moved meanwhile": sizes.groups // 2, "partitions": 0}
    found: dict[str, Measured] = {}
    with tempfile.TemporaryDirectory(prefix="sash-driver-groups-") as folder:
        note("making the stream", 0.0)
        write(Path(folder), sizes)
        for done, (name, limit) in enumerate(limits.items()):
            note(f"groups: {name}", 0.1 + 0.3 * done)
            context = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(1, mp_context=context) as process:
                found[name] = process.submit(measured, Path(folder), sizes, limit).result()
    table: list[dict[str, Cell]] = [
        {
            "groups": name,
            "s a batch": each.seconds,
            "state of the driver, MB": each.driver_state / 1e6,
            "of a partition, MB": each.partition_state / 1e6,
            "memory of the driver, MB": each.driver_memory / 1e6,
            "groups at the end": each.groups,
            "answers": each.answers,
        }
        for name, each in found.items()
    ]
    return Result(NAME, TITLE, scale, table, _claims(found))


def measured(folder: Path, sizes: Sizes, limit: int, runtime: str = "spark") -> Measured:
    """Run with a limit on the groups of the driver."""
    out = f"limit-{limit}"
    # So few groups have more than the mean and three times what it varies by.
    per_group = sizes.batch * sizes.panes / sizes.groups
    least = int(500 * (per_group + 3 * per_group**0.5))
    text = _PROGRAM.format(out=out, range=sizes.panes * sizes.slide, slide=sizes.slide, least=least)
    watch = _Watch()
    run_program(
        bind_program(text),
        base_dir=folder,
        runtime=runtime,
        master="local[2]",
        partitions=2,
        batch_rows=sizes.batch,
        max_driver_groups=limit,
        monitor=watch,
    )
    full = watch.reports[sizes.panes + 1 : -1]
    lines = sorted((folder / f"{out}.jsonl").read_bytes().splitlines())
    last = watch.reports[-1]
    return Measured(
        float(np.median([report.seconds for report in full])),
        max(report.state[DRIVER].bytes for report in full),
        max((h.bytes for report in full for place, h in report.state.items() if place != DRIVER), default=0),
        max(report.memory or 0 for report in watch.reports),
        last.held.groups,
        len(lines),
        hashlib.sha256(b"\n".join(lines)).hexdigest(),
    )


def _claims(found: dict[str, Measured]) -> list[Claim]:
    here, there = found["driver"], found["partitions"]
    digests = {each.digest for each in found.values()}
    share = there.driver_state / here.driver_state
    return [
        Claim(
            "answers",
            "the answers do not depend on where the groups are",
            "equal",
            f"{len(digests)} different, {here.answers:,} rows",
            len(digests) == 1 and here.answers > 0,
        ),
        Claim(
            "driver-state",
            "the driver holds next to nothing of a grouping in partitions",
            "< 0.1 of its state",
            f"{share:.4f}",
            share < 0.1,
            f"{there.driver_state / 1e6:.1f} MB instead of {here.driver_state / 1e6:.0f} MB; its process "
            f"takes {there.driver_memory / 1e6:.0f} MB instead of {here.driver_memory / 1e6:.0f} MB",
        ),
    ]


def write(folder: Path, sizes: Sizes) -> None:
    random = np.random.default_rng(11)
    (folder / "rows").mkdir()
    for number in range(sizes.batches):
        start = number * sizes.batch
        table = pa.table(
            {
                "t": np.arange(start, start + sizes.batch) // _RATE,
                "g": random.integers(0, sizes.groups, sizes.batch),
                "v": random.integers(0, 1_000, sizes.batch),
            }
        )
        pq.write_table(table, folder / "rows" / f"{number:05d}.parquet")


def draw(result: Result, path: Path) -> None:
    bars = {
        column: [float(row[f"{column}, MB"] or 0) for row in result.table]
        for column in ("state of the driver", "of a partition", "memory of the driver")
    }
    draw_bars(TITLE, "MB", [str(row["groups"]) for row in result.table], bars, path)
