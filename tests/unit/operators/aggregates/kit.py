"""What the tests of grouping share: random histories of rows, and their groups by definition.

A history is a bag of rows, each with the instants at which it enters and leaves. What a grouping should say
is computed from scratch at every instant, in plain Python with exact fractions.
"""

from __future__ import annotations

import datetime
import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from sash.lang.algebra import Field
from sash.lang.types import Type
from sash.lang.values import AggregateCall, AggregateFunction, Scalar
from sash.operators.delta import ALWAYS, ARROW_TYPES, NEVER, Delta
from sash.operators.group import Grouping
from sash.operators.operator import Moment

F = AggregateFunction
Row = tuple[Any, ...]
_RESULTS = {
    F.COUNT: Type.BIGINT,
    F.APPROX_COUNT_DISTINCT: Type.BIGINT,
    **dict.fromkeys((F.AVG, F.VAR, F.VAR_POP, F.STDDEV, F.STDDEV_POP), Type.DOUBLE),
    **dict.fromkeys((F.TOP, F.APPROX_TOP, F.FREQUENT, F.HISTOGRAM), Type.STRING),
}

_SPREADS = frozenset({F.VAR, F.VAR_POP, F.STDDEV, F.STDDEV_POP})
_LISTS = frozenset({F.TOP, F.APPROX_TOP, F.HISTOGRAM})


@dataclass(frozen=True)
class Case:
    """`values` are the keys and then the arguments; `leave` is None for a row that stays."""

    enter: int
    leave: int | None
    values: Row


def call(
    function: AggregateFunction,
    type_: Type | None,
    *,
    is_distinct: bool = False,
    parameter: float | int | tuple[str, ...] | None = None,
) -> AggregateCall:
    if type_ is None:
        return AggregateCall(function, None, Type.BIGINT)
    argument = Scalar('"x"', type_, ("x",), "x", "x")
    return AggregateCall(function, argument, _RESULTS.get(function, type_), is_distinct, parameter)


def calls_of(type_: Type) -> list[AggregateCall]:
    """Every aggregate of a type."""
    calls = [
        call(F.COUNT, type_),
        call(F.COUNT, type_, is_distinct=True),
        call(F.APPROX_COUNT_DISTINCT, type_),
        call(F.MIN, type_),
        call(F.MAX, type_),
        call(F.QUANTILE, type_, parameter=0.5),
        call(F.QUANTILE, type_, parameter=0.07),
        call(F.APPROX_QUANTILE, type_, parameter=1.0),
        call(F.TOP, type_, parameter=2),
        call(F.APPROX_TOP, type_, parameter=100),
        call(F.HISTOGRAM, type_),
    ]
    if type_.is_numeric:
        for distinct in (False, True):
            calls += [call(f, type_, is_distinct=distinct) for f in (F.SUM, F.AVG)]
        calls += [call(f, type_) for f in (F.VAR, F.VAR_POP, F.STDDEV, F.STDDEV_POP)]
    return calls


def grouping(
    keys: Sequence[Type],
    argument: Type,
    calls: Sequence[AggregateCall],
    *,
    fifo: bool = False,
    endless: bool = False,
) -> Grouping:
    """A grouping over keys and one argument after them."""
    key_fields = [Field(f"k{i}", type_) for i, type_ in enumerate(keys)]
    fields = [*key_fields, *(Field(f"a{i}", c.type) for i, c in enumerate(calls))]
    positions = [None if c.argument is None else len(keys) for c in calls]
    types = [ARROW_TYPES[type_] for type_ in (*keys, argument)]
    return Grouping(key_fields, calls, positions, fields, types, fifo=fifo, endless=endless)


# ------------------------------------------------------------------------------------------ histories

_EPOCH = datetime.datetime(1970, 1, 1)
VALUES: dict[Type, st.SearchStrategy[Any]] = {
    Type.BIGINT: st.one_of(
        st.integers(-3, 3),
        st.sampled_from([2**62, -(2**62), 2**33, -(2**63), 2**63 - 1]),
        st.integers(-(2**40), 2**40),
    ),
    Type.DOUBLE: st.one_of(
        st.sampled_from([0.0, -0.0, 0.1, 0.2, 0.3, -1.5, 1e16, 1e-300, 5e-324, 1e308, -1e308, 1e30]),
        st.sampled_from([math.nan, math.inf, -math.inf, 1.0]),
        st.floats(-1e6, 1e6),
        st.floats(allow_nan=False, allow_infinity=False),
    ),
    Type.STRING: st.one_of(st.sampled_from(["a", "b", "", "é", "ab", 'q"\\\n']), st.text(max_size=3)),
    Type.BOOLEAN: st.booleans(),
    Type.TIMESTAMP: st.one_of(st.integers(-3, 3), st.integers(-(10**15), 10**15)).map(
        lambda micros: _EPOCH + datetime.timedelta(microseconds=micros)
    ),
}
# Surrogates are no text, and Arrow refuses them.
VALUES[Type.STRING] = VALUES[Type.STRING].filter(lambda text: text.isprintable() or "\n" in text)


