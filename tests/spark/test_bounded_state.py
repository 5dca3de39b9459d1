"""What a run keeps depends on its windows, not on how much input has passed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.spark.kit import Watching, run

from sash.engine.batch_result import BatchResult
from sash.engine.observe.report import BatchReport
from sash.engine.query_executor import QueryExecutor

PROGRAM = """
CREATE STREAM packets (ts TIMESTAMP, src STRING, port BIGINT, length BIGINT)
  TIMESTAMP BY ts SLACK 1 SEC FROM 'generator:packets'
  WITH (rate = 50, rows = {rows}, hosts = 30, disorder = 0.8);
CREATE QUERY heavy INTO 'noop:' AS
  SELECT src, SUM(length) AS bytes FROM packets [RANGE 10 SEC SLIDE 1 SEC] GROUP BY src;
CREATE QUERY raw INTO 'noop:' AS
  SELECT port, length FROM packets [RANGE 4 SEC SLIDE 2 SEC] WHERE port < 100;
"""


@pytest.mark.parametrize(("runtime", "rows"), [("spark", 6_000), ("inline", 60_000)])
def test_neither_memory_nor_checkpoint_grows_with_the_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: str, rows: int
) -> None:
    live: list[int] = []
    files: list[int] = []
    answer = QueryExecutor.answer

    def measured(
        executor: QueryExecutor, batch: int, batch_result: BatchResult, seconds: float | None
    ) -> Iterator[tuple[str, pa.Table]]:
        yield from answer(executor, batch, batch_result, seconds)
        live.append(executor.live_rows)

    def count_files(report: BatchReport) -> None:
        files.append(sum(1 for part in ("panes", "feed") for _ in (checkpoint / part).iterdir()))

    monkeypatch.setattr(QueryExecutor, "answer", measured)
    checkpoint = tmp_path / "checkpoint"
    summary = run(
        tmp_path,
        PROGRAM.format(rows=rows),
        runtime,
        batch_rows=500,
        checkpoint=checkpoint,
        monitor=Watching(count_files),
    )
    assert summary.batches == rows // 500
    # A batch is 10 s of the stream, so three batches fill every window.
    for measure in (live, files):
        assert min(measure[3:]) > 0
        assert max(measure[3:-1]) <= 1.3 * max(measure[:3])
