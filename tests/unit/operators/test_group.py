"""Grouping against its definition at every instant, for every aggregate and type.

rows of a group     ├────10────┤
                           ├────20────┤
instants        0   1      3   5      7
SUM                 + 10   - 10, + 30
                               - 30, + 20
                                      - 20
"""

from __future__ import annotations

import math
import pickle
from datetime import datetime
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.operators.aggregates.kit import (
    Case,
    F,
    assert_follows,
    call,
    calls_of,
    changes_of,
    delta_of,
    grouping,
    histories,
    plain,
    rows_of,
    run,
    top,
)

from sash.errors import DataError, InternalError, NotYet
from sash.lang.types import Type
from sash.operators.delta import ALWAYS, ARROW_TYPES, NEVER, Delta, empty_delta
from sash.operators.group import Grouping
from sash.operators.operator import Moment

COUNT_ROWS = call(F.COUNT, None)
KEYS: list[list[Type]] = [[], [Type.STRING], [Type.DOUBLE], [Type.BIGINT, Type.BOOLEAN], [Type.TIMESTAMP]]
NOW = Moment(0)


def fits(history: list[Case], type_: Type) -> bool:
    """Whether no sum of integers can be out of range."""
    sizes = (abs(case.values[-1] or 0) for case in history) if type_ is Type.BIGINT else ()
    return sum(sizes, 0) < 2**63


def split(
    draw: st.DataObject, history: list[Case], types: list[Type], *, shuffle: bool = True
) -> list[Delta]:
    """Deltas that end between instants, in no order within."""
    changes = changes_of(history)
    instants = sorted({ts for ts, _, _ in changes})
    ends = sorted(draw.draw(st.sets(st.sampled_from(instants), max_size=4))) if instants else []
    batches, start = [], -1
    for end in [*ends, 10**6]:
        part = [change for change in changes if start < change[0] <= end]
        batches.append(delta_of(draw.draw(st.permutations(part)) if shuffle else part, types))
        start = end
    return batches


@pytest.mark.parametrize("type_", list(Type), ids=str)
@given(data=st.data())
def test_every_aggregate_is_its_definition_at_every_instant(type_: Type, data: st.DataObject) -> None:
    keys = data.draw(st.sampled_from(KEYS))
    types = [*keys, type_]
    history = data.draw(histories(types).filter(lambda history: fits(history, type_)))
    calls = [COUNT_ROWS, *calls_of(type_)]
    restarts = data.draw(st.sets(st.integers(0, 5)))

    def between(operator: Grouping, number: int) -> Grouping:
        if number not in restarts:
            return operator
        if number % 2:
            copy: Grouping = pickle.loads(pickle.dumps(operator))
            return copy
        fresh = grouping(keys, type_, calls)
        fresh.restore(operator.snapshot())
        return fresh

    log = run(grouping(keys, type_, calls), split(data, history, types), between)
    if not keys:
        assert log[0][:2] == (ALWAYS, 1)
    assert_follows(log, history, len(keys), calls)


@pytest.mark.parametrize("type_", list(Type), ids=str)
@given(data=st.data())
def test_monotone_queues_follow_rows_that_leave_as_they_came(type_: Type, data: st.DataObject) -> None:
    types = [Type.STRING, type_]
    history = data.draw(histories(types, fifo=True))
    calls = [call(F.MIN, type_), call(F.MAX, type_)]

    def between(operator: Grouping, number: int) -> Grouping:
        fresh = grouping(types[:1], type_, calls, fifo=True)
        fresh.restore(operator.snapshot())
        return fresh

    batches = split(data, history, types, shuffle=False)
    log = run(grouping(types[:1], type_, calls, fifo=True), batches, between)
    assert_follows(log, history, 1, calls)


@pytest.mark.parametrize("type_", list(Type), ids=str)
@given(data=st.data())
def test_extremes_of_rows_that_never_leave_are_one_value_a_group(type_: Type, data: st.DataObject) -> None:
    types = [Type.STRING, type_]
    history = [Case(case.enter, None, case.values) for case in data.draw(histories(types))]
    calls = [call(F.MIN, type_), call(F.MAX, type_)]

    def between(operator: Grouping, number: int) -> Grouping:
        fresh = grouping(types[:1], type_, calls, endless=True)
        fresh.restore(operator.snapshot())
        assert type_ is Type.STRING or fresh.state_rows <= 3 * len({case.values[0] for case in history})
        return fresh

    log = run(grouping(types[:1], type_, calls, endless=True), split(data, history, types), between)
    assert_follows(log, history, 1, calls)


