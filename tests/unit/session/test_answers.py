"""Answers of handles: all of them in order, the newest, and readers who take their time."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.unit.session.kit import (
    STREAM,
    SUMS,
    contents,
    expected_log,
    log_of,
    logged,
    session_over,
)

from sash.session import Answer, connect
from sash.session.inbox import Inbox, Room, Shape


def test_answers_come_in_order_with_their_instants(tmp_path):
    """
    t   1 2 3 4
    k   b c a b      [RANGE 2 SEC SLIDE 1 SEC] at 3 holds the rows of 2 and 3
    """
    with session_over(tmp_path, 4) as session:
        query = session.query("SELECT k FROM s [RANGE 2 SEC SLIDE 1 SEC]", name="last")
        answers = list(query)
    assert [answer.at for answer in answers] == [1, 2, 3, 4]
    assert answers[2].rows.to_pylist() == [{"op": "-", "k": "b"}, {"op": "+", "k": "a"}]
    assert query.schema.names == ["k"]
    assert contents(query) == [("a",), ("b",)]


def test_times_are_in_utc(tmp_path):
    (tmp_path / "s.csv").write_text("t,v\n2026-01-01T00:00:01Z,5\n2026-01-01T00:00:02Z,7\n")
    with connect(base_dir=tmp_path, runtime="inline") as session:
        session.sql("CREATE STREAM s (t TIMESTAMP, v BIGINT) TIMESTAMP BY t FROM 'csv:s.csv'")
        query = session.query("Rstream(SELECT SUM(v) AS v FROM s [RANGE 1 MIN SLIDE 1 SEC])")
        answers = list(query)
    assert [answer.at.isoformat() for answer in answers] == [
        "2026-01-01T00:00:01+00:00",
        "2026-01-01T00:00:02+00:00",
    ]
    assert contents(query) == [(12,)]
    assert query.to_pandas()["v"].tolist() == [12]


def test_a_sink_is_given_the_same(tmp_path):
    with session_over(tmp_path) as session:
        query = session.query(SUMS, into="jsonl:out.jsonl")
        log = logged(query)
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert sorted((tuple(line.values()) for line in lines), key=lambda row: (row[0], repr(row))) == log
    assert log


def test_two_handles_each_get_their_own(tmp_path):
    with session_over(tmp_path, batch_rows=7) as session:
        first = session.query(SUMS)
        second = session.query("Istream(SELECT v FROM s [RANGE 5 SEC SLIDE 1 SEC])")
        assert (first.name, second.name) == ("q1", "q2")
        mine = logged(first)
        theirs = logged(second)
    assert mine == expected_log(tmp_path)
    assert [row[1] for row in theirs] == list(range(1, 31))


def test_handles_are_read_from_other_threads(tmp_path):
    with session_over(tmp_path, batch_rows=3) as session:
        queries = [session.query(SUMS, max_pending=1) for _ in range(3)]
        logs: dict[int, list[tuple[object, ...]]] = {}

        def read(number: int, answers: Iterator[Answer]) -> None:
            logs[number] = log_of(answers)

        # Whoever began to read before the start misses nothing, whichever thread comes first.
        readers = [threading.Thread(target=read, args=(i, iter(query))) for i, query in enumerate(queries)]
        for reader in readers:
            reader.start()
        assert session.wait(60)
        for reader in readers:
            reader.join(60)
    assert [logs[number] for number in range(3)] == [expected_log(tmp_path)] * 3


def test_an_iteration_goes_on_where_the_last_one_left_off(tmp_path):
    with session_over(tmp_path) as session:
        query = session.query("Istream(SELECT v FROM s [RANGE 5 SEC SLIDE 1 SEC])")
        for answer in query:
            if answer.at == 10:
                break
        assert [answer.at for answer in query] == list(range(11, 31))


def test_latest_of_rstream_is_the_newest_answer_and_empty_when_that_is(tmp_path):
    """
    t  1 . . . . . . . . 10
    v  5                  9     [RANGE 2 SEC SLIDE 2 SEC] holds 5 at 2, nothing from 4 on, 9 at 10
    """
    (tmp_path / "s.csv").write_text("t,k,v\n1,a,5\n9,a,7\n10,b,9\n15,c,1\n")
    text = "Rstream(SELECT v FROM s [RANGE 2 SEC SLIDE 2 SEC])"
    with connect(base_dir=tmp_path, runtime="inline") as session:
        session.sql(STREAM)
        query = session.query(text)
        assert query.latest().num_rows == 0
        assert [(answer.at, answer.rows.num_rows) for answer in query] == [(2, 1), (10, 2)]
        assert query.latest().num_rows == 0, "the answer at 14 is empty"
        assert query.latest().schema == query.schema


def test_latest_of_a_view_is_its_contents(tmp_path):
    with session_over(tmp_path, batch_rows=4) as session:
        view = session.query(SUMS)
        whole = session.query(f"Rstream({SUMS})")
        joined = session.query("SELECT a.k, b.v FROM s [RANGE 3 SEC] a, s [ROWS 4] b WHERE a.k = b.k")
        assert session.wait()
    assert contents(view) == contents(whole) != []
    assert contents(joined) == [("a", 27), ("a", 30), ("b", 28), ("c", 29)]


@pytest.mark.parametrize(
    "text",
    [
        SUMS,
        "SELECT COUNT(*) AS n FROM s [RANGE 6 SEC SLIDE 3 SEC]",
        "SELECT k, COUNT(DISTINCT v) AS v FROM s [RANGE 6 SEC SLIDE 4 SEC] GROUP BY k",
        "SELECT a.v FROM s [RANGE 5 SEC SLIDE 2 SEC] a, s [RANGE 3 SEC SLIDE 2 SEC] b WHERE a.k = b.k",
    ],
)
@pytest.mark.parametrize("times", [(1, 2, 2, 5), (1, 2, 3, 30), (4, 8, 15, 18, 19)])
def test_the_newest_whole_answer_is_the_view(tmp_path, text, times):
    rows = [f"{t},{'abc'[i % 3]},{t % 4}" for i, t in enumerate(times)]
    (tmp_path / "s.csv").write_text("\n".join(["t,k,v", *rows]) + "\n")
    with connect(base_dir=tmp_path, runtime="inline", batch_rows=1) as session:
        session.sql(STREAM)
        view, whole = session.query(text), session.query(f"Rstream({text})")
        session.wait()
    assert contents(view) == contents(whole)


def test_what_only_grows_is_not_kept_unless_memory_is_no_concern(tmp_path):
    with session_over(tmp_path) as session:
        growing = session.query("SELECT v FROM s WHERE v > 3")
        kept = session.query("SELECT v FROM s WHERE v > 3 ALLOW UNBOUNDED STATE")
        session.wait()
        assert contents(growing) == [(30,)]
        assert contents(kept) == [(v,) for v in range(4, 31)]


def test_a_slow_reader_slows_the_pipeline(tmp_path):
    with session_over(tmp_path, 100, batch_rows=1) as session:
        query = session.query("Istream(SELECT v FROM s [RANGE 5 SEC SLIDE 1 SEC])", max_pending=3)
        seen = []
        for answer in query:
            seen.append(answer.at)
            time.sleep(0.001)
            assert query.pending <= 3 + 1
    assert seen == list(range(1, 101))
    assert query.missed == 0


def test_a_reader_that_has_not_woken_yet_is_waited_for():
    schema = pa.schema([("ts", pa.int64()), ("v", pa.int64())])
    room = Room()
    inbox = Inbox(room, Shape(schema, is_view=False, slide=None, unit=1), limit=2)
    seen = []
    reader = threading.Thread(target=lambda: seen.append(inbox.take(1)))
    reader.start()
    with room.changed:
        assert room.changed.wait_for(lambda: not room.can_read(reader), 60)
        for instant in range(3):
            # This thread has the lock, so the reader sleeps on.
            inbox.put(pa.table({"ts": [instant], "v": [7]}, schema), instant)
            assert inbox.holds_up == (instant >= 1)
    reader.join(60)
    assert [answer and answer.at for answer in seen] == [0]


def test_nobody_reads_and_the_pipeline_goes_on(tmp_path):
    with session_over(tmp_path, 100, batch_rows=5) as session:
        stream = session.query("Istream(SELECT v FROM s [RANGE 5 SEC SLIDE 1 SEC])", max_pending=10)
        view = session.query(SUMS, max_pending=10)
        session.start()
        assert session.wait(60)
        assert [answer.at for answer in stream] == list(range(91, 101))
        assert stream.missed == 90
        (whole, *after) = list(view)
    assert not after
    assert set(whole.rows.column("op").to_pylist()) == {"+"}
    assert sorted(tuple(row.values())[1:] for row in whole.rows.to_pylist()) == contents(view)


def test_a_late_reader_of_a_view_sees_its_net(tmp_path):
    with session_over(tmp_path, 100, batch_rows=5) as session:
        view = session.query(SUMS, max_pending=8)
        gate = session.query("Istream(SELECT v FROM s [RANGE 5 SEC SLIDE 1 SEC])", max_pending=1)
        gates = iter(gate)
        while next(gates).at < 50:
            pass
        net: dict[tuple[object, ...], int] = {}
        answers = iter(view)
        gates.close()
        for answer in answers:
            for op, *row in (tuple(row.values()) for row in answer.rows.to_pylist()):
                net[tuple(row)] = net.get(tuple(row), 0) + (1 if op == "+" else -1)
    assert view.missed > 0
    assert sorted(row for row, count in net.items() if count) == contents(view)


def test_readers_of_one_thread_do_not_wait_for_each_other_for_ever(tmp_path):
    """The first query has one answer, the second a hundred: whoever reads in step waits for the first."""
    with session_over(tmp_path, 100, batch_rows=1) as session:
        rare = session.query("Istream(SELECT v FROM s [RANGE 5 SEC SLIDE 1 SEC] WHERE v = 90)")
        often = session.query("Istream(SELECT v FROM s [RANGE 5 SEC SLIDE 1 SEC])", max_pending=2)
        pairs = [(a.at, b.at) for a, b in zip(rare, often, strict=False)]
        assert pairs == [(90, 1)]
        assert session.wait(60)


def test_a_reader_whose_thread_has_ended_holds_nobody_up(tmp_path):
    with session_over(tmp_path, 100, batch_rows=1) as session:
        query = session.query(SUMS, max_pending=1)
        answers = iter(query)
        thread = threading.Thread(target=lambda: next(answers))
        thread.start()
        thread.join(60)
        deadline = time.monotonic() + 60
        while session.state == "running" and time.monotonic() < deadline:
            time.sleep(0.01)
        assert session.state == "ended"


def test_waiting_with_a_half_read_query_in_hand_comes_to_an_end(tmp_path):
    with session_over(tmp_path, 100, batch_rows=1) as session:
        query = session.query(SUMS, max_pending=1)
        answers = iter(query)
        assert next(answers).at == 1
        assert session.wait(60)
        assert [answer.at for answer in answers][-1] == 100
