"""What operators in partitions did and hold reaches the driver, and is bounded there."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.spark.kit import Watching, run, tuples, write_csv

from sash.engine.observe.report import DRIVER, BatchReport, Measures
from sash.errors import LimitError

PROGRAM = """CREATE STREAM s (t BIGINT, k BIGINT, n BIGINT) TIMESTAMP BY t FROM 'csv:s.csv';
CREATE QUERY pairs INTO 'jsonl:pairs.jsonl' AS
  SELECT a.n AS x, b.n AS y FROM s [RANGE 500 SEC] AS a, s [RANGE 500 SEC] AS b
  WHERE a.k = b.k AND a.n <> b.n;
"""


def watched(folder: Path, runtime: str, **options: int | Path) -> tuple[list[BatchReport], list[Measures]]:
    folder.mkdir(exist_ok=True)
    write_csv(folder / "s.csv", "t,k,n", [(i, i % 300, i) for i in range(900)])
    measures: list[Measures] = []
    watching = Watching(lambda report: measures.append(report.measure()))
    run(folder, PROGRAM, runtime, monitor=watching, batch_rows=300, **options)
    return watching.reports, measures


def test_operators_count_the_same_as_inline_and_a_full_partition_ends_the_run(tmp_path: Path) -> None:
    _, expected = watched(tmp_path / "inline", "inline")
    reports, measures = watched(tmp_path / "spark", "spark", partitions=2)
    assert set(reports[-1].state) == {DRIVER, 0, 1}
    for mine, theirs in zip(measures[-1].operators, expected[-1].operators, strict=True):
        assert (mine.number, mine.operator, mine.rows_in, mine.rows_out, mine.negative) == (
            theirs.number, theirs.operator, theirs.rows_in, theirs.rows_out, theirs.negative
        )  # fmt: skip
    assert reports[-1].parts.read > 0
    fullest = [max(report.state.values(), key=lambda held: held.bytes).bytes for report in reports]

    limited = tmp_path / "limited"
    with pytest.raises(LimitError, match=r"partition [01]") as caught:
        watched(limited, "spark", partitions=2, max_state=fullest[1] - 1, checkpoint=limited / "state")
    assert "query pairs holds" in str(caught.value.got)
    assert tuples(limited / "pairs.jsonl") != tuples(tmp_path / "inline" / "pairs.jsonl")
    watched(limited, "spark", partitions=2, checkpoint=limited / "state")
    assert tuples(limited / "pairs.jsonl") == tuples(tmp_path / "inline" / "pairs.jsonl")
