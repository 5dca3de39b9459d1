"""The window join against all combinations of live rows, instant by instant."""

from __future__ import annotations

import itertools
import pickle
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.operators.operator_kit import FIELDS, Input, Output, Row, column, delta, drive

from sash.errors import InternalError
from sash.lang.algebra import Equality, Field
from sash.lang.types import Type
from sash.lang.values import Scalar
from sash.operators.delta import NEVER
from sash.operators.join import JoinInput, WindowJoin
from sash.operators.operator import Moment
from sash.state.expirations import CalendarQueue, Fifo, ScanList


def _fields(position: int) -> tuple[Field, ...]:
    return tuple(Field(f"{position}.{field.name}", field.type) for field in FIELDS)


def _value(scalar: Scalar, row: Row) -> object:
    value = row[0] if scalar.inputs[0].endswith(".a") else row[1]
    return value + 1 if "+" in scalar.sql and isinstance(value, int) else value


def _equalities(draw, inputs: int) -> list[Equality]:
    """Each input is linked to one before it, by a column, an expression, both or nothing."""
    found = []
    for right in range(1, inputs):
        left = draw(st.integers(0, right - 1))
        kind = draw(st.sampled_from(["string", "number", "both", "nothing"]))
        if kind in ("string", "both"):
            sides = (column(f"{left}.a", Type.STRING), column(f"{right}.a", Type.STRING))
            found.append(Equality(left, sides[0], right, sides[1]))
        if kind in ("number", "both"):
            later = Scalar(f'"{right}.b" + 1', Type.BIGINT, (f"{right}.b",))
            found.append(Equality(left, column(f"{left}.b"), right, later))
    return found


@given(st.data())
def test_a_join_gives_all_combinations_of_rows_that_live_together(data):
    random = data.draw(st.randoms(use_true_random=False))
    count = data.draw(st.integers(2, 3))
    inputs = [
        Input(data.draw(st.sampled_from(["wks", "wk", "str"])), random.randint(1, 30)) for _ in range(count)
    ]
    equalities = _equalities(data.draw, count)
    residual = None
    if data.draw(st.booleans()):
        names = ("0.b", f"{count - 1}.b")
        residual = Scalar(f'"{names[0]}" <= "{names[1]}"', Type.BOOLEAN, names)
    is_hashed, every = data.draw(st.booleans()), data.draw(st.sampled_from([0, 10]))

    def make() -> WindowJoin:
        sides = []
        for position, each in enumerate(inputs):
            buffer = Fifo() if each.kind == "wks" else random.choice([CalendarQueue, ScanList])()
            sides.append(JoinInput(_fields(position), buffer, each.kind == "wks", each.kind == "str"))
        return WindowJoin(sides, equalities, residual, is_hashed=is_hashed, expire_every=every)

    output, last = drive(random, make, inputs)
    for instant, found in enumerate(output.relations(last)):
        expected: Counter[Row] = Counter()
        for rows in itertools.product(*(each.at(instant).elements() for each in inputs)):
            pairs = [
                (_value(e.left, rows[e.left_input]), _value(e.right, rows[e.right_input])) for e in equalities
            ]
            if any(left is None or right is None or left != right for left, right in pairs):
                continue
            low, high = rows[0][1], rows[-1][1]
            if residual is not None and not (isinstance(low, int) and isinstance(high, int) and low <= high):
                continue
            expected[tuple(itertools.chain(*rows))] += 1
        assert found == expected, f"at {instant}"


def _two(algorithm: str = "eager", *, lengths_differ: bool = False) -> WindowJoin:
    sides = [
        JoinInput(_fields(i), CalendarQueue() if lengths_differ else Fifo(), not lengths_differ)
        for i in (0, 1)
    ]
    by_name = Equality(0, column("0.a", Type.STRING), 1, column("1.a", Type.STRING))
    return WindowJoin(sides, [by_name], expire_every={"eager": 0, "lazy expiration": 100}[algorithm])