@st.composite
def histories(
    draw: st.DrawFn, types: Sequence[Type], *, fifo: bool = False, max_size: int = 30
) -> list[Case]:
    values = [st.one_of(st.none(), VALUES[type_], VALUES[type_]) for type_ in types]
    if len(types) > 1:
        # Few keys, so that groups have rows.
        pools = [draw(st.lists(strategy, min_size=1, max_size=3)) for strategy in values[:-1]]
        values = [*(st.sampled_from(pool) for pool in pools), values[-1]]
    rows = draw(
        st.lists(
            st.tuples(st.integers(0, 12), st.one_of(st.none(), st.integers(1, 8)), st.tuples(*values)),
            max_size=max_size,
        )
    )
    if fifo:
        length = draw(st.integers(1, 6))
        return [Case(ts, ts + length, row) for ts, _, row in sorted(rows, key=lambda item: item[0])]
    return [Case(ts, None if stay is None else ts + stay, row) for ts, stay, row in rows]


def delta_of(changes: Sequence[tuple[int, int, Row]], types: Sequence[Type]) -> Delta:
    """A delta of (ts, sign, values)."""
    columns = [
        pa.array([values[i] for _, _, values in changes], ARROW_TYPES[type_]) for i, type_ in enumerate(types)
    ]
    ts = np.array([ts for ts, _, _ in changes], dtype=np.int64)
    sign = np.array([sign for _, sign, _ in changes], dtype=np.int8)
    never = np.full(len(ts), NEVER, dtype=np.int64)
    return Delta(ts, never, tuple(columns), None if (sign > 0).all() else sign)


def changes_of(history: Sequence[Case]) -> list[tuple[int, int, Row]]:
    """In the order of time, and of arrival."""
    entered = [(case.enter, 1, case.values) for case in history]
    left = [(case.leave, -1, case.values) for case in history if case.leave is not None]
    return sorted(entered + left, key=lambda change: change[0])


# ------------------------------------------------------------------------------------------- by definition


def plain(value: Any) -> Any:
    """Equal values as equal objects: one NaN, one zero."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def order_key(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value


def _to_double(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def exact_sum(values: Sequence[Any]) -> Any:
    if values and isinstance(values[0], int):
        return sum(values)
    odd = [v for v in values if not math.isfinite(v)]
    return sum(odd) if odd else _to_double(sum(map(Fraction, values), Fraction(0)))


def variance(values: Sequence[Any], spare: int) -> float | None:
    n = len(values)
    if n <= spare:
        return None
    if n == 1:
        return 0.0
    if not all(math.isfinite(v) for v in values):
        return math.nan
    fractions = [Fraction(v) for v in values]
    squares, total = sum((f * f for f in fractions), Fraction(0)), sum(fractions, Fraction(0))
    return _to_double((n * squares - total * total) / (n * (n - spare)))


def top(values: Sequence[Any], limit: int) -> str | None:
    if not values:
        return None
    counts = Counter(plain(v) for v in values)
    originals = {plain(v): v for v in values}
    ranked = sorted(counts, key=lambda v: (-counts[v], order_key(originals[v])))[:limit]
    return json.dumps([[_json(originals[v]), counts[v]] for v in ranked], ensure_ascii=False)


def histogram(values: Sequence[Any]) -> str | None:
    if not values:
        return None
    counts = Counter(plain(v) for v in values)
    ordered = sorted({plain(v): v for v in values}.items(), key=lambda item: order_key(item[1]))
    return json.dumps([[_json(value), counts[key]] for key, value in ordered], ensure_ascii=False)


def _json(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return value.isoformat(timespec="microseconds") + "Z"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value + 0.0 if isinstance(value, float) else value


def value_of(aggregate: AggregateCall, values: Sequence[Any]) -> Any:
    """An aggregate of the arguments of a group's rows, by definition."""
    if aggregate.argument is None:
        return len(values)
    present = [v for v in values if v is not None]
    if aggregate.is_distinct or aggregate.function is F.APPROX_COUNT_DISTINCT:
        present = list({plain(v): v for v in present}.values())
    match aggregate.function:
        case F.COUNT | F.APPROX_COUNT_DISTINCT:
            return len(present)
        case F.VAR | F.STDDEV:
            spread = variance(present, 1)
        case F.VAR_POP | F.STDDEV_POP:
            spread = variance(present, 0)
        case F.TOP | F.APPROX_TOP:
            return top(present, aggregate.limit)
        case F.HISTOGRAM:
            return histogram(present)
        case _ if not present:
            return None
        case F.SUM:
            return exact_sum(present)
        case F.AVG:
            return float(exact_sum(present)) / len(present)
        case F.MIN:
            return min(present, key=order_key)
        case F.MAX:
            return max(present, key=order_key)
        case _:
            rank = math.ceil(Fraction(repr(aggregate.share)) * len(present))
            return sorted(present, key=order_key)[rank - 1]
    is_root = aggregate.function in (F.STDDEV, F.STDDEV_POP)
    return math.sqrt(spread) if is_root and spread is not None else spread


