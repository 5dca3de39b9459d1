"""Aggregates taken apart: what is kept for each, and what can be subtracted."""

from __future__ import annotations

import pytest

from sash.errors import AlgebraError
from sash.lang.bound import AggregateCall, AggregateFunction, Scalar
from sash.lang.types import Type
from sash.plan.measures import ROWS, Kept, algebra_of, measures_of, subtractable


def column(type_: Type) -> Scalar:
    return Scalar('"c"', type_, ("c",), "c", "c")


def call(function: AggregateFunction, type_: Type = Type.BIGINT) -> AggregateCall:
    return AggregateCall(function, column(type_), type_)


def test_count_star_needs_nothing_but_the_rows():
    assert measures_of(AggregateCall(AggregateFunction.COUNT, None, Type.BIGINT)) == (ROWS,)


@pytest.mark.parametrize(
    ("function", "kinds"),
    [
        (AggregateFunction.COUNT, ["rows", "nulls"]),
        (AggregateFunction.SUM, ["rows", "nulls", "sum"]),
        (AggregateFunction.AVG, ["rows", "nulls", "sum"]),
        (AggregateFunction.MIN, ["rows", "nulls", "min"]),
        (AggregateFunction.MAX, ["rows", "nulls", "max"]),
    ],
)
def test_an_aggregate_of_a_column_keeps_rows_nulls_and_its_own_measure(function, kinds):
    measures = measures_of(call(function))
    assert [measure.kind.value for measure in measures] == kinds
    assert all(measure.argument == column(Type.BIGINT) for measure in measures[1:])


def test_sum_and_avg_of_one_column_keep_the_same_measures():
    assert measures_of(call(AggregateFunction.SUM)) == measures_of(call(AggregateFunction.AVG))


def test_every_aggregate_declares_its_algebra():
    declared = {function: algebra_of(call(function)) for function in AggregateFunction}
    assert {f.value for f, algebra in declared.items() if algebra.is_subtractable} == {
        *("COUNT", "SUM", "AVG", "VAR", "VAR_POP", "STDDEV", "STDDEV_POP")
    }
    assert str(declared[AggregateFunction.MAX]) == "distributive, not subtractable"
    assert str(declared[AggregateFunction.QUANTILE]) == "holistic, not subtractable"
    for function, algebra in declared.items():
        assert (algebra.kept is Kept.SKETCH) == function.value.startswith("APPROX_")


def test_each_value_once_makes_an_aggregate_holistic():
    distinct = AggregateCall(AggregateFunction.SUM, column(Type.BIGINT), Type.BIGINT, True)
    assert algebra_of(distinct).kept is Kept.VALUES


def test_only_counts_and_sums_can_be_subtracted():
    measures = measures_of(call(AggregateFunction.SUM, Type.DOUBLE))
    assert subtractable(measures) == measures
    for function in (AggregateFunction.MIN, AggregateFunction.MAX):
        with pytest.raises(AlgebraError, match="cannot be subtracted"):
            subtractable(measures_of(call(function)))
