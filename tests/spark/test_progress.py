"""Rows of progress on Spark: the answers between them are those of the inline runtime."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from tests.spark.kit import objects, run, write_csv

from sash.testing.runs import StopAfter

STREAM = "CREATE STREAM a (t BIGINT, k STRING, n BIGINT) TIMESTAMP BY t SLACK 1 SEC FROM 'csv:a.csv';\n"
QUERIES = (
    "SELECT k, SUM(n) AS s FROM a [RANGE 9 SEC SLIDE 3 SEC] GROUP BY k WITH (state = 'partitioned'{more})",
    "SELECT x.n, y.n AS m FROM a [RANGE 3 SEC] x, a [RANGE 2 SEC] y WHERE x.k = y.k AND x.n < y.n{option}",
    "Rstream(SELECT COUNT(*) AS c FROM a [RANGE 4 SEC SLIDE 2 SEC]){option}",
)


def program(out: str, *, tells: bool) -> str:
    more, option = (", progress = true", " WITH (progress = true)") if tells else ("", "")
    return STREAM + "".join(
        f"CREATE QUERY q{number} INTO 'jsonl:{out}/q{number}.jsonl' AS "
        f"{query.format(more=more, option=option)};\n"
        for number, query in enumerate(QUERIES)
    )


@pytest.mark.parametrize("stops", [(), (2, 1)])
def test_progress_on_spark_stands_between_the_answers_of_the_inline_runtime(
    tmp_path: Path, stops: tuple[int, ...]
) -> None:
    rng, time, rows = random.Random(8), 0, []
    for _ in range(600):
        time += rng.choice((0, 0, 0, 1))
        rows.append((time - rng.choice((0, 0, 1)), rng.choice("uvwxyz"), rng.randint(0, 9)))
    write_csv(tmp_path / "a.csv", "t,k,n", rows)
    run(tmp_path, program("plain", tells=False), "inline")
    for stop in (*stops, None):
        monitor = StopAfter(stop)
        run(
            tmp_path,
            program("spark", tells=True),
            partitions=2,
            batch_rows=120,
            checkpoint=tmp_path / "state",
            monitor=monitor,
            stop=monitor.stop,
        )
    for number in range(len(QUERIES)):
        found = objects(tmp_path / "spark" / f"q{number}.jsonl")
        assert [row for row in found if "progress" not in row] == objects(
            tmp_path / "plain" / f"q{number}.jsonl"
        )
        instants = [json.loads(row["progress"])["instant"] for row in found if "progress" in row]
        assert len(instants) > 2
        assert instants == sorted(set(instants))
        assert instants[-1] == max(t for t, _, _ in rows)
