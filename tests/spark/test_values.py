"""Aggregates that need values, answered from synopses on Spark: the answers of the inline runtime."""

from __future__ import annotations

from pathlib import Path

from tests.spark.kit import run, tuples, write_csv

from sash.engine.reads.checkpoint_reader import CheckpointReader

PROGRAM = """
CREATE STREAM packets (t BIGINT, src STRING, length BIGINT) TIMESTAMP BY t RETAIN 1 MIN
  FROM 'csv:packets*.csv';
CREATE STREAM many (t BIGINT, id BIGINT) TIMESTAMP BY t FROM 'csv:many*.csv';
CREATE QUERY sources INTO 'jsonl:{out}/sources.jsonl' AS
  SELECT src, MEDIAN(length) AS m, VAR(length) AS v, COUNT(DISTINCT length) AS d, TOP(length, 2) AS t,
    SUM(length) AS s, HISTOGRAM(length) AS h, HISTOGRAM(length, 0, 12, 4) AS r
  FROM packets [RANGE 20 SEC SLIDE 5 SEC] GROUP BY src HAVING COUNT(DISTINCT length) > 1;
CREATE QUERY whole INTO 'jsonl:{out}/whole.jsonl' AS
  Rstream(SELECT FREQUENT(src, 2) AS f, QUANTILE(src, 0.9) AS q, APPROX_COUNT_DISTINCT(length) AS a
  FROM packets [RANGE 20 SEC SLIDE 5 SEC] WHERE length > 2);
CREATE QUERY newest INTO 'jsonl:{out}/newest.jsonl' AS
  SELECT FREQUENT(src, 2) AS f, FREQUENT(length, 3) AS l FROM packets [ROWS 60 SLIDE 20];
CREATE QUERY lately INTO 'jsonl:{out}/lately.jsonl' AS
  SELECT src, FREQUENT(length, 2) AS f, HISTOGRAM(length, BOUNDS(3, 7)) AS h
  FROM packets [RANGE 20 SEC] GROUP BY src;
CREATE INDEX by_src ON packets (src) USING AUTO;
CREATE QUERY longest INTO 'jsonl:{out}/longest.jsonl' AS
  SELECT length, src FROM packets [RANGE 20 SEC SLIDE 5 SEC] ORDER BY length DESC, src LIMIT 4;
CREATE QUERY repeated INTO 'jsonl:{out}/repeated.jsonl' AS
  SELECT length FROM packets [RANGE 5 SEC SLIDE 5 SEC]
  INTERSECT SELECT id % 20 FROM many [RANGE 5 SEC SLIDE 5 SEC];
CREATE QUERY nearly INTO 'jsonl:{out}/nearly.jsonl' AS
  SELECT APPROX_COUNT_DISTINCT(id) AS a, APPROX_QUANTILE(id, 0.3) AS q, APPROX_TOP(id, 2) AS t
  FROM many [RANGE 60 SEC SLIDE 20 SEC];
"""


def test_spark_answers_from_values_as_one_process_does(tmp_path: Path) -> None:
    rows = [(t // 3, None if t % 11 == 0 else "abcde"[t * t % 5], t * 7 % 13) for t in range(300)]
    for number in range(3):
        part = rows[100 * number : 100 * number + 100]
        write_csv(tmp_path / f"packets{number}.csv", "t,src,length", part)
    # More values than panes keep of them.
    ids = [(t // 120, t * t % 11_003) for t in range(12_000)]
    for number in range(3):
        write_csv(tmp_path / f"many{number}.csv", "t,id", ids[4000 * number : 4000 * number + 4000])
    for runtime in ("inline", "spark"):
        (tmp_path / runtime).mkdir()
        options = {"checkpoint": tmp_path / f"state-{runtime}", "batch_rows": 2500}
        run(tmp_path, PROGRAM.format(out=runtime), runtime, **options)
    names = {
        "sources": 15,
        "whole": 15,
        "nearly": 5,
        "newest": 15,
        "lately": 15,
        "longest": 15,
        "repeated": 5,
    }
    for name, least in ((f"{name}.jsonl", least) for name, least in names.items()):
        answers = tuples(tmp_path / "inline" / name)
        assert len(answers) > least
        assert tuples(tmp_path / "spark" / name) == answers
    # Tasks have written the indexes of kept rows, which a join probes afterwards.
    ask = (
        "SELECT p.t, p.length, q.t AS at FROM packets [RANGE 40 SEC] p, packets [RANGE 40 SEC] q "
        "WHERE p.src = q.src AND q.length = 12"
    )
    found = [
        CheckpointReader(tmp_path / f"state-{runtime}").ask(ask).table.to_pylist()
        for runtime in ("inline", "spark")
    ]
    assert len(found[0]) > 20
    assert sorted(map(repr, found[0])) == sorted(map(repr, found[1]))
