"""Rows of answers as Python values: when two are the same, and which comes first.

Equality is SQL's: NaN is NaN and −0.0 is 0.0. Rows of one instant, where neither ORDER BY nor their arrival
decides, and ties under LIMIT come in the order of their values, column by column, smallest first: FALSE
before TRUE, strings by code points, NaN after every number, NULL after everything.
"""

from __future__ import annotations

import math
from collections import Counter

Row = tuple[object, ...]
Bag = Counter[Row]
# Rows per (instant in microseconds, op); op is '' except for a change log.
Answers = dict[tuple[int, str], Bag]
# The same rows in the order in which they come.
Listed = dict[tuple[int, str], list[Row]]


def normal(value: object) -> object:
    """A value that is equal to another, in Python, exactly if the two are the same in SQL."""
    if isinstance(value, float):
        return _Nan() if math.isnan(value) else value + 0.0
    return value


def normal_row(row: Row) -> Row:
    return tuple(normal(value) for value in row)


class _Nan(float):
    """NaN that equals itself."""

    def __new__(cls) -> _Nan:
        return super().__new__(cls, "nan")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, float) and math.isnan(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return 0


def order_key(row: Row) -> tuple[tuple[int, object], ...]:
    """Sorts rows of the same types."""
    return tuple(_rank(value) for value in row)


def _rank(value: object) -> tuple[int, object]:
    if value is None:
        return 2, 0
    if isinstance(value, float) and math.isnan(value):
        return 1, 0
    return 0, value


def sorted_rows(bag: Bag) -> list[Row]:
    """All rows of a bag, equal ones next to one another."""
    return sorted(bag.elements(), key=order_key)
