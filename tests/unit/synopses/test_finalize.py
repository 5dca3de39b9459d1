"""From measures to values: overflow is an error at the end, never on the way."""

from __future__ import annotations

import pytest
from tests.unit.synopses.synopsis_kit import Fed, Row, feed_all

from sash.errors import DataError

LARGEST = 2**63 - 1


def sums(values: list[int], select: str = "SUM(n)") -> list[object]:
    fed = Fed(f"Rstream(SELECT {select} AS total FROM s [RANGE 10 US SLIDE 10 US])")
    rows: list[Row] = [(i + 1, None, None, value, None) for i, value in enumerate(values)]
    feed_all(fed, [[row] for row in rows] + [[(10, None, None, None, None)]])
    return [row["total"] for table in fed.tables["q0"] for row in table.to_pylist()]


def test_a_sum_may_leave_64_bits_on_the_way_as_long_as_it_comes_back():
    assert sums([LARGEST, LARGEST, -LARGEST]) == [LARGEST]
    assert sums([-LARGEST, -LARGEST, -1, LARGEST]) == [-LARGEST - 1]


@pytest.mark.parametrize("values", [[LARGEST, 1], [-LARGEST, -2], [LARGEST] * 8])
def test_a_sum_that_does_not_fit_64_bits_is_an_error_of_the_data(values):
    with pytest.raises(DataError, match=r"SUM\(n\) does not fit into BIGINT") as caught:
        sums(values)
    assert caught.value.id == "overflow"
    assert "CAST(n AS DOUBLE)" in str(caught.value.hint)


def test_an_average_of_a_sum_that_does_not_fit_64_bits_is_right():
    assert sums([LARGEST, LARGEST], "AVG(n)") == [float(LARGEST)]
    assert sums([LARGEST, LARGEST, LARGEST, -LARGEST - 1], "AVG(n)") == [(2 * LARGEST - 1) / 4]


def test_the_least_and_greatest_integers_are_values_like_others():
    assert sums([LARGEST], "MIN(n)") == [LARGEST]
    assert sums([-LARGEST - 1], "MAX(n)") == [-LARGEST - 1]
