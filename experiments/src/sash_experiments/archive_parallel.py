"""archive-parallel: who writes the sub-indices of an update, and who scans an archive.

Rebuild 4x4 is updated by one thread, by as many as there are cores, and by Spark tasks; then it is scanned by
one thread, by threads, and by Spark. Times are on the wall, each the median of all updates or scans, so they
mean something on an idle machine only.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from sash.archive import ArchiveWriter, Rewrites, Snapshot, rewrite_here, rewrite_in_threads
from sash.archive.segment import read_segment
from sash.archive.taken import alive
from sash.runtime.spark.archive_jobs import ArchiveJobs
from sash.runtime.spark.scan import scan_later
from sash.runtime.spark.session import spark_session
from sash_experiments.archive_data import SPEC, Feed
from sash_experiments.charts import draw_bars
from sash_experiments.result import Cell, Claim, Note, Result, silent

NAME = "archive-parallel"
TITLE = "sub-indices written, and archives scanned, by a thread, by threads and by Spark"
SCALES = {
    "small": Feed(50_000, updates=8),
    "medium": Feed(500_000, updates=8),
    "paper": Feed(5_000_000, updates=8),
}
_SCANS = 3
ONE, THREADS, SPARK = "one thread", "threads", "Spark"


def measure(scale: str, note: Note = silent) -> Result:
    return measure_at(SCALES[scale], scale, note)


def measure_at(feed: Feed, scale: str, note: Note = silent) -> Result:
    with tempfile.TemporaryDirectory(prefix="sash-archive-") as folder:
        root = Path(folder)
        note("starting Spark", 0.0)
        with spark_session("local[*]", root / "spark.log", optimising=True) as spark:
            jobs = ArchiveJobs(spark, root, here=1)
            rewrites: dict[str, Rewrites] = {ONE: rewrite_here, THREADS: rewrite_in_threads, SPARK: jobs}
            updates: dict[str, list[float]] = {name: [] for name in rewrites}
            writers = {
                name: ArchiveWriter(root / str(n), SPEC, "rebuild", (4, 4), durable=False)
                for n, name in enumerate(rewrites)
            }
            for update in feed.batches():
                note(f"update {update.batch}", 0.1 + 0.8 * update.batch / (feed.updates + 36))
                for name, writer in writers.items():
                    if update.through <= 0:
                        writer.update(update, rewrite_here)
                        continue
                    began = time.perf_counter()
                    writer.update(update, rewrites[name])
                    updates[name].append(time.perf_counter() - began)
            note("scans", 0.9)
            with writers[ONE].snapshot() as snapshot:
                scans, rows = _scans(snapshot)
            for writer in writers.values():
                writer.close()
    table: list[dict[str, Cell]] = [
        {
            "by": name,
            "update ms": 1e3 * statistics.median(updates[name]),
            "scan ms": 1e3 * statistics.median(scans[name]),
            "rows": rows[name],
        }
        for name in rewrites
    ]
    return Result(NAME, TITLE, scale, table, _claims(updates, scans, rows))


def _scans(snapshot: Snapshot) -> tuple[dict[str, list[float]], dict[str, int]]:
    """Seconds of each scan, and the rows that it gives."""
    through = snapshot.through
    assert through is not None
    segments = [each for slot in snapshot.manifest.slots.values() for each in slot.segments]
    ways: Mapping[str, Callable[[], int]] = {
        ONE: lambda: sum(
            alive(read_segment(snapshot.root, each, SPEC), SPEC, through, {}).num_rows for each in segments
        ),
        THREADS: lambda: sum(part.num_rows for part in snapshot.batches()),
        SPARK: lambda: scan_later(snapshot.files(), through),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    rows = {}
    for _ in range(_SCANS):
        for name, scan in ways.items():
            began = time.perf_counter()
            rows[name] = scan()
            seconds[name].append(time.perf_counter() - began)
    return seconds, rows


def _claims(
    updates: Mapping[str, list[float]], scans: Mapping[str, list[float]], rows: Mapping[str, int]
) -> list[Claim]:
    def gain(times: Mapping[str, list[float]], name: str) -> float:
        return statistics.median(times[ONE]) / statistics.median(times[name])

    cores = os.cpu_count() or 1
    return [
        Claim(
            "tasks",
            "sub-indices are written in parallel: tasks gain on one thread",
            f"up to {cores} × on {cores} cores",
            f"threads {gain(updates, THREADS):.2f} ×, Spark {gain(updates, SPARK):.2f} ×",
            gain(updates, SPARK) > 1,
            f"a job takes a while to start: {1e3 * min(updates[SPARK]):.0f} ms is the shortest update",
        ),
        Claim(
            "scans",
            "scans by Arrow in threads are not slower than those by Spark",
            "not slower",
            f"{gain(scans, THREADS) / gain(scans, SPARK):.2f} × as fast",
            gain(scans, THREADS) >= gain(scans, SPARK),
        ),
        Claim(
            "same-rows",
            "all scans give equally many rows",
            "yes",
            ", ".join(f"{name} {count:,}" for name, count in rows.items()),
            len(set(rows.values())) == 1,
        ),
    ]


def draw(result: Result, path: Path) -> None:
    names = [str(row["by"]) for row in result.table]
    bars = {what: [float(row[f"{what} ms"] or 0) for row in result.table] for what in ("update", "scan")}
    draw_bars(f"An archive on {os.cpu_count()} cores ({result.scale})", "ms", names, bars, path)
