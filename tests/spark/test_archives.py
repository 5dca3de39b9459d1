"""Archives that a run on Spark writes: they hold what an undisturbed run inline leaves."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.kit import run, stopping_after

from sash.archive import SlotResult, open_snapshot
from sash.runtime.spark.archive_jobs import ArchiveJobs
from sash_experiments import archive_parallel
from sash_experiments.archive_data import Feed

PROGRAM = """
CREATE STREAM packets (ts TIMESTAMP, src STRING, port BIGINT, length BIGINT)
  TIMESTAMP BY ts SLACK 1 SEC FROM 'generator:packets' WITH (rate = 20, rows = 900, hosts = 12);
CREATE ARCHIVE pairs KEY (src) USING REBUILD 2x2 EVERY 5 SEC INTO '{out}/pairs' AS
  SELECT a.src, a.port, b.length FROM packets [RANGE 10 SEC] a, packets [RANGE 10 SEC] b WHERE a.src = b.src;
CREATE ARCHIVE alone KEY (src) USING NOREBUILD 2x2 EVERY 3 SEC INTO '{out}/alone' AS
  SELECT a.src, a.port FROM packets [RANGE 10 SEC] a
  WHERE NOT EXISTS (SELECT b.src FROM packets [RANGE 2 SEC] b WHERE b.src = a.src AND b.length > 1000);
CREATE ARCHIVE counts KEY (src) USING COUNTREBUILD 2x2 EVERY 3 SEC INTO '{out}/counts' AS
  SELECT src, COUNT(*) AS n FROM packets [RANGE 10 SEC] GROUP BY src;
CREATE ARCHIVE latest KEY (src) USING COUNTREBUILD 2x2 EVERY 3 SEC INTO '{out}/latest' AS
  SELECT src, port FROM packets [ROWS 100];
SELECT COUNT(*) AS n FROM pairs;
"""


def test_a_run_that_is_stopped_and_goes_on_fills_the_archives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    """Each update is a job, however small, in a pool beside that of the batches."""
    jobs: list[int] = []
    work = ArchiveJobs._job

    def counted(self: ArchiveJobs, tasks: Sequence[Any]) -> list[SlotResult]:
        jobs.append(len(tasks))
        return work(self, tasks)

    monkeypatch.setattr(ArchiveJobs, "_job", counted)
    whole = run(tmp_path, PROGRAM.format(out="whole"), "inline")
    stop = threading.Event()
    options: dict[str, Any] = {"batch_rows": 300, "checkpoint": tmp_path / "checkpoint", "partitions": 2}
    options["max_driver_update"] = 1
    watching = stopping_after(1, stop)
    program = PROGRAM.format(out="out")
    assert run(tmp_path, program, monitor=watching, stop=stop, **options).interrupted
    again = run(tmp_path, program, **options)
    assert spark.sparkContext._jsc.sc().getPoolForName("archives").isDefined()
    assert max(jobs) <= 4
    assert len(jobs) > 5
    for name in ("pairs", "alone", "counts", "latest"):
        assert contents(tmp_path / "out" / name) == contents(tmp_path / "whole" / name)
    assert again.once["answer 1"].equals(whole.once["answer 1"])


def contents(directory: Path) -> tuple[int | None, Counter[tuple[Any, ...]]]:
    with open_snapshot(directory) as snapshot:
        columns = snapshot.scan().to_pydict()
        return snapshot.through, Counter(zip(*columns.values(), strict=True))


def test_the_benchmark_of_who_writes_an_archive_finds_the_same_rows_whoever_does(tmp_path: Path) -> None:
    result = archive_parallel.measure_at(Feed(400, updates=2), "small")
    assert [row["by"] for row in result.table] == ["one thread", "threads", "Spark"]
    assert len({row["rows"] for row in result.table}) == 1
    assert result.table[0]["rows"]
    assert {claim.id for claim in result.claims} == {"tasks", "scans", "same-rows"}
    archive_parallel.draw(result, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 0