@pytest.mark.parametrize("algorithm", ["eager", "lazy expiration"])
def test_a_result_lives_from_its_younger_part_to_the_end_of_its_older_one(algorithm):
    """
    left   x: 1───────────────6
    right  x:       3────────────────8
    result          3─────────6          found when 3 comes; its end is known at once

    left   x:                       7─────────12     joins the right row, which lives until 8
    """
    join = _two(algorithm)
    first = join.process([delta([(1, 6, 1, ("x", 1))]), delta([(3, 8, 1, ("x", 2))])], Moment(5))
    assert (first.ts.tolist(), first.exp.tolist()) == ([3], [6])
    assert [column.to_pylist() for column in first.columns] == [["x"], [1], ["x"], [2]]
    second = join.process([delta([(7, 12, 1, ("x", 3))]), delta([])], Moment(7))
    assert (second.ts.tolist(), second.exp.tolist()) == ([7], [8])
    assert join.state_rows == {"eager": 2, "lazy expiration": 3}[algorithm], "the row of 6 is gone, or waits"


def test_rows_that_meet_only_at_the_instant_at_which_one_leaves_do_not_join():
    """
    left   x: 1─────5
    right  x:       5─────9
    """
    join = _two()
    given_ = join.process([delta([(1, 5, 1, ("x", 1))]), delta([(5, 9, 1, ("x", 2))])], Moment(9))
    assert len(given_) == 0


def test_a_negative_tuple_takes_back_the_results_of_its_row():
    """
    left   x: 1──────4−               foreseen: 10
    right  x:    2─────────8
    result       2───4−               foreseen: 8
    """
    sides = [JoinInput(_fields(i), CalendarQueue(), False, True) for i in (0, 1)]
    by_name = Equality(0, column("0.a", Type.STRING), 1, column("1.a", Type.STRING))
    join = WindowJoin(sides, [by_name])
    first = join.process([delta([(1, 10, 1, ("x", 1))]), delta([(2, 8, 1, ("x", 2))])], Moment(3))
    assert (first.ts.tolist(), first.exp.tolist(), first.signs().tolist()) == ([2], [8], [1])
    second = join.process([delta([(4, 10, -1, ("x", 1))]), delta([])], Moment(5))
    assert (second.ts.tolist(), second.exp.tolist(), second.signs().tolist()) == ([4], [8], [-1])
    assert join.state_rows == 1


def test_a_negative_tuple_without_its_row_is_a_bug_that_is_told():
    sides = [JoinInput(_fields(i), CalendarQueue(), False, True) for i in (0, 1)]
    join = WindowJoin(sides, [])
    with pytest.raises(InternalError, match="not there"):
        join.process([delta([(4, NEVER, -1, ("x", 1))]), delta([])], Moment(5))


def test_nan_equals_nan_and_minus_zero_is_zero_in_a_join_key():
    doubles = [(Field(f"{i}.d", Type.DOUBLE),) for i in (0, 1)]
    sides = [JoinInput(fields, Fifo(), True) for fields in doubles]
    join = WindowJoin(sides, [Equality(0, column("0.d", Type.DOUBLE), 1, column("1.d", Type.DOUBLE))])
    values = [[float("nan"), -0.0, 1.0, None], [0.0, float("nan"), 2.0, None]]
    deltas = []
    for side in values:
        base = delta([(1, 9, 1, ("", 0))] * 4)
        deltas.append(base.with_columns([pa.array(side, pa.float64())]))
    result = join.process(deltas, Moment(1))
    pairs = {tuple(map(str, pair)) for pair in zip(*(c.to_pylist() for c in result.columns), strict=True)}
    assert pairs == {("nan", "nan"), ("-0.0", "0.0")}


def test_an_operator_in_use_can_be_pickled_and_goes_on():
    join = _two()
    join.process([delta([(1, 9, 1, ("x", 1))]), delta([])], Moment(1))
    copy = pickle.loads(pickle.dumps(join))
    for each in (join, copy):
        output = Output()
        output.take(each.process([delta([]), delta([(3, 8, 1, ("x", 2))])], Moment(3)), 1, 3)
        assert output.relations(3)[3] == Counter({("x", 1, "x", 2): 1})


def test_memory_follows_the_window_and_not_the_length_of_the_input():
    join = _two()
    sizes = []
    for batch in range(200):
        ts = np.arange(batch * 100 + 1, batch * 100 + 101)
        rows = [(int(t), int(t) + 300, 1, (f"k{t % 17 + batch}", int(t))) for t in ts]
        join.process([delta(rows), delta(rows)], Moment(int(ts[-1])))
        sizes.append(join.state_bytes)
    assert max(sizes[20:]) <= 1.1 * sizes[20]