@pytest.mark.parametrize("fifo", [False, True])
@pytest.mark.parametrize("type_", [Type.BIGINT, Type.DOUBLE, Type.STRING], ids=str)
def test_large_states_are_what_a_recomputation_says(type_: Type, fifo: bool) -> None:
    """A window of 4,000 rows over 20,000: trees split and merge, arrays grow, strings come and go."""
    rng = np.random.default_rng(7)
    rows, window, batch = 20_000, 4_000, 1_500
    keys = rng.integers(0, 7, rows)
    numbers = rng.integers(0, 3_000, rows) + np.arange(rows) // 4
    values = {
        Type.BIGINT: pa.array(numbers),
        Type.DOUBLE: pa.array(numbers * 0.1),
        Type.STRING: pa.array([f"w{n * 7919 % 10_007}" for n in numbers.tolist()]),
    }[type_]
    calls = [call(F.MIN, type_), call(F.MAX, type_)]
    if not fifo:
        calls += [call(F.QUANTILE, type_, parameter=0.9), call(F.TOP, type_, parameter=3)]
        calls += [call(F.COUNT, type_, is_distinct=True)]
    operator = grouping([Type.BIGINT], type_, calls, fifo=fifo)
    current: dict[int, tuple[Any, ...]] = {}
    for start in range(0, rows + window, batch):
        positions = np.arange(start, min(start + batch, rows + window))
        entering, leaving = positions[positions < rows], positions[positions >= window] - window
        chosen = np.concatenate([entering, leaving])
        delta = Delta(
            np.concatenate([entering, leaving + window]),
            np.full(len(chosen), NEVER, dtype=np.int64),
            (pa.array(keys[chosen]), values.take(pa.array(chosen))),
            np.repeat(np.array([1, -1], dtype=np.int8), [len(entering), len(leaving)]),
        )
        for _, sign, row in rows_of(operator.process([delta], NOW)):
            if sign > 0:
                current[row[0]] = row
            elif current.get(row[0]) == row:
                del current[row[0]]
        live = np.arange(max(0, positions[-1] - window + 1), min(positions[-1] + 1, rows))
        bag = list(zip(keys[live].tolist(), values.take(pa.array(live)).to_pylist(), strict=True))
        history = [Case(0, None, row) for row in bag]
        assert_follows([(0, 1, row) for row in current.values()], history, 1, calls)
    assert operator.state_rows == 0


def log_of(operator: Grouping, changes: list[tuple[int, int, tuple[Any, ...]]], types: list[Type]) -> Any:
    return rows_of(operator.process([delta_of(changes, types)], NOW))


def test_without_keys_there_is_one_group_from_the_beginning() -> None:
    operator = grouping([], Type.BIGINT, [COUNT_ROWS, call(F.SUM, Type.BIGINT)])
    none = empty_delta(operator.fields[1:])
    assert rows_of(operator.process([none], NOW)) == [(ALWAYS, 1, (0, None))]
    assert rows_of(operator.process([none], NOW)) == []
    assert log_of(operator, [(3, 1, (5,))], [Type.BIGINT]) == [(3, -1, (0, None)), (3, 1, (1, 5))]
    assert log_of(operator, [(4, -1, (5,))], [Type.BIGINT]) == [(4, -1, (1, 5)), (4, 1, (0, None))]


def test_rows_of_a_relation_are_there_from_the_beginning() -> None:
    operator = grouping([], Type.BIGINT, [COUNT_ROWS])
    changes = [(ALWAYS, 1, (5,)), (ALWAYS, 1, (6,)), (2, 1, (7,))]
    assert log_of(operator, changes, [Type.BIGINT]) == [(ALWAYS, 1, (2,)), (2, -1, (2,)), (2, 1, (3,))]


def test_a_row_that_stays_the_same_is_not_mentioned() -> None:
    operator = grouping([], Type.BIGINT, [COUNT_ROWS, call(F.MAX, Type.BIGINT)])
    log_of(operator, [(1, 1, (9,)), (1, 1, (3,))], [Type.BIGINT])
    assert log_of(operator, [(2, -1, (3,)), (2, 1, (4,))], [Type.BIGINT]) == []


def test_a_group_that_vanishes_and_comes_back_in_one_batch() -> None:
    types = [Type.STRING, Type.BIGINT]
    operator = grouping(types[:1], Type.BIGINT, [call(F.SUM, Type.BIGINT)])
    changes = [(1, 1, ("a", 1)), (2, -1, ("a", 1)), (4, 1, ("a", 2)), (4, 1, ("b", 0))]
    assert log_of(operator, changes, types) == [
        (1, 1, ("a", 1)),
        (2, -1, ("a", 1)),
        (4, 1, ("a", 2)),
        (4, 1, ("b", 0)),
    ]


