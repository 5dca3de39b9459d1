"""Queries that read each other's synopses, exactly and elastically refreshed, on Spark."""

from __future__ import annotations

from pathlib import Path

from tests.overload import answers, right, rows_of, run_overloaded
from tests.spark.kit import run, tuples, write_csv

from sash_experiments.many_queries import Sizes, measured

SELECT = "SELECT src, SUM(length) AS s, COUNT(*) AS c FROM packets [RANGE 20 SEC SLIDE 5 SEC] {} GROUP BY src"
PROGRAM = (
    "CREATE STREAM packets (t BIGINT, src STRING, length BIGINT) TIMESTAMP BY t FROM 'csv:packets*.csv';\n"
    + "".join(
        f"CREATE QUERY q{i} INTO 'jsonl:{{out}}/q{i}.jsonl' AS {SELECT.format(where)};\n"
        for i, where in enumerate(
            ("", "WHERE length < 4", "WHERE length IS NULL OR length >= 4", "WHERE length > 8")
        )
    )
)


def test_spark_puts_answers_together_as_one_process_does(tmp_path: Path) -> None:
    rows = [(t // 3, "abcde"[t * t % 5], t * 7 % 13) for t in range(300)]
    for number in range(3):
        write_csv(tmp_path / f"packets{number}.csv", "t,src,length", rows[100 * number : 100 * number + 100])
    for runtime in ("inline", "spark"):
        (tmp_path / runtime).mkdir()
        options = {"checkpoint": tmp_path / f"state-{runtime}", "batch_rows": 90}
        run(tmp_path, PROGRAM.format(out=runtime), runtime, **options)
    for number in range(4):
        answers = tuples(tmp_path / "inline" / f"q{number}.jsonl")
        assert len(answers) > 15
        assert tuples(tmp_path / "spark" / f"q{number}.jsonl") == answers


def test_the_benchmark_of_many_queries_finds_no_answer_wrong_on_spark() -> None:
    result = measured(Sizes(streams=1, queries=80, rows=600, seconds=40, batches=3), "spark", "small")
    assert [(row["wrong"], row["checked"]) for row in result.table] == [(0, 80), (0, 80)]
    assert result.table[0]["read from others"]
    assert result.table[1]["decisions"]
    assert all(claim.id == "decision" or claim.holds for claim in result.claims)


def test_under_overload_spark_stretches_periods_and_gives_right_answers(tmp_path: Path) -> None:
    rows = rows_of(150)
    watch = run_overloaded(tmp_path, rows, 2, "spark")
    for query in range(2):
        under = [fares[f"q{query}"] for fares in watch.fares if f"q{query}" in fares]
        assert max(fares.granted or 0 for fares in under) > under[0].period
        assert max(fares.worst for fares in under) > 0
        given = answers(tmp_path, query)
        assert given
        assert all(held == right(rows, query, at) for at, held in given.items())
