"""The query plane: how far the clock may go, and what it lets go of."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.unit.synopses.synopsis_kit import Fed, Row

from sash.connectors.sources import REJECTS_SCHEMA
from sash.engine.batch_result import BatchResult
from sash.engine.ingest.first_stage import ChunkResult
from sash.engine.ingest.watermarks import StreamState, advanced
from sash.engine.observe.report import StreamCounts
from sash.engine.query_executor import QueryExecutor
from sash.engine.streaming_job import StreamingJob
from sash.lang import bind_program
from sash.plan.run_plan import plan_run

PROGRAM = """
CREATE STREAM s (t BIGINT, n BIGINT) TIMESTAMP BY t SLACK 3 US FROM 'csv:s' WITH (unit = 'us');
CREATE STREAM r (t BIGINT, n BIGINT) TIMESTAMP BY t FROM 'csv:r' WITH (unit = 'us');
CREATE QUERY q INTO 'noop:' AS SELECT COUNT(*) AS c FROM s [RANGE 10 US SLIDE 5 US];
CREATE QUERY p INTO 'noop:' AS SELECT COUNT(*) AS c FROM r [RANGE 20 US SLIDE 4 US];
"""


@pytest.fixture
def executor() -> QueryExecutor:
    program = bind_program(PROGRAM)
    return QueryExecutor([StreamingJob(plan_run(program))])


def states(executor: QueryExecutor, **given: StreamState) -> None:
    executor.streams = {**executor.streams, **given}


def test_there_is_no_clock_before_every_stream_has_begun(executor):
    assert executor.through(["s", "r"]) is None
    states(executor, s=StreamState(newest=100, first=1))
    assert executor.through(["s", "r"]) is None


def test_the_clock_stands_just_before_the_least_newest_minus_slack(executor):
    #  s   newest 100, slack 3: a row at 97 may still come      complete through 96
    #  r   newest  98, slack 0: a row at 98 may still come      complete through 97
    states(executor, s=StreamState(100, 1), r=StreamState(98, 1))
    assert executor.through(["s", "r"]) == 96
    states(executor, s=StreamState(102, 1))
    assert executor.through(["s", "r"]) == 97


def test_a_stream_that_has_ended_holds_nobody_back(executor):
    states(executor, s=StreamState(10, 1, ended=True), r=StreamState(98, 1))
    assert executor.through(["s", "r"]) == 97
    states(executor, s=StreamState(None, None, ended=True))
    assert executor.through(["s", "r"]) == 97


def test_at_the_end_the_clock_moves_to_the_greatest_timestamp_and_includes_it(executor):
    states(executor, s=StreamState(100, 1, ended=True), r=StreamState(250, 1, ended=True))
    assert executor.through(["s", "r"]) == 250


def test_streams_without_any_row_end_without_an_instant(executor):
    states(executor, s=StreamState(ended=True), r=StreamState(ended=True))
    assert executor.through(["s", "r"]) is None
    assert list(executor.answer(0, BatchResult([]))) == []


def test_panes_are_dead_when_the_last_boundary_minus_the_range_has_passed_them(executor):
    assert executor.horizons() == {"s0": None, "s1": None}
    executor.parts[0].through = 43
    assert executor.horizons()[executor.plan.queries[0].synopsis] == 40 - 10
    assert executor.horizons()[executor.plan.queries[1].synopsis] == 40 - 20


def result(stream: str, accepted: int, newest: int | None, oldest: int | None, late: int = 0) -> ChunkResult:
    dead_letters = REJECTS_SCHEMA.empty_table()
    lates = [{"source": "f", "row": i, "reason": "late", "data": ""} for i in range(late)]
    late_rows = pa.Table.from_pylist(lates, schema=REJECTS_SCHEMA)
    return ChunkResult(stream, 0, accepted, newest, oldest, (), late_rows, dead_letters)


def test_a_batch_moves_streams_on_and_counts_their_rows():
    before = {"s": StreamState(10, 5, False, StreamCounts(2, 0, 0)), "r": StreamState()}
    results = [result("s", 3, 8, 4, late=2), result("s", 0, None, None), result("r", 1, 7, 7)]
    after = advanced(before, results, ["r"])
    assert after["s"] == StreamState(10, 4, False, StreamCounts(5, 2, 0))
    assert after["r"] == StreamState(7, 7, True, StreamCounts(1, 0, 0))
    assert before["r"] == StreamState(), "what was there is left alone"


def test_a_plane_that_is_restored_goes_on_where_the_other_stopped():
    rows: list[Row] = [(t, "ab"[t % 2], t % 3, t, t * 0.5) for t in range(1, 40)]
    select = "SELECT g, COUNT(*) AS c, MAX(k) AS m, SUM(x) AS z FROM s [RANGE 9 US SLIDE 4 US] GROUP BY g"
    whole, first = Fed(select, f"Rstream({select})"), Fed(select, f"Rstream({select})")
    whole.feed(rows, end=True)
    first.feed(rows[:23])
    second = Fed(select, f"Rstream({select})")
    second.feed([])
    for partial in [p for chunk in (rows[:10], rows[10:23]) for p in second.partials(chunk)]:
        second.executor.absorb_partial(partial)
    part = first.executor.parts[0]
    second.executor.restore(first.executor.streams, {0: part.first}, {0: part.through}, {}, {}, {}, {})
    second.feed(rows[23:], end=True)
    for name in ("q0", "q1"):
        pieces = [r for fed in (first, second) for t in fed.tables[name] for r in t.to_pylist()]
        assert pieces == [r for t in whole.tables[name] for r in t.to_pylist()]
