"""Aggregates taken apart: what is kept for each, and what can be subtracted."""

from __future__ import annotations

import pytest

from sash.lang.bound import AggregateCall, AggregateFunction, Scalar
from sash.lang.types import Type
from sash.plan.measures import ROWS, measures_of


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
