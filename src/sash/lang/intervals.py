"""Spellings of time intervals, read into whole microseconds and written back.

Invariant: `to_microseconds(*write(n).split())` is n. A single `m` is refused: it could be minutes,
months or milliseconds.
"""

from __future__ import annotations

import re
from fractions import Fraction

MICROSECOND = 1
MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY

_SPELLINGS: tuple[tuple[int, str], ...] = (
    (MICROSECOND, "us usec usecs micros microsecond microseconds"),
    (MILLISECOND, "ms msec msecs millis millisecond milliseconds"),
    (SECOND, "s sec secs second seconds"),
    (MINUTE, "min mins minute minutes"),
    (HOUR, "h hr hrs hour hours"),
    (DAY, "d day days"),
    (WEEK, "w week weeks"),
)
UNITS: dict[str, int] = {name: size for size, names in _SPELLINGS for name in names.split()}

# What errors list: one spelling of each unit.
UNIT_NAMES = "US, MS, SEC, MIN, HOUR, DAY, WEEK"

# Beyond this an interval does not fit the clock, which is int64 microseconds.
LIMIT = 2**63

_NUMBER = re.compile(r"[0-9]{1,30}(\.[0-9]{0,30})?|\.[0-9]{1,30}")
_WRITTEN: tuple[tuple[int, str], ...] = (
    (DAY, "DAY"),
    (HOUR, "HOUR"),
    (MINUTE, "MIN"),
    (SECOND, "SEC"),
    (MILLISECOND, "MS"),
)


class BadInterval(ValueError):
    """Not an interval; `part` says which part is wrong: 'number' or 'unit'."""

    def __init__(self, message: str, part: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.part = part
        self.hint = hint


def to_microseconds(number: str, unit: str) -> int:
    """Microseconds of an interval such as ("1.5", "SEC"). Exact: nothing is rounded."""
    size = UNITS.get(unit.lower())
    if size is None:
        if unit.lower() == "m":
            raise BadInterval("'m' is not a unit of time", "unit", "write MIN or MS")
        raise BadInterval(f"'{unit}' is not a unit of time", "unit", f"units are {UNIT_NAMES}")
    if not _NUMBER.fullmatch(number):
        raise BadInterval(f"'{number}' is not a number of {unit}", "number")
    exact = Fraction(number) * size
    if exact.denominator != 1:
        raise BadInterval("an interval finer than a microsecond", "number")
    if exact >= LIMIT:
        raise BadInterval("an interval longer than the clock can count", "number")
    return exact.numerator


def write(microseconds: int) -> str:
    """The interval in the largest unit that divides it: 60000000 → '1 MIN'."""
    if microseconds:
        for size, name in _WRITTEN:
            if microseconds % size == 0:
                return f"{microseconds // size} {name}"
    return f"{microseconds} US"