def test_null_is_a_key_of_its_own_and_no_value() -> None:
    types = [Type.STRING, Type.DOUBLE]
    calls = [COUNT_ROWS, *(call(f, Type.DOUBLE) for f in (F.COUNT, F.SUM, F.VAR_POP, F.MIN))]
    operator = grouping(types[:1], Type.DOUBLE, [*calls, call(F.TOP, Type.DOUBLE, parameter=1)])
    assert log_of(operator, [(1, 1, (None, None))], types) == [(1, 1, (None, 1, 0, None, None, None, None))]


def test_a_sum_out_of_range_is_an_error_that_names_it() -> None:
    operator = grouping([], Type.BIGINT, [call(F.SUM, Type.BIGINT)])
    log_of(operator, [(1, 1, (2**63 - 1,))], [Type.BIGINT])
    # Out of range within an instant only: nobody can see it.
    log_of(operator, [(2, 1, (1,)), (2, 1, (-5,))], [Type.BIGINT])
    with pytest.raises(DataError, match=r"SUM\(x\) does not fit into BIGINT") as caught:
        log_of(operator, [(3, 1, (5,))], [Type.BIGINT])
    assert caught.value.id == "overflow"


def test_an_average_of_integers_may_pass_the_range_on_the_way() -> None:
    operator = grouping([], Type.BIGINT, [call(F.AVG, Type.BIGINT)])
    log = log_of(operator, [(1, 1, (2**63 - 1,)), (1, 1, (2**63 - 1,))], [Type.BIGINT])
    assert log[-1] == (1, 1, (float(2**63),))


def test_nothing_of_a_large_value_stays_behind() -> None:
    """A running sum in doubles, even in pairs of them, would have lost 0.1 under 1e200."""
    calls = [call(f, Type.DOUBLE) for f in (F.SUM, F.AVG, F.VAR)]
    operator = grouping([], Type.DOUBLE, calls)
    log_of(operator, [(1, 1, (0.1,)), (1, 1, (0.2,))], [Type.DOUBLE])
    (before,) = (
        row
        for _, sign, row in log_of(operator, [(2, 1, (1e200,)), (2, 1, (math.inf,))], [Type.DOUBLE])
        if sign < 0
    )
    log = log_of(operator, [(3, -1, (1e200,)), (3, -1, (math.inf,))], [Type.DOUBLE])
    assert log[-1] == (3, 1, before)
    assert before[0] == 0.1 + 0.2


def test_equal_values_have_no_variance() -> None:
    operator = grouping([], Type.DOUBLE, [call(F.VAR, Type.DOUBLE), call(F.STDDEV_POP, Type.DOUBLE)])
    log = log_of(operator, [(1, 1, (1e15 + 0.3,))] * 7, [Type.DOUBLE])
    assert log[-1] == (1, 1, (0.0, 0.0))


@pytest.mark.parametrize(
    "values",
    [
        [math.nan],
        [math.inf],
        [1.0],
        [1.0, math.nan],
        [1.0, math.inf],
        [math.inf, -math.inf],
        [1e200, -1e200],
        [3.0, 5.0],
    ],
    ids=str,
)
def test_what_is_not_finite_means_what_it_means_in_duckdb(values: list[float]) -> None:
    functions = {F.VAR: "var_samp", F.VAR_POP: "var_pop", F.STDDEV: "stddev_samp", F.STDDEV_POP: "stddev_pop"}
    functions |= {f: f.value for f in (F.SUM, F.AVG, F.MIN, F.MAX)}
    operator = grouping([], Type.DOUBLE, [call(f, Type.DOUBLE) for f in functions])
    log = log_of(operator, [(1, 1, (value,)) for value in values], [Type.DOUBLE])
    table = pa.table({"x": pa.array(values, pa.float64())})
    outputs = ", ".join(f"{name}(x)" for name in functions.values())
    (expected,) = duckdb.from_arrow(table).aggregate(outputs).fetchall()
    assert log[-1][2] == tuple(plain(value) for value in expected)


