"""Indexes of kept rows on Spark: tasks write them, questions from another process probe them."""

from __future__ import annotations

from pathlib import Path

from tests.spark.kit import run, write_csv

from sash.engine.reads.checkpoint_reader import CheckpointReader

PROGRAM = """
CREATE STREAM s (t BIGINT, k STRING, n BIGINT) TIMESTAMP BY t RETAIN 40 SEC FROM 'csv:s*.csv';
CREATE INDEX by_n ON s (n) USING AUTO;
CREATE INDEX by_k ON s (k) USING H;
CREATE QUERY q INTO 'noop:' AS SELECT COUNT(*) AS n FROM s [RANGE 5 SEC SLIDE 5 SEC];
"""


def test_tasks_write_the_indexes_that_questions_probe(tmp_path: Path) -> None:
    rows = [(t // 10, "abcdefghij"[t * t % 10], t * 7 % 50) for t in range(600)]
    for number in range(2):
        write_csv(tmp_path / f"s{number}.csv", "t,k,n", rows[300 * number : 300 * number + 300])
    run(tmp_path, PROGRAM, checkpoint=tmp_path / "state", batch_rows=200)
    peek = CheckpointReader(tmp_path / "state")
    kept = peek.snapshot().kept
    names = {path.name for path in (tmp_path / "state" / "retained").iterdir()}
    assert names == {name for file in kept for name in (file.name, file.index(1), file.index(2))}
    found = peek.ask("SELECT t, n FROM s [RANGE 30 SEC] WHERE n BETWEEN 3 AND 4 AND k = 'e'").table
    wanted = [(t, n) for t, k, n in rows if t > 29 and 3 <= n <= 4 and k == "e"]
    assert sorted(zip(*found.to_pydict().values(), strict=True)) == sorted(wanted) != []
