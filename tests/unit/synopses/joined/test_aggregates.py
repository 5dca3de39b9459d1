"""The operator of join synopses, restored between two boundaries."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.lang import bind_program
from sash.lang.algebra import Field
from sash.lang.types import Type
from sash.operators.delta import Delta
from sash.operators.operator import Moment
from sash.plan.run_plan import plan_run
from sash.synopses.joined.aggregates import join_operators

SECOND = 1_000_000


def test_a_reader_is_told_after_a_restart_of_what_no_other_reader_knew():
    #  panes of 2 s    a at 1, b at 5: their result is in (0, 8] at 8, and not in (4, 6] at 6
    streams = "".join(f"CREATE STREAM {s} (t BIGINT) TIMESTAMP BY t FROM 'csv:{s}.csv';\n" for s in "ab")
    windows = ("[RANGE 8 SEC SLIDE 4 SEC]", "[RANGE 2 SEC SLIDE 2 SEC]")
    queries = (
        f"CREATE QUERY q{i} AS SELECT COUNT(*) AS c FROM a {w}, b {w};\n" for i, w in enumerate(windows)
    )
    (join,) = plan_run(bind_program(streams + "".join(queries))).joins
    times = [Field("first", Type.BIGINT), Field("second", Type.BIGINT)]
    partials, operator = join_operators(join.spec, times)
    result = Delta(np.array([5 * SECOND]), np.array([9 * SECOND]), (pa.array([1]), pa.array([5])))
    made = partials.process([result], Moment(5 * SECOND))
    operator.process([made], Moment(6 * SECOND))
    restored = join_operators(join.spec, times)[1]
    restored.restore(operator.snapshot())
    told = restored.process([made.slice(0, 0)], Moment(8 * SECOND))
    assert told.ts.tolist() == [8 * SECOND] * 2
    assert sorted(zip(told.signs().tolist(), told.columns[1].to_pylist(), strict=True)) == [(-1, 0), (1, 1)]
