"""Sets of the values that one expression may have: stretches of its order, and whether NULL is among them.

A stretch runs from a cut to a cut; a cut stands just before or just after a value. Integers, timestamps and
booleans have neighbours, so a cut after one is the cut before the next, and the cuts beyond the first and
the last value are the ends: `x <= 4` equals `x < 5`, and `b OR NOT b` is everything but NULL. Doubles are
ordered as the evaluator orders them: NaN, which no constant names, above all others, and one zero. Strings
are compared by code points, which is the order of their bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from sash.lang.types import Type

Value = int | float | str
Cut = tuple[int] | tuple[int, Value, int]

BOTTOM: Cut = (-1,)
TOP: Cut = (1,)
_BOUNDS = {Type.BIGINT: (-(2**63), 2**63 - 1), Type.TIMESTAMP: (-(2**63), 2**63 - 1), Type.BOOLEAN: (0, 1)}


@dataclass(frozen=True, slots=True)
class ValueSet:
    """`cuts` ascend; stretches run from each even one to the next. `null`: whether NULL is in the set."""

    cuts: tuple[Cut, ...]
    null: bool = False

    @property
    def is_empty(self) -> bool:
        return not self.cuts and not self.null

    @property
    def is_everything(self) -> bool:
        return self.null and self.cuts == (BOTTOM, TOP)

    def is_disjoint_from(self, other: ValueSet) -> bool:
        if self.null and other.null:
            return False
        a, b = self.cuts, other.cuts
        i = j = 0
        while i < len(a) and j < len(b):
            if a[i + 1] <= b[j]:
                i += 2
            elif b[j + 1] <= a[i]:
                j += 2
            else:
                return False
        return True

    def is_within(self, other: ValueSet) -> bool:
        if self.null and not other.null:
            return False
        b = other.cuts
        j = 0
        for i in range(0, len(self.cuts), 2):
            while j < len(b) and b[j + 1] < self.cuts[i + 1]:
                j += 2
            if j == len(b) or b[j] > self.cuts[i]:
                return False
        return True

    def __and__(self, other: ValueSet) -> ValueSet:
        return ValueSet(_merged(self.cuts, other.cuts, _both), self.null and other.null)

    def __or__(self, other: ValueSet) -> ValueSet:
        return ValueSet(_merged(self.cuts, other.cuts, _either), self.null or other.null)

    def __sub__(self, other: ValueSet) -> ValueSet:
        return ValueSet(_merged(self.cuts, other.cuts, _first_only), self.null and not other.null)


EVERYTHING = ValueSet((BOTTOM, TOP), null=True)
VALUES = ValueSet((BOTTOM, TOP))
NULL = ValueSet((), null=True)
NOTHING = ValueSet(())


def below(value: Value, type_: Type) -> ValueSet:
    return _stretch(BOTTOM, _before(value, type_))


def up_to(value: Value, type_: Type) -> ValueSet:
    return _stretch(BOTTOM, _after(value, type_))


def above(value: Value, type_: Type) -> ValueSet:
    return _stretch(_after(value, type_), TOP)


def from_(value: Value, type_: Type) -> ValueSet:
    return _stretch(_before(value, type_), TOP)


def only(value: Value, type_: Type) -> ValueSet:
    return _stretch(_before(value, type_), _after(value, type_))


def _before(value: Value, type_: Type) -> Cut:
    bounds = _BOUNDS.get(type_)
    if bounds is not None:
        return BOTTOM if value <= bounds[0] else TOP if value > bounds[1] else (0, int(value), 0)  # type: ignore[operator]
    if type_ is Type.DOUBLE:
        return BOTTOM if value == -math.inf else (0, float(value) + 0.0, 0)
    return BOTTOM if value == "" else (0, value, 0)


def _after(value: Value, type_: Type) -> Cut:
    if type_ in _BOUNDS:
        return _before(int(value) + 1, type_)
    return (0, float(value) + 0.0, 1) if type_ is Type.DOUBLE else (0, value, 1)


def _stretch(start: Cut, end: Cut) -> ValueSet:
    return ValueSet((start, end)) if start < end else NOTHING


def _both(a: bool, b: bool) -> bool:
    return a and b


def _either(a: bool, b: bool) -> bool:
    return a or b


def _first_only(a: bool, b: bool) -> bool:
    return a and not b


def _merged(a: tuple[Cut, ...], b: tuple[Cut, ...], keep: Callable[[bool, bool], bool]) -> tuple[Cut, ...]:
    """The cuts of the points for which `keep(in a, in b)`."""
    cuts: list[Cut] = []
    i = j = 0
    while i < len(a) or j < len(b):
        at = min(a[i] if i < len(a) else TOP, b[j] if j < len(b) else TOP)
        i += i < len(a) and a[i] == at
        j += j < len(b) and b[j] == at
        if keep(i % 2 == 1, j % 2 == 1) != (len(cuts) % 2 == 1):
            cuts.append(at)
    return tuple(cuts)
