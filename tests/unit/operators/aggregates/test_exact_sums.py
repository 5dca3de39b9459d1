"""Sums of doubles are the exact sums, rounded once: to the nearest, ties to even."""

from __future__ import annotations

import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.operators.aggregates.kit import (
    F,
    call,
    delta_of,
    exact_sum,
    grouping,
    plain,
    rows_of,
    variance,
)

from sash.lang.types import Type
from sash.operators.operator import Moment

SMALL, LARGE = 2.0**-1074, sys.float_info.max


def sum_and_variance(values: list[float]) -> tuple[object, object]:
    operator = grouping([], Type.DOUBLE, [call(F.SUM, Type.DOUBLE), call(F.VAR_POP, Type.DOUBLE)])
    delta = delta_of([(1, 1, (value,)) for value in values], [Type.DOUBLE])
    total, spread = rows_of(operator.process([delta], Moment(1)))[-1][2]
    return total, spread


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([2.0**53, 1.0], 2.0**53),
        ([2.0**53, 3.0], 2.0**53 + 4),
        ([2.0**53, 1.0, 2.0**-40], 2.0**53 + 2),
        ([2.0**53, 1.0, 2.0**-300], 2.0**53 + 2),
        ([2.0**53, 1.0, SMALL], 2.0**53 + 2),
        ([2.0**53, 1.0, -SMALL], 2.0**53),
        ([-(2.0**53), -1.0, -SMALL], -(2.0**53) - 2),
        ([SMALL, SMALL, SMALL], 3 * SMALL),
        ([SMALL, -SMALL], 0.0),
        ([LARGE, LARGE, -LARGE], LARGE),
        ([LARGE, LARGE], math.inf),
        ([-LARGE, -LARGE], -math.inf),
        ([1e308, SMALL, -1e308], SMALL),
        ([LARGE, 2.0**969], LARGE),
        ([LARGE, 2.0**970], math.inf),
    ],
)
def test_rounding(values: list[float], total: float) -> None:
    assert sum_and_variance(values)[0] == total


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=12))
def test_any_doubles(values: list[float]) -> None:
    total, spread = sum_and_variance(values)
    assert total == plain(exact_sum(values))
    expected = variance(values, 0)
    assert isinstance(spread, float)
    assert expected is not None
    # Below the normal doubles there are fewer digits to be right.
    assert math.isclose(spread, expected, rel_tol=1e-15, abs_tol=2 * SMALL)


@given(st.lists(st.floats(0.5, 2.0), min_size=1, max_size=40), st.integers(-30, 60))
def test_doubles_of_similar_size(values: list[float], exponent: int) -> None:
    scaled = [*values, 2.0**exponent, -values[0]]
    assert sum_and_variance(scaled)[0] == plain(exact_sum(scaled))
