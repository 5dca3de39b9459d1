"""Late and malformed rows: they do not touch the answers, and each of them can be found again."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from tests.spark.kit import objects, run, tuples, write_csv

import sash.engine.run_chunks
from sash.engine.ingest.first_stage import misjudged
from sash.engine.observe.report import Silent
from sash.errors import RunError
from sash.lang import bind_program
from sash.runtime.run import run_program

ROWS = 3_000
PROGRAM = """
CREATE STREAM s (t BIGINT, src STRING, x BIGINT) TIMESTAMP BY t SLACK 2 SEC FROM '{source}';
CREATE QUERY total INTO 'jsonl:{out}.jsonl' AS
  SELECT src, COUNT(*) AS n, SUM(x) AS total FROM s [RANGE 60 SEC SLIDE 20 SEC] GROUP BY src;
"""
BAD = {
    "csv": [
        ("soon,a,1", "t: 'soon' is not a BIGINT"),
        (",a,1", "t: no timestamp"),
        ("5,a,1.5", "x: '1.5' is not a BIGINT"),
        ("5,a", "expected 3 fields, got 2"),
        ("99999999999999999999,a,1", "t: '99999999999999999999' is not a BIGINT"),
        ("4611686018428,a,1", "t: out of range"),
    ],
    "json": [
        ('{"t": "soon", "src": "a", "x": 1}', "t: 'soon' is not a BIGINT"),
        ('{"src": "a", "x": 1}', "t: no timestamp"),
        ('{"t": 5, "src": "a", "x": "one"}', "x: 'one' is not a BIGINT"),
        ("[5, 1]", "not a JSON object"),
        ('{"t": 5, "src"', "not a JSON object"),
        ('{"t": 4611686018428, "src": "a", "x": 1}', "t: out of range"),
    ],
}


def spell(kind: str, row: tuple[int, str, int]) -> str:
    if kind == "csv":
        return ",".join(map(str, row))
    return json.dumps(dict(zip(("t", "src", "x"), row, strict=True)))


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_one_percent_bad_and_one_percent_late_rows_leave_the_answers_of_the_clean_rows(
    tmp_path: Path, kind: str
) -> None:
    chance = random.Random(3)
    head = ["t,src,x"] if kind == "csv" else []
    clean: list[str] = []
    mixed: list[str] = []
    bad: list[tuple[int, str, str]] = []
    late: list[tuple[int, dict[str, object]]] = []
    for i in range(ROWS):
        # Time goes forward by 0 or 1 second a row, rows up to 2 s back: all within SLACK.
        row = (100 + i // 2 - chance.choice((0, 0, 0, 1, 2)), chance.choice("abc"), chance.randrange(100))
        clean.append(spell(kind, row))
        mixed.append(clean[-1])
        # Only once the newest second is out, so that what is late is late by a known second.
        if i % 100 == 50:
            text, reason = BAD[kind][i // 100 % len(BAD[kind])]
            mixed.append(text)
            bad.append((len(mixed), reason, text))
        if i % 100 == 80:
            missed = (100 + i // 2 - chance.randrange(10, 90), chance.choice("abc"), 1_000_000)
            mixed.append(spell(kind, missed))
            late.append((len(mixed), dict(zip(("t", "src", "x"), missed, strict=True))))
    for name, lines in (("clean", clean), ("mixed", mixed)):
        (tmp_path / f"{name}.{kind}").write_text("\n".join(head + lines) + "\n")

    run(tmp_path, PROGRAM.format(source=f"{kind}:clean.{kind}", out="clean"), "inline")
    summary = run(
        tmp_path,
        PROGRAM.format(source=f"{kind}:mixed.{kind}", out="mixed"),
        batch_rows=1_100,
        dead_letters=tmp_path / "dead-letters",
    )

    assert tuples(tmp_path / "mixed.jsonl") == tuples(tmp_path / "clean.jsonl")
    counts = summary.streams["s"]
    assert (counts.accepted, counts.late, counts.rejected) == (ROWS, len(late), len(bad))
    assert counts.read == len(mixed)
    rejects = objects(tmp_path / "dead-letters" / "s.rejects.jsonl")
    assert [(row["row"], row["reason"], row["data"]) for row in rejects] == bad
    kept = objects(tmp_path / "dead-letters" / "s.late.jsonl")
    assert [(row["row"], json.loads(row["data"])) for row in kept] == late
    assert {row["source"] for row in rejects + kept} == {str(tmp_path / f"mixed.{kind}")}
    assert all(row["reason"].startswith("late by ") for row in kept)


def test_a_row_that_is_late_only_because_of_an_earlier_chunk_of_its_batch_is_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    #  one batch   │ chunk 0 │ chunk 1 │ chunk 2 │ chunk 3 │
    #  t           │ 1    2  │ 30   31 │ 5    31 │ 29   32 │    SLACK 1 s
    #  known before the batch: nothing, so the task of chunk 2 keeps 5 and that of chunk 3 keeps 29;
    #  behind 31 of chunk 1 they are late by 25 s and by 1 s.
    write_csv(tmp_path / "s.csv", "t,x", [(t, t) for t in (1, 2, 30, 31, 5, 31, 29, 32)])
    runs_again: list[tuple[str, int]] = []

    def spied(*given: Any) -> dict[tuple[str, int], int | None]:
        wrong = misjudged(*given)
        runs_again.extend(wrong)
        return wrong

    monkeypatch.setattr(sash.engine.run_chunks, "misjudged", spied)
    summary = run(
        tmp_path,
        """CREATE STREAM s (t BIGINT, x BIGINT) TIMESTAMP BY t SLACK 1 SEC FROM 'csv:s.csv';
        CREATE QUERY q INTO 'jsonl:q.jsonl' AS
          Rstream(SELECT COUNT(*) AS n, SUM(x) AS total FROM s [RANGE 10 SEC SLIDE 10 SEC]);""",
        batch_rows=8,
        dead_letters=tmp_path / "dead-letters",
    )
    assert summary.batches == 1
    assert runs_again == [("s", 2), ("s", 3)]
    assert tuples(tmp_path / "q.jsonl") == [(10, 2, 3), (20, 0, None), (30, 1, 30)]
    assert [(row["row"], row["reason"]) for row in objects(tmp_path / "dead-letters" / "s.late.jsonl")] == [
        (5, "late by 25.000000 s"),
        (7, "late by 1.000000 s"),
    ]
    assert (summary.streams["s"].accepted, summary.streams["s"].late) == (6, 2)


def test_a_run_that_loses_most_rows_says_so_as_inline(tmp_path: Path) -> None:
    rows = [(100, "a", 1), *((i % 40, "b", i) for i in range(2_000))]
    write_csv(tmp_path / "in.csv", "t,src,x", [*rows, ("soon", "a", 1)])
    warnings: dict[str, list[str]] = {}

    class Heard(Silent):
        def __init__(self, runtime: str) -> None:
            self.heard = warnings.setdefault(runtime, [])

        def warning(self, text: str) -> None:
            self.heard.append(text)

    for runtime in ("inline", "spark"):
        program = bind_program(PROGRAM.format(source="csv:in.csv", out=runtime))
        with pytest.raises(RunError, match="2,001 of 2,002 rows"):
            run_program(program, base_dir=tmp_path, runtime=runtime, batch_rows=300, fail_on_rejects=0.9)
        run_program(program, base_dir=tmp_path, runtime=runtime, batch_rows=300, monitor=Heard(runtime))
    assert warnings["spark"] == warnings["inline"]
    assert "SLACK 100 SEC would have kept every late row" in warnings["spark"][0]
