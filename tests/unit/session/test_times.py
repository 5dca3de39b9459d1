"""TIMESTAMP columns and instants are of one kind: datetimes in UTC, through every door of a session."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sash

STAMP = pa.timestamp("us", tz="UTC")
DATA = "at,k\n2026-01-01T00:00:01Z,a\n2026-01-01T00:00:02.5+00:00,b\n,c\n2026-01-01 01:00:12+01:00,a\n"
STREAM = "CREATE STREAM s (at TIMESTAMP, k STRING) TIMESTAMP BY at RETAIN 1 MIN FROM 'csv:s.csv';"
QUERIES = {
    "continuous": "SELECT at, k FROM s [RANGE 5 SEC]",
    "last rows": "SELECT at, k FROM s [ROWS 2]",
    "periodic": "SELECT k, MAX(at) AS at FROM s [RANGE 10 SEC SLIDE 5 SEC] GROUP BY k",
    "rows of a slide": "SELECT at FROM s [RANGE 10 SEC SLIDE 5 SEC]",
    "stream": "Istream(SELECT at, k FROM s [NOW])",
    "whole": "Rstream(SELECT MIN(at) AS at FROM s [RANGE 10 SEC SLIDE 5 SEC])",
    "joined": "SELECT p.at FROM s [RANGE 10 SEC SLIDE 5 SEC] p, s [RANGE 5 SEC SLIDE 5 SEC] q WHERE p.k=q.k",
    "computed": "SELECT at + INTERVAL 1 MIN AS at FROM s [RANGE 5 SEC] WHERE at > TIMESTAMP '2026-01-01'",
    "limited": "SELECT at FROM s [RANGE 10 SEC SLIDE 5 SEC] ORDER BY at DESC LIMIT 1",
}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "s.csv").write_text(DATA)
    return tmp_path


def session_of(base: Path, **options: Any) -> sash.Session:
    return sash.connect(runtime="inline", base_dir=base, dead_letters=base / "dead-letters", **options)


@pytest.mark.parametrize("partitions", [None, 3])
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_times_of_answers_compare_with_their_instant(query: str, partitions: int | None, base: Path) -> None:
    with session_of(base, partitions=partitions) as session:
        session.sql(STREAM)
        handle = session.query(query)
        assert handle.schema.field("at").type == STAMP
        seen = 0
        for answer in handle:
            assert answer.rows.schema.field("at").type == STAMP
            for at in answer.rows.column("at").to_pylist():
                assert at.tzinfo is not None
                seen += at <= answer.at or "+ INTERVAL" in query
            assert str(answer.to_pandas().dtypes["at"]) == "datetime64[us, UTC]"
        assert seen
        latest = handle.latest()
        assert latest.schema.field("at").type == STAMP


def test_questions_give_the_same_times(base: Path) -> None:
    with session_of(base) as session:
        session.sql(STREAM + "CREATE RELATION r (k STRING, at TIMESTAMP) KEY (k) FROM 'csv:r.csv';")
        (base / "r.csv").write_text("k,at\na,2026-01-01T00:00:00Z\n")
        session.query("SELECT k, MAX(at) AS at FROM s [RANGE 10 SEC SLIDE 5 SEC] GROUP BY k")
        questions = [
            "SELECT at FROM s [RANGE 1 SEC]",
            "SELECT MAX(at) AS at FROM s [RANGE 10 SEC] GROUP BY k ORDER BY at LIMIT 1",
            "SELECT at FROM r",
        ]
        for moment in ("before", "after"):
            for question in questions:
                table = session.ask(question)
                assert table.schema.field("at").type == STAMP, (moment, question)
                assert all(at <= datetime(2026, 1, 1, 0, 0, 12, tzinfo=UTC) for at in table["at"].to_pylist())
            session.start()
            session.wait()


def test_the_files_of_a_sink_say_so_too(base: Path) -> None:
    with session_of(base) as session:
        session.sql(STREAM)
        session.query("SELECT at, k FROM s [RANGE 5 SEC]", into="parquet:out")
        session.query("Istream(SELECT at FROM s [NOW])", into="jsonl:out.jsonl")
        session.query("Istream(SELECT at FROM s [NOW])", into="csv:out.csv")
        session.start()
        session.wait()
    schema = pq.read_table(base / "out").schema
    assert (schema.field("ts").type, schema.field("at").type) == (STAMP, STAMP)
    first = "2026-01-01T00:00:01.000000Z"
    assert (base / "out.jsonl").read_text().startswith(f'{{"ts":"{first}","at":"{first}"}}\n')
    assert (base / "out.csv").read_text().startswith(f"ts,at\n{first},{first}\n")


def test_a_view_goes_on_from_a_checkpoint(base: Path) -> None:
    text = "SELECT at, k FROM s [ROWS 2]"
    for _ in range(2):
        with session_of(base, checkpoint=base / "ck") as session:
            session.sql(STREAM)
            handle = session.query(text, name="q")
            session.start()
            session.wait()
            latest = handle.latest()
    assert latest.schema.field("at").type == STAMP
    assert latest.num_rows == 2
