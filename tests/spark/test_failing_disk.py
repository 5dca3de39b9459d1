"""Where Spark's own processes write: state files of partitions, and Spark's log of batches."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.spark.kit import Watching, run, tuples, write_csv

from sash.engine.observe.report import BatchReport
from sash.errors import CheckpointError, RunError

PROGRAM = """CREATE STREAM s (t BIGINT, k BIGINT, n BIGINT) TIMESTAMP BY t FROM 'csv:s.csv';
CREATE QUERY pairs INTO 'jsonl:pairs.jsonl' AS
  SELECT a.n AS x, b.n AS y FROM s [RANGE 50 SEC] AS a, s [RANGE 50 SEC] AS b WHERE a.k = b.k;
"""


@pytest.mark.parametrize(
    ("place", "kind"), [("cells", CheckpointError), ("feed", CheckpointError), ("spark", RunError)]
)
def test_a_part_of_the_checkpoint_that_is_moved_away_is_told_and_the_run_goes_on_when_it_is_back(
    tmp_path: Path, place: str, kind: type[Exception]
) -> None:
    write_csv(tmp_path / "s.csv", "t,k,n", [(i, i % 20, i) for i in range(240)])
    run(tmp_path, PROGRAM, "inline")
    expected = tuples(tmp_path / "pairs.jsonl")
    state, away = tmp_path / "state", tmp_path / "away"

    def move(report: BatchReport) -> None:
        if report.number == 1:
            shutil.move(state / place, away)
            if place == "spark":
                # Spark would make a directory anew.
                (state / place).write_text("")

    with pytest.raises(kind) as caught:
        run(tmp_path, PROGRAM, monitor=Watching(move), batch_rows=40, checkpoint=state, partitions=2)
    text = caught.value.render()  # type: ignore[attr-defined]
    for noise in ("Traceback", "org.apache", "py4j", "Errno"):
        assert noise not in text, text
    if (state / place).is_dir():
        shutil.rmtree(state / place)
    else:
        (state / place).unlink(missing_ok=True)
    shutil.move(away, state / place)
    run(tmp_path, PROGRAM, batch_rows=40, checkpoint=state, partitions=2)
    assert tuples(tmp_path / "pairs.jsonl") == expected