def expected_at(
    instant: int, history: Sequence[Case], key_count: int, calls: Sequence[AggregateCall]
) -> Counter[Row]:
    groups: dict[Row, list[Any]] = {} if key_count else {(): []}
    for case in history:
        if case.enter <= instant and (case.leave is None or case.leave > instant):
            key = tuple(plain(v) for v in case.values[:key_count])
            groups.setdefault(key, []).append(
                case.values[key_count] if len(case.values) > key_count else None
            )
    return Counter(
        (*key, *(plain(value_of(aggregate, values)) for aggregate in calls)) for key, values in groups.items()
    )


# ------------------------------------------------------------------------------------------- running


def rows_of(delta: Delta) -> list[tuple[int, int, Row]]:
    columns = [column.to_pylist() for column in delta.columns]
    rows = [tuple(plain(v) for v in row) for row in zip(*columns, strict=True)]
    return list(zip(delta.ts.tolist(), delta.signs().tolist(), rows, strict=True))


def check_shape(delta: Delta, operator: Grouping) -> None:
    """Sorted by time, explicit, of the right types, and nothing that enters and leaves at one instant."""
    delta_rows = rows_of(delta)
    assert bool((delta.ts[1:] >= delta.ts[:-1]).all())
    assert bool((delta.exp == NEVER).all())
    assert [column.type for column in delta.columns] == list(operator.types)
    net: Counter[tuple[int, Row]] = Counter()
    for ts, sign, row in delta_rows:
        net[ts, row] += sign
    assert sum(map(abs, net.values())) == len(delta_rows)


def run(
    operator: Grouping,
    batches: Sequence[Delta],
    between: Callable[[Grouping, int], Grouping] = lambda operator, _: operator,
) -> list[tuple[int, int, Row]]:
    log: list[tuple[int, int, Row]] = []
    for number, batch in enumerate(batches):
        result = operator.process([batch], Moment(int(batch.ts.max()) if len(batch) else 0))
        check_shape(result, operator)
        log += rows_of(result)
        operator = between(operator, number)
    return log


def is_right(aggregate: AggregateCall, actual: Any, expected: Any) -> bool:
    """Equal, but for the last digits of a variance and the spelling of doubles in JSON."""
    if isinstance(actual, float) and aggregate.function in _SPREADS and isinstance(expected, float):
        return math.isclose(actual, expected, rel_tol=1e-15, abs_tol=0.0)
    if isinstance(actual, str) and aggregate.function in _LISTS and isinstance(expected, str):
        # Python writes 1e-07 where Arrow writes 1e-7.
        return bool(json.loads(actual) == json.loads(expected))
    return bool(actual == expected)


def assert_follows(
    log: Sequence[tuple[int, int, Row]],
    history: Sequence[Case],
    key_count: int,
    calls: Sequence[AggregateCall],
) -> None:
    """At every instant the sum of all changes up to it is what the groups are by definition."""
    instants = sorted({ALWAYS, *(ts for ts, _, _ in changes_of(history))})
    assert {ts for ts, _, _ in log} <= set(instants)
    state: Counter[Row] = Counter()
    position = 0
    for instant in instants:
        while position < len(log) and log[position][0] <= instant:
            _, sign, row = log[position]
            state[row] += sign
            position += 1
        assert all(count >= 0 for count in state.values())
        actual = sorted((+state).elements(), key=repr)
        expected = sorted(expected_at(instant, history, key_count, calls).elements(), key=repr)
        if actual != expected:
            by_key = {row[:key_count]: row for row in expected}
            assert len(actual) == len(expected)
            for row in actual:
                wanted = by_key[row[:key_count]]
                assert all(map(is_right, calls, row[key_count:], wanted[key_count:])), (instant, row, wanted)
    assert position == len(log)
