"""Files of Spark and of the inline runtime are the same bytes: rows of one instant have one order."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

from tests.spark.kit import run, texts, write_csv

STREAMS = """
CREATE STREAM a (t BIGINT, k STRING, x DOUBLE) TIMESTAMP BY t SLACK 2 SEC FROM 'csv:a.csv';
CREATE STREAM b (t BIGINT, k STRING, x DOUBLE) TIMESTAMP BY t FROM 'csv:b.csv';
"""
BOTH = "SELECT k, x FROM b UNION ALL SELECT k, x FROM a WHERE x > 0"
QUERIES = (
    "Istream(SELECT k, x FROM a [NOW] WHERE x > 0)",
    "Istream(SELECT k, x FROM a [PARTITION BY k ROWS 2])",
    f"SELECT k, x FROM (Istream({BOTH})) [PARTITION BY k ROWS 1]",
    f"SELECT k, x FROM ({BOTH}) [ROWS 3]",
    "Rstream(SELECT k, x FROM a [NOW])",
    BOTH,
    "SELECT a.k, b.x FROM a [RANGE 5 SEC], b [RANGE 3 SEC] WHERE a.k = b.k",
    "SELECT x, COUNT(*) AS n FROM a [RANGE 9 SEC SLIDE 3 SEC] GROUP BY x",
    "SELECT x, COUNT(*) AS n FROM b [RANGE 9 SEC SLIDE 3 SEC] GROUP BY x WITH (state = 'partitioned')",
    "Rstream(SELECT x, k FROM b [RANGE 4 SEC SLIDE 2 SEC])",
    "SELECT k, x FROM a [RANGE 5 SEC SLIDE 5 SEC] ORDER BY x DESC LIMIT 7",
)


def test_rows_of_one_instant_have_the_order_that_they_have_inline(tmp_path):
    rng = random.Random(3)
    for name in "ab":
        times = itertools.accumulate(rng.choice((0, 0, 0, 0, 1, 2)) for _ in range(1_500))
        rows = [
            (t - rng.choice((0, 0, 1)), rng.choice("zyxwvu"), rng.choice((1, 2.5, None, -1))) for t in times
        ]
        write_csv(tmp_path / f"{name}.csv", "t,k,x", rows)

    def written(out: str, runtime: str, **options: object) -> dict[str, str]:
        (tmp_path / out).mkdir()
        queries = (
            f"CREATE QUERY q{number} INTO 'jsonl:{out}/q{number}.jsonl' AS {query};\n"
            for number, query in enumerate(QUERIES)
        )
        run(tmp_path, STREAMS + "".join(queries), runtime, **options)
        return texts(Path(tmp_path / out))

    whole = written("whole", "inline")
    assert all(whole.values())
    assert written("divided", "inline", partitions=3, batch_rows=100) == whole
    assert written("spark", "spark", partitions=3, batch_rows=400) == whole
