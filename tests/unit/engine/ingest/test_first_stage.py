"""Late rows: judged one after the other in order of arrival, however the chunks were run."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sash.connectors.sources import REJECTS_SCHEMA, open_source
from sash.engine.ingest.first_stage import ChunkResult, lateness, misjudged, run_chunk
from sash.lang import bind_program
from sash.plan.run_plan import plan_run

times = st.lists(st.integers(-20, 20), max_size=15)


def judged(ts: list[int], newest: int | None, slack: int) -> list[bool]:
    """The definition: a row is late if it is more than `slack` behind the newest row before it."""
    late = []
    for time in ts:
        late.append(newest is not None and time < newest - slack)
        newest = time if newest is None else max(newest, time)
    return late


@given(times, st.one_of(st.none(), st.integers(-20, 20)), st.integers(0, 6))
def test_rows_are_late_as_if_they_were_judged_one_by_one(ts, newest, slack):
    behind = lateness(np.array(ts, dtype=np.int64), newest, slack)
    right = judged(ts, newest, slack)
    assert (behind is None) == (not any(right))
    if behind is not None:
        assert (behind > 0).tolist() == right


@given(times, st.integers(-20, 20), st.integers(0, 6))
def test_lateness_says_by_how_much(ts, newest, slack):
    behind = lateness(np.array(ts, dtype=np.int64), newest, slack)
    if behind is not None:
        for position, time in enumerate(ts):
            assert behind[position] == max([newest, *ts[:position]]) - slack - time


def result_of(sequence: int, ts: list[int], newest: int | None, slack: int) -> ChunkResult:
    """A chunk judged by what its task knew."""
    kept = [time for time, late in zip(ts, judged(ts, newest, slack), strict=True) if not late]
    nothing = REJECTS_SCHEMA.empty_table()
    return ChunkResult(
        "s", sequence, len(kept), max(kept, default=None), min(kept, default=None), (), nothing, nothing
    )


@given(st.lists(times, max_size=5), st.one_of(st.none(), st.integers(-20, 20)), st.integers(0, 6))
def test_running_the_misjudged_chunks_again_gives_the_sequential_judgement(chunks, newest, slack):
    first = [result_of(number, ts, newest, slack) for number, ts in enumerate(chunks)]
    wrong = misjudged(reversed(first), {"s": newest}, {"s": slack})
    accepted = [
        result_of(number, ts, wrong.get(("s", number), newest), slack).accepted
        for number, ts in enumerate(chunks)
    ]
    late = judged([time for ts in chunks for time in ts], newest, slack)
    right, start = [], 0
    for ts in chunks:
        right.append(late[start : start + len(ts)].count(False))
        start += len(ts)
    assert accepted == right


def test_only_chunks_that_judged_wrongly_are_run_again():
    results = [result_of(0, [1, 30], None, 5), result_of(1, [26, 31], None, 5), result_of(2, [20], None, 5)]
    assert misjudged(results, {"s": None}, {"s": 5}) == {("s", 2): 31}


def test_late_rows_are_kept_in_full_with_their_place_and_by_how_much(tmp_path):
    (tmp_path / "s.csv").write_text("t,k,n\n10,a,1\nbad,b,2\n4,c,3\n11,d,\n5,e,5\n")
    program = bind_program(
        "CREATE STREAM s (t BIGINT, k STRING, n BIGINT) TIMESTAMP BY t SLACK 2 SEC FROM 'csv:s.csv';"
        "CREATE QUERY q INTO 'noop:' AS SELECT COUNT(*) AS c FROM s [RANGE 1 SEC SLIDE 1 SEC];"
    )
    plan = plan_run(program)
    (chunk,) = open_source(program.streams[0], tmp_path).plan({}, 100).chunks
    result = run_chunk(plan, chunk)
    assert (result.accepted, result.oldest, result.newest) == (2, 10_000_000, 11_000_000)
    assert result.rejected.column("row").to_pylist() == [2]
    late = result.late.to_pylist()
    assert [(row["row"], row["reason"]) for row in late] == [
        (3, "late by 4.000000 s"),
        (5, "late by 4.000000 s"),
    ]
    assert [json.loads(row["data"]) for row in late] == [
        {"t": 4, "k": "c", "n": 3},
        {"t": 5, "k": "e", "n": 5},
    ]
    assert {row["source"] for row in late} == {str(tmp_path / "s.csv")}


def test_a_chunk_gives_the_same_result_twice(tmp_path):
    (tmp_path / "s.csv").write_text("t,k,n\n10,a,1\n4,c,3\n11,a,2\n")
    program = bind_program(
        "CREATE STREAM s (t BIGINT, k STRING, n BIGINT) TIMESTAMP BY t FROM 'csv:s.csv';"
        "CREATE QUERY q INTO 'noop:' AS SELECT k, SUM(n) AS c FROM s [RANGE 1 SEC SLIDE 1 SEC] GROUP BY k;"
    )
    plan = plan_run(program)
    (chunk,) = open_source(program.streams[0], tmp_path).plan({}, 100).chunks
    one, two = run_chunk(plan, chunk), run_chunk(plan, chunk)
    assert one.late.equals(two.late)
    assert (one.accepted, one.newest, one.oldest) == (two.accepted, two.newest, two.oldest)
    (left,), (right,) = one.partials, two.partials
    assert left.ints.tolist() == right.ints.tolist()
    assert [key.to_pylist() for key in left.keys] == [key.to_pylist() for key in right.keys]
