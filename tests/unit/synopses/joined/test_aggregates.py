"""The operators of join synopses, restored between two boundaries and with other windows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sash.lang import bind_program
from sash.lang.algebra import Field
from sash.lang.types import Type
from sash.operators.delta import Delta
from sash.operators.join import JoinInput, WindowJoin
from sash.operators.operator import Moment
from sash.plan.join_synopses import JoinSetting, JoinSpec
from sash.plan.kinds import Kind
from sash.plan.panes import Panes
from sash.plan.run_plan import plan_run
from sash.state.expirations import Fifo
from sash.synopses.joined.aggregates import join_operators

SECOND = 1_000_000
SPEC = JoinSpec("j0", (), (1, 1), (0, 0), Panes(1, (1,)), 5, 0, Kind.RJ, (), ())


def test_a_reader_is_told_after_a_restart_of_what_no_other_reader_knew():
    #  panes of 2 s    a at 1, b at 5: their result is in (0, 8] at 8, and not in (4, 6] at 6
    streams = "".join(f"CREATE STREAM {s} (t BIGINT) TIMESTAMP BY t FROM 'csv:{s}.csv';\n" for s in "ab")
    windows = ("[RANGE 8 SEC SLIDE 4 SEC]", "[RANGE 2 SEC SLIDE 2 SEC]")
    queries = (
        f"CREATE QUERY q{i} AS SELECT COUNT(*) AS c FROM a {w}, b {w};\n" for i, w in enumerate(windows)
    )
    (join,) = plan_run(bind_program(streams + "".join(queries))).joins
    times = [Field("first", Type.BIGINT), Field("second", Type.BIGINT)]
    partials, operator = join_operators(join.spec, times, join.join.step)
    result = Delta(np.array([5 * SECOND]), np.array([9 * SECOND]), (pa.array([1]), pa.array([5])))
    made = partials.process([result], Moment(5 * SECOND))
    operator.process([made], Moment(6 * SECOND))
    restored = join_operators(join.spec, times, join.join.step)[1]
    restored.restore(operator.snapshot())
    told = restored.process([made.slice(0, 0)], Moment(8 * SECOND))
    assert told.ts.tolist() == [8 * SECOND] * 2
    assert sorted(zip(told.signs().tolist(), told.columns[1].to_pylist(), strict=True)) == [(-1, 0), (1, 1)]


@pytest.mark.parametrize(("saved", "now"), [(0, 4), (4, 0), (4, 4), (-2, 0)])
def test_rows_of_a_restored_join_live_as_long_as_its_windows_are_now(saved, now):
    def made(stretch):
        fields = (Field("n", Type.BIGINT),)
        inputs = [JoinInput(fields, Fifo(), is_ordered=True) for _ in range(2)]
        join = WindowJoin(inputs, [], name="j0")
        join.adapt([JoinSetting(SPEC, "j0", stretch)])
        return join

    row = Delta(np.array([10]), np.array([15 + saved]), (pa.array([1]),))
    none = row.slice(0, 0)
    before = made(saved)
    before.process([row, none], Moment(10))
    restored = made(now)
    restored.restore(before.snapshot())
    partner = Delta(np.array([11]), np.array([99]), (pa.array([2]),))
    assert restored.process([none, partner], Moment(11)).exp.tolist() == [15 + now]
