"""Queries of a session that come and go while its pipeline runs."""

from __future__ import annotations

import threading
import time

import pytest
from tests.unit.session.kit import (
    ENDLESS,
    PACKETS,
    SUMS,
    contents,
    expected_log,
    log_of,
    logged,
    session_over,
)

from sash.errors import NotYet, SinkError
from sash.session import connect

COUNTS = "SELECT COUNT(*) AS n FROM s [UNBOUNDED] WITH (start = 'now')"


def test_a_stream_begins_with_a_query_that_comes_later_and_leaves_the_others_alone(tmp_path):
    with session_over(tmp_path, batch_rows=1) as session:
        first = session.query(SUMS, name="first", max_pending=1)
        seen = []
        for answer in first:
            seen.append(answer)
            if answer.at == 10:
                second = session.query(COUNTS, name="second")
        log = logged(second)
        assert log_of(iter(seen)) == expected_log(tmp_path)
    begun = log[0][0]
    # The batch under way when it came, and perhaps the one after it, are of the others.
    assert begun in (11, 12, 13)
    counts = [row[-1] for row in log if row[1] == "+"]
    # It begins with nothing if the row of that instant was there before it.
    assert counts == list(range(counts[0], counts[0] + 30 - begun + 1))
    assert counts[0] in (0, 1)
    assert contents(second) == [(counts[0] + 30 - begun,)]


def test_a_query_is_dropped_while_others_run(tmp_path):
    with connect(base_dir=tmp_path, runtime="inline", batch_rows=500) as session:
        session.sql(ENDLESS)
        stays, goes = session.query(PACKETS, name="stays"), session.query(PACKETS, name="goes")
        answers = iter(goes)
        next(answers)
        session.sql("DROP QUERY goes")
        assert goes.is_dropped
        assert [row["name"] for row in session.sql("SHOW QUERIES").to_pylist()] == ["stays"]
        # What had been delivered can still be read, and then it ends.
        assert len(list(answers)) < 1_000
        at = next(iter(stays)).at
        assert any(answer.at > at for answer in stays)


def test_a_session_without_queries_goes_on_and_takes_others(tmp_path):
    with connect(base_dir=tmp_path, runtime="inline", batch_rows=500) as session:
        session.sql(ENDLESS)
        gone = session.query(PACKETS, name="n", into="jsonl:n.jsonl")
        next(iter(gone))
        session.sql("DROP QUERY n")
        assert session.state == "running"
        written = (tmp_path / "n.jsonl").read_text()
        assert written
        again = session.query(PACKETS, name="n")
        next(iter(again))
        assert (tmp_path / "n.jsonl").read_text() == written, "what a dropped query wrote stays"


def test_queries_that_sql_creates_while_others_run_have_handles(tmp_path):
    with connect(base_dir=tmp_path, runtime="inline", batch_rows=500) as session:
        session.sql(ENDLESS)
        session.query(PACKETS, name="a")
        session.start()
        session.sql(f"CREATE QUERY b AS {PACKETS}; CREATE QUERY c AS {PACKETS}; DROP QUERY a")
        b = session.handle("b")
        next(iter(b))
        session.sql(f"DROP QUERY b; CREATE QUERY b AS {PACKETS} HAVING COUNT(*) > 0")
        assert b.is_dropped
        assert session.handle("b") is not b
        next(iter(session.handle("b")))


def test_a_query_that_cannot_be_taken_in_is_refused_and_the_run_goes_on(tmp_path):
    with connect(base_dir=tmp_path, runtime="inline", batch_rows=500) as session:
        session.sql(ENDLESS)
        a = session.query(PACKETS, name="a", into="jsonl:a.jsonl")
        session.start()
        with pytest.raises(SinkError, match="queries a and b write to the same place"):
            session.query(PACKETS, name="b", into="csv:./a.jsonl")
        assert [row["name"] for row in session.sql("SHOW QUERIES").to_pylist()] == ["a"]
        at = next(iter(a)).at
        assert any(answer.at > at for answer in a)


def test_a_query_that_operators_refuse_touches_nothing(tmp_path):
    (tmp_path / "bad.jsonl").write_text("kept\n")
    with connect(base_dir=tmp_path, runtime="inline", batch_rows=500) as session:
        session.sql(ENDLESS)
        answers = iter(session.query(PACKETS, name="stays"))
        at = next(answers).at
        select = "SELECT FREQUENT(length, 2) AS f FROM p [PARTITION BY src ROWS 2] WITH (start = 'now')"
        with pytest.raises(NotYet, match="FREQUENT"):
            session.query(select, name="bad", into="jsonl:bad.jsonl")
        assert (tmp_path / "bad.jsonl").read_text() == "kept\n"
        assert any(answer.at > at for answer in answers)
        late = session.query(PACKETS, name="late")
        assert next(iter(late)).at > at


def test_changes_from_several_threads_each_take_effect(tmp_path):
    with connect(base_dir=tmp_path, runtime="inline", batch_rows=500) as session:
        session.sql(ENDLESS)
        session.query(PACKETS, name="q")
        session.start()
        threads = [
            threading.Thread(target=session.query, args=(PACKETS,), kwargs={"name": f"q{i}"})
            for i in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert session.sql("SHOW QUERIES").num_rows == 5
        for i in range(4):
            next(iter(session.handle(f"q{i}")))


def test_a_change_that_comes_after_the_end_is_for_the_next_run(tmp_path):
    with session_over(tmp_path) as session:
        first = session.query(SUMS)
        session.start()
        while session.state == "running":
            time.sleep(0.001)
        second = session.query(COUNTS)
        assert logged(first) == expected_log(tmp_path)
        assert contents(second) == [] or contents(second) == [(30,)]
        assert [row[-1] for row in logged(second) if row[1] == "+"] == list(range(1, 31))
