"""Archives that a run on Spark writes: they hold what an undisturbed run inline leaves."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

from tests.spark.kit import run, stopping_after

from sash.archive import open_snapshot

PROGRAM = """
CREATE STREAM packets (ts TIMESTAMP, src STRING, port BIGINT, length BIGINT)
  TIMESTAMP BY ts SLACK 1 SEC FROM 'generator:packets' WITH (rate = 20, rows = 1200, hosts = 12);
CREATE ARCHIVE pairs KEY (src) USING REBUILD 2x2 EVERY 5 SEC INTO '{out}/pairs' AS
  SELECT a.src, a.port, b.length FROM packets [RANGE 10 SEC] a, packets [RANGE 10 SEC] b WHERE a.src = b.src;
CREATE ARCHIVE alone KEY (src) USING NOREBUILD 2x2 EVERY 3 SEC INTO '{out}/alone' AS
  SELECT a.src, a.port FROM packets [RANGE 10 SEC] a
  WHERE NOT EXISTS (SELECT b.src FROM packets [RANGE 2 SEC] b WHERE b.src = a.src AND b.length > 1000);
CREATE ARCHIVE counts KEY (src) USING AUTO EVERY 3 SEC INTO '{out}/counts' AS
  SELECT src, COUNT(*) AS n FROM packets [RANGE 10 SEC] GROUP BY src;
SELECT COUNT(*) AS n FROM pairs;
"""


def test_a_run_that_is_stopped_and_goes_on_fills_the_archives(tmp_path: Path) -> None:
    whole = run(tmp_path, PROGRAM.format(out="whole"), "inline")
    stop = threading.Event()
    options: dict[str, Any] = {"batch_rows": 200, "checkpoint": tmp_path / "checkpoint", "partitions": 2}
    watching = stopping_after(2, stop)
    program = PROGRAM.format(out="out")
    assert run(tmp_path, program, monitor=watching, stop=stop, **options).interrupted
    again = run(tmp_path, program, **options)
    for name in ("pairs", "alone", "counts"):
        assert contents(tmp_path / "out" / name) == contents(tmp_path / "whole" / name)
    assert again.once["answer 1"].equals(whole.once["answer 1"])


def contents(directory: Path) -> tuple[int | None, Counter[tuple[Any, ...]]]:
    with open_snapshot(directory) as snapshot:
        columns = snapshot.scan().to_pydict()
        return snapshot.through, Counter(zip(*columns.values(), strict=True))