@pytest.mark.parametrize(
    ("type_", "values", "text"),
    [
        (Type.STRING, ["b", "é", "b", 'a"\n', "z"], '[["b", 2], ["a\\"\\n", 1], ["z", 1], ["é", 1]]'),
        (Type.BIGINT, [2, -1, 2, 2**63 - 1], "[[2, 2], [-1, 1], [9223372036854775807, 1]]"),
        (
            Type.DOUBLE,
            [1.0, math.nan, 0.1, -math.inf, 1.0],
            '[[1.0, 2], ["-Infinity", 1], [0.1, 1], ["NaN", 1]]',
        ),
        (Type.BOOLEAN, [True, False, True], "[[true, 2], [false, 1]]"),
        (Type.TIMESTAMP, [datetime(2024, 2, 29, 1, 2, 3, 4)], '[["2024-02-29T01:02:03.000004Z", 1]]'),
    ],
    ids=str,
)
def test_top_is_json_as_in_result_files(type_: Type, values: list[Any], text: str) -> None:
    operator = grouping([], type_, [call(F.TOP, type_, parameter=10)])
    assert log_of(operator, [(1, 1, (value,)) for value in values], [type_])[-1] == (1, 1, (text,))


def test_top_goes_on_after_the_greatest_integer() -> None:
    """Wherever it stands in a node, also at its end, the less frequent values come after it."""
    for often in range(1, 70):
        values = [*range(often), 2**63 - 1] * 2 + list(range(1000, 1040))
        operator = grouping([], Type.BIGINT, [call(F.TOP, Type.BIGINT, parameter=500)])
        log = log_of(operator, [(1, 1, (value,)) for value in values], [Type.BIGINT])
        assert log[-1] == (1, 1, (top(values, 500),))


def test_the_place_of_a_quantile_is_counted_in_decimals() -> None:
    """0.07 · 100 is more than 7 in binary, and the seventh value all the same."""
    operator = grouping([], Type.BIGINT, [call(F.QUANTILE, Type.BIGINT, parameter=0.07)])
    log = log_of(operator, [(1, 1, (value,)) for value in range(1, 101)], [Type.BIGINT])
    assert log[-1] == (1, 1, (7,))


def test_frequent_is_not_run_yet() -> None:
    with pytest.raises(NotYet, match="FREQUENT"):
        grouping([], Type.STRING, [call(F.FREQUENT, Type.STRING, parameter=3)])


@pytest.mark.parametrize(
    "calls", [[COUNT_ROWS], *([one] for one in calls_of(Type.BIGINT))], ids=lambda c: c[0].function.value
)
def test_a_negative_tuple_without_its_row_is_a_bug(calls: list[Any]) -> None:
    operator = grouping([Type.STRING], Type.BIGINT, calls)
    with pytest.raises(InternalError):
        log_of(operator, [(1, -1, ("a", 1))], [Type.STRING, Type.BIGINT])


@pytest.mark.parametrize("fifo", [False, True])
@pytest.mark.parametrize("type_", [Type.BIGINT, Type.DOUBLE, Type.STRING], ids=str)
def test_memory_is_bounded_when_groups_and_values_churn(type_: Type, fifo: bool) -> None:
    operator = grouping([Type.STRING], type_, [COUNT_ROWS, *calls_of(type_)], fifo=fifo)
    sizes = []
    previous: tuple[pa.Array, ...] | None = None
    for number in range(60):
        names = pa.array([f"group {number} {i}" for i in range(200)])
        values = pa.array([f"{number * 977 % 61} {i}" for i in range(200)]) if type_ is Type.STRING else None
        columns = (names, values or pa.array(np.arange(200) + number * 1000).cast(ARROW_TYPES[type_]))
        ts = np.full(200, number)
        never = np.full(200, NEVER)
        operator.process([Delta(ts, never, columns)], NOW)
        if previous is not None:
            operator.process([Delta(ts, never, previous, np.full(200, -1, dtype=np.int8))], NOW)
        previous = columns
        sizes.append(operator.state_bytes)
    assert max(sizes[20:]) == sizes[20]
    assert operator.state_rows < 200 * 20


def test_a_snapshot_says_what_the_state_means() -> None:
    types = [Type.STRING, Type.STRING]
    operator = grouping(
        types[:1], Type.STRING, [call(F.COUNT, Type.STRING, is_distinct=True), call(F.MIN, Type.STRING)]
    )
    log_of(operator, [(1, 1, ("g", "x")), (1, 1, ("g", "x")), (1, 1, ("h", "y"))], types)
    state = operator.snapshot()
    assert state["groups"].column("k0").to_pylist() == ["g", "h"]
    assert state["column 1.words"].to_pylist() == [{"word": "x", "uses": 2}, {"word": "y", "uses": 1}]
    counted = [{"group": 0, "value": "x", "count": 2}, {"group": 1, "value": "y", "count": 1}]
    assert state["distinct 1.values"].to_pylist() == counted
    assert state["values of column 1.values"].to_pylist() == counted
