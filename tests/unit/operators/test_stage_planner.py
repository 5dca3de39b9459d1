"""Which operators work where, and which rows are sent where."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.lang import bind_program
from sash.lang.algebra import Field, Join
from sash.lang.types import Type
from sash.operators.build import build
from sash.operators.delta import NEVER, Delta
from sash.operators.division import Mode, by_columns, joined
from sash.operators.group import Grouping
from sash.operators.stage_planner import TOP, Sent, StagePlan, cut
from sash.plan.run_plan import plan_run

STREAMS = """
CREATE STREAM a (t BIGINT, k BIGINT, g STRING, v BIGINT) TIMESTAMP BY t FROM 'csv:a.csv';
CREATE STREAM b (t BIGINT, k BIGINT, g STRING, v BIGINT) TIMESTAMP BY t FROM 'csv:b.csv';
CREATE STREAM c (t BIGINT, k BIGINT, g STRING, v BIGINT) TIMESTAMP BY t FROM 'csv:c.csv';
CREATE RELATION r (k BIGINT, w STRING) FROM 'csv:r.csv';
"""
FIELDS = (Field("k", Type.BIGINT), Field("g", Type.STRING))


def cut_of(*queries: str) -> StagePlan:
    named = (f"CREATE QUERY q{i} INTO 'noop:' AS {query};\n" for i, query in enumerate(queries))
    return cut(build(plan_run(bind_program(STREAMS + "".join(named)))))


def ways(divided: StagePlan, stage: int = 1) -> list[object]:
    """How the rows of sources come to a stage: by how many columns, or as their mode says."""
    sent = [sent for _, sent in divided.sources if sent.stage == stage]
    return [len(each.key) if each.key is not None else each.mode for each in sent]


def operators(divided: StagePlan, stage: int = 1) -> list[str]:
    return [type(v.operator).__name__ for v in divided.stages[stage - 1].vertices if v.operator is not None]


def tops(divided: StagePlan) -> list[str]:
    return [type(v.operator).__name__ for v in divided.top.vertices if v.operator is not None]


def test_a_join_and_what_follows_from_its_key_are_one_stage():
    divided = cut_of(
        "SELECT a.k, COUNT(*) AS n FROM a [RANGE 5 SEC], b [RANGE 5 SEC] WHERE a.k = b.k GROUP BY a.k"
    )
    assert ways(divided) == [1, 1]
    assert len(divided.stages) == 1
    assert {"WindowJoin", "Grouping", "ChangeLog"} <= set(operators(divided))
    assert tops(divided) == ["Merged"]


def test_rows_whose_key_is_not_in_the_answer_are_netted_at_the_top():
    divided = cut_of("SELECT a.v FROM a [RANGE 5 SEC], b [RANGE 5 SEC] WHERE a.k = b.k")
    assert tops(divided) == ["ChangeLog"]
    assert "ChangeLog" not in operators(divided)


def test_another_key_needs_another_stage():
    divided = cut_of(
        "SELECT a.v, COUNT(*) AS n FROM a [RANGE 5 SEC], b [RANGE 5 SEC] WHERE a.k = b.k GROUP BY a.v"
    )
    assert len(divided.stages) == 2
    assert "Grouping" in operators(divided, 2)


def test_a_join_of_three_by_two_keys_sends_the_third_everywhere():
    divided = cut_of(
        "SELECT a.k FROM a [RANGE 5 SEC], b [RANGE 5 SEC], c [RANGE 5 SEC] WHERE a.k = b.k AND b.v = c.v"
    )
    assert sorted(map(str, ways(divided))) == ["1", "1", "Mode.EVERYWHERE"]
    assert len(divided.stages) == 1


def test_a_join_without_a_key_divides_one_side():
    divided = cut_of("SELECT a.k FROM a [RANGE 5 SEC], b [RANGE 5 SEC] WHERE a.v < b.v")
    assert ways(divided) == [Mode.ANYWHERE, Mode.EVERYWHERE]


def test_rows_windows_and_what_counts_everything_have_one_home():
    divided = cut_of("SELECT COUNT(*) AS n FROM a [ROWS 10]")
    assert ways(divided) == [Mode.ONE_PLACE]
    assert len(divided.stages) == 1
    homes = [home for home in divided.stages[0].homes if home is not None]
    assert len(set(homes)) == 1


def test_partitioned_rows_windows_are_divided():
    assert ways(cut_of("SELECT k, v FROM a [PARTITION BY k ROWS 10]")) == [1]


def test_queries_with_homes_have_different_ones():
    divided = cut_of("SELECT COUNT(*) AS n FROM a [ROWS 10]", "SELECT COUNT(*) AS n FROM b [ROWS 10]")
    homes = {home for home in divided.stages[0].homes if home is not None}
    assert len(homes) == 2


def test_a_shared_part_is_one_operator():
    query = "SELECT a.k, b.v FROM a [RANGE 5 SEC], b [RANGE 5 SEC] WHERE a.k = b.k"
    assert operators(cut_of(query, query)).count("WindowJoin") == 1


def test_a_static_relation_goes_everywhere_and_rows_stay_where_they_are():
    divided = cut_of("SELECT a.k, r.w FROM a [RANGE 5 SEC], r WHERE a.k = r.k")
    assert dict(zip((name for name, _ in divided.sources), ways(divided), strict=True)) == {
        "scan0": Mode.ANYWHERE,
        "relation r": Mode.EVERYWHERE,
    }


def test_elsewhere_an_operator_with_a_home_is_nothing():
    divided = cut_of("SELECT COUNT(*) AS n FROM a [ROWS 10]")
    flows = [divided.stages[0].flow(partition, 3) for partition in range(3)]
    counting = [any(isinstance(v.operator, Grouping) for v in flow.vertices) for flow in flows]
    assert sum(counting) == 1


# ---------------------------------------------------------------- sending

ROWS = st.lists(
    st.tuples(st.integers(0, 5), st.one_of(st.none(), st.integers(-3, 3)), st.sampled_from("abc"))
)


def delta_of(rows, sign=None) -> Delta:
    columns = (pa.array([row[1] for row in rows], pa.int64()), pa.array([r[2] for r in rows], pa.string()))
    ts = np.array([row[0] for row in rows], dtype=np.int64)
    signs = None if sign is None else np.full(len(rows), sign, dtype=np.int8)
    return Delta(ts, np.full(len(rows), NEVER), columns, signs)


def rows_of(delta: Delta) -> list[tuple[object, ...]]:
    return list(zip(delta.ts.tolist(), *(column.to_pylist() for column in delta.columns), strict=True))


@given(rows=ROWS, of=st.integers(1, 6))
def test_rows_of_one_key_go_to_one_partition_whatever_they_mean(rows, of):
    key = by_columns([0], FIELDS).columns
    sent = Sent(0, 1, FIELDS, key, (), Mode.ANYWHERE)
    places: dict[object, set[int]] = {}
    for sign in (1, -1):
        parts = list(sent.partitions(delta_of(rows, sign), 0, of))
        assert Counter(r for _, part in parts for r in rows_of(part)) == Counter(rows)
        for partition, part in parts:
            assert 0 <= partition < of
            # Arrival order is kept.
            assert rows_of(part) == [row for row in rows if row in set(rows_of(part))]
            for row in rows_of(part):
                places.setdefault(row[1], set()).add(partition)
    assert all(len(found) == 1 for found in places.values())


@pytest.mark.parametrize(
    ("mode", "homes", "stage", "expected"),
    [
        (Mode.EVERYWHERE, (), 1, [0, 1, 2]),
        (Mode.ONE_PLACE, (4, 5), 1, [1, 2]),
        (Mode.HERE, (), 1, [2]),
        (Mode.ONE_PLACE, (), TOP, [TOP]),
    ],
)
def test_rows_without_a_key_go_where_their_mode_says(mode, homes, stage, expected):
    sent = Sent(0, stage, FIELDS, None, homes, mode)
    parts = list(sent.partitions(delta_of([(1, 2, "a"), (2, 3, "b")]), 2, 3))
    assert [partition for partition, _ in parts] == expected
    assert all(len(part) == 2 for _, part in parts)


def test_equal_expressions_of_a_join_are_one_class():
    program = bind_program(
        STREAMS + "CREATE QUERY q INTO 'noop:' AS SELECT a.k FROM a [RANGE 5 SEC], b [RANGE 5 SEC], "
        "c [RANGE 5 SEC] WHERE a.k = b.k AND b.k = c.k;"
    )
    join = next(node for node in program.queries[0].plan.walk() if isinstance(node, Join))
    division = joined([child.fields for child in join.children], join.equalities)
    assert len(division.classes) == 1
    assert [not isinstance(wish, Mode) for wish in next(division.own())] == [True, True, True]
