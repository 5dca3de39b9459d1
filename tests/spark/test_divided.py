"""Groupings in partitions on Spark: the answers of the inline runtime, also after a stop."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from tests.spark.kit import run, stopping_after, tuples, write_csv

PROGRAM = """
CREATE STREAM packets (t BIGINT, src STRING, length BIGINT)
  TIMESTAMP BY t SLACK 2 SEC FROM 'csv:packets*.csv';
CREATE QUERY sums INTO 'jsonl:{out}/sums.jsonl' AS
  SELECT src, SUM(length) AS s, MAX(length) AS m, MEDIAN(length) AS d
  FROM packets [RANGE 20 SEC SLIDE 5 SEC] GROUP BY src HAVING SUM(length) > 9;
CREATE QUERY sizes INTO 'jsonl:{out}/sizes.jsonl' AS
  Istream(SELECT COUNT(*) AS c FROM packets [RANGE 10 SEC SLIDE 5 SEC] GROUP BY src);
CREATE QUERY best INTO 'jsonl:{out}/best.jsonl' AS
  SELECT src, SUM(length) AS s FROM packets [RANGE 20 SEC SLIDE 5 SEC] GROUP BY src ORDER BY s DESC LIMIT 3;
CREATE QUERY total INTO 'jsonl:{out}/total.jsonl' AS
  SELECT COUNT(*) AS c FROM packets [RANGE 20 SEC SLIDE 5 SEC];
"""


def test_groups_move_to_the_tasks_and_the_answers_stay_the_same(tmp_path: Path) -> None:
    # Rows out of order, some of them late, and ever more groups.
    rows = [(t // 4 - t % 3, f"h{t * t % (5 + t // 10)}", t * 7 % 13) for t in range(400)]
    for number in range(4):
        write_csv(tmp_path / f"packets{number}.csv", "t,src,length", rows[100 * number : 100 * number + 100])
    for out in ("inline", "spark"):
        (tmp_path / out).mkdir()
    run(tmp_path, PROGRAM.format(out="inline"), "inline", batch_rows=100)
    options: dict[str, Any] = {"checkpoint": tmp_path / "state", "batch_rows": 100, "max_driver_groups": 5}
    stop = threading.Event()
    watching = stopping_after(2, stop)
    run(tmp_path, PROGRAM.format(out="spark"), monitor=watching, stop=stop, **options)
    summary = run(tmp_path, PROGRAM.format(out="spark"), **options)
    assert "divided among 2 partitions" in summary.chosen["sums"][0]
    for name in ("sums", "sizes", "best", "total"):
        right = tuples(tmp_path / "inline" / f"{name}.jsonl")
        assert len(right) > 10
        assert tuples(tmp_path / "spark" / f"{name}.jsonl") == right
