"""Interval spellings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.lang.intervals import BadInterval, to_microseconds, write


@pytest.mark.parametrize(
    ("number", "unit", "microseconds"),
    [
        ("10", "SEC", 10_000_000),
        ("10", "seconds", 10_000_000),
        ("10", "s", 10_000_000),
        ("1.5", "Sec", 1_500_000),
        (".5", "s", 500_000),
        ("500", "MS", 500_000),
        ("7", "us", 7),
        ("1", "microsecond", 1),
        ("3", "milliseconds", 3_000),
        ("1", "MIN", 60_000_000),
        ("2", "HOURS", 7_200_000_000),
        ("1", "h", 3_600_000_000),
        ("1", "DAY", 86_400_000_000),
        ("1", "d", 86_400_000_000),
        ("2", "weeks", 1_209_600_000_000),
        ("0", "sec", 0),
    ],
)
def test_a_spelling_is_read_into_microseconds(number, unit, microseconds):
    assert to_microseconds(number, unit) == microseconds


def test_a_single_m_is_refused_with_the_two_things_it_could_be():
    with pytest.raises(BadInterval) as caught:
        to_microseconds("1", "m")
    assert caught.value.hint == "write MIN or MS"


@pytest.mark.parametrize(
    ("number", "unit", "part"),
    [
        ("1", "month", "unit"),
        ("1", "fortnight", "unit"),
        ("1e3", "sec", "number"),
        ("-1", "sec", "number"),
        ("", "sec", "number"),
        ("0.5", "us", "number"),
        ("9" * 29, "week", "number"),
        ("9" * 5000, "sec", "number"),
    ],
)
def test_what_is_no_interval_is_refused_with_the_part_that_is_wrong(number, unit, part):
    with pytest.raises(BadInterval) as caught:
        to_microseconds(number, unit)
    assert caught.value.part == part


@given(st.integers(0, 2**63 - 1) | st.integers(0, 10**6).map(lambda n: n * 60_000_000))
def test_a_written_interval_reads_back(microseconds):
    number, unit = write(microseconds).split()
    assert to_microseconds(number, unit) == microseconds
