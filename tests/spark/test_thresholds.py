"""Thresholds in HAVING on Spark: an index finds the groups, and answers are those of the inline runtime."""

from __future__ import annotations

from pathlib import Path

from tests.spark.kit import run, tuples, write_csv

STREAM = (
    "CREATE STREAM packets (t BIGINT, src BIGINT, length BIGINT) TIMESTAMP BY t FROM 'csv:packets*.csv';\n"
)
QUERY = (
    "CREATE QUERY q{0}_{1} INTO 'jsonl:{2}/q{0}_{1}.jsonl' AS SELECT src, COUNT(*) AS n, MAX(length) AS m "
    "FROM packets [RANGE {0} SEC SLIDE 5 SEC] GROUP BY src HAVING COUNT(*) > {1};\n"
)


def test_spark_finds_groups_as_one_process_does(tmp_path: Path) -> None:
    rows = [(t // 6, 0 if t % 6 == 0 else 1 + t * 7919 % 150, t * 7 % 13) for t in range(600)]
    for number in range(3):
        write_csv(tmp_path / f"packets{number}.csv", "t,src,length", rows[200 * number : 200 * number + 200])
    asked = [(width, limit) for width in range(10, 45, 5) for limit in (2, 4, 8, 16)]
    for runtime in ("inline", "spark"):
        (tmp_path / runtime).mkdir()
        program = STREAM + "".join(QUERY.format(width, limit, runtime) for width, limit in asked)
        summary = run(tmp_path, program, runtime, checkpoint=tmp_path / f"state-{runtime}", batch_rows=90)
        assert "groups are found by CI-COUNT(*)" in summary.chosen["q10_2"][-1]
    for width, limit in asked:
        answers = tuples(tmp_path / "inline" / f"q{width}_{limit}.jsonl")
        assert tuples(tmp_path / "spark" / f"q{width}_{limit}.jsonl") == answers
    assert len(answers) > 5
