"""Sums of values and of their squares, exact, for variances.

n·Σx² − (Σx)² is a difference of two large numbers that are nearly equal where values are far from 0 but close to
each other. Here all three are exact integers (see limbs) and the difference is rounded once, so a variance is
right to the last digit or so, never negative, 0 for equal values, and does not depend on what came and went.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from sash.operators.aggregates import limbs
from sash.operators.aggregates.arguments import Given
from sash.operators.aggregates.events import Events
from sash.operators.aggregates.measure import Measure
from sash.operators.aggregates.sums import UNIT, fitted, from_limb_table, limb_table
from sash.operators.delta import Ints
from sash.operators.operator import State
from sash.state.jit import kernel
from sash.state.keytable import grown

Floats = npt.NDArray[np.float64]


@kernel
def _multiply(left: Ints, lefts: int, right: Ints, rights: int, out: Ints) -> None:
    """out = left · right, for plain limbs; `out` has a limb for each of both."""
    mask, bits = np.uint64(limbs.MASK), np.uint64(limbs.BITS)
    for k in range(lefts + rights):
        out[k] = 0
    for i in range(lefts):
        if left[i] == 0:
            continue
        factor = np.uint64(left[i])
        over = np.uint64(0)
        for k in range(rights):
            word = factor * np.uint64(right[k]) + np.uint64(out[i + k]) + over
            out[i + k] = np.int64(word & mask)
            over = word >> bits
        out[i + rights] = np.int64(over)


@kernel
def _subtract(target: Ints, other: Ints, count: int, length: int) -> None:
    """target −= other, which is not greater and has `count` limbs."""
    over = 0
    for k in range(length):
        limb = target[k] + over
        if k < count:
            limb -= other[k]
        target[k] = limb & limbs.MASK
        over = limb >> limbs.BITS


@kernel
def _look(
    count: int, odd: Ints, sums: Ints, squares: Ints, low: int, unit: int, work: Ints, is_sample: bool
) -> float:
    """The variance of a group; 0 for a single value, whatever it is."""
    limbs.carry(sums)
    limbs.carry(squares)
    if count < 2:
        return 0.0
    if odd[0] > 0 or odd[1] > 0 or odd[2] > 0:
        return np.nan
    size = sums.shape[0] + 1
    square_size = squares.shape[0] + 1
    limbs.magnitude(sums, work[0])
    _multiply(work[0], size, work[0], size, work[1])
    limbs.magnitude(squares, work[0])
    work[2, 0] = count & limbs.MASK
    work[2, 1] = count >> limbs.BITS
    _multiply(work[0], square_size, work[2], 2, work[3])
    length = square_size + 2
    _subtract(work[3], work[1], min(2 * size, length), length)
    digits, exponent = limbs.rounded(work[3], length)
    divisor = float(count) * float(count - 1 if is_sample else count)
    return math.ldexp(digits / divisor, exponent + 2 * (limbs.BITS * low + unit))


@kernel
def _look_all(
    groups: Ints,
    counts: Ints,
    odd: Ints,
    sums: Ints,
    squares: Ints,
    low: int,
    unit: int,
    out: Floats,
) -> None:
    work = np.zeros((4, squares.shape[1] + 8), dtype=np.int64)
    for i in range(len(groups)):
        g = groups[i]
        for k in range(2):
            out[i, k] = _look(counts[g], odd[g], sums[g], squares[g], low, unit, work, k == 0)


@kernel
def _follow(
    numbers: Ints,
    signs: Ints,
    values: Ints,
    marks: Ints,
    is_double: bool,
    counts: Ints,
    odd: Ints,
    sums: Ints,
    squares: Ints,
    low: int,
    unit: int,
    out: Floats,
) -> None:
    work = np.zeros((4, squares.shape[1] + 8), dtype=np.int64)
    for i in range(len(numbers)):
        g, sign, value = numbers[i], signs[i], values[i]
        if sign != 0:
            counts[g] += sign
            if is_double and limbs.exponent(value) == limbs.ODD:
                limbs.count_odd(value, sign, odd[g])
            elif is_double:
                digits, place = limbs.mantissa(value), limbs.position(value)
                if digits != 0:
                    x, y = digits & limbs.MASK, digits >> limbs.BITS
                    limbs.add(sums[g], low, place, x, y, -sign if value < 0 else sign)
                    limbs.add_square(squares[g], 2 * low, 2 * place, x, y, sign)
            else:
                # The least integer is its own negative, and right as an unsigned number.
                size = np.uint64(-value if value < 0 else value)
                x = np.int64(size & np.uint64(limbs.MASK))
                y = np.int64(size >> np.uint64(limbs.BITS))
                limbs.add(sums[g], 0, 0, x, y, -sign if value < 0 else sign)
                limbs.add_square(squares[g], 0, 0, x, y, sign)
        if marks[i] >= 0:
            for k in range(2):
                out[marks[i], k] = _look(counts[g], odd[g], sums[g], squares[g], low, unit, work, k == 0)


class Moments(Measure):
    """`samples`: the variance of a sample and that of a population."""

    def __init__(self, *, is_double: bool) -> None:
        self._is_double = is_double
        self._low = 0
        self._unit = UNIT if is_double else 0
        # Integers have 64 bits; one limb more is for what is carried, and one for where `add` writes.
        self._sums = np.zeros((0, 0 if is_double else 4), dtype=np.int64)
        self._squares = np.zeros((0, 0 if is_double else 8), dtype=np.int64)
        self._counts = np.zeros(0, dtype=np.int64)
        self._odd = np.zeros((0, 3), dtype=np.int64)
        self.samples = np.zeros((0, 2), dtype=np.float64)

    def follow(self, events: Events, given: Given) -> None:
        self._grow(events.capacity)
        if self._is_double:
            low, self._sums = fitted(self._low, self._sums, *limbs.span(given.values, given.signs))
            if self._squares.shape[1] != 2 * self._sums.shape[1]:
                below = 2 * (self._low - low) if self._squares.shape[1] else 0
                self._squares = limbs.widened(self._squares, below, 2 * self._sums.shape[1])
            self._low = low
        self.samples = np.empty((events.samples, 2), dtype=np.float64)
        state = self._counts, self._odd, self._sums, self._squares, self._low, self._unit, self.samples
        _look_all(events.groups, *state)
        _follow(events.numbers, given.signs, given.values, events.marks, self._is_double, *state)

    def _grow(self, capacity: int) -> None:
        self._sums = grown(self._sums, capacity, 0)
        self._squares = grown(self._squares, capacity, 0)
        self._counts = grown(self._counts, capacity, 0)
        self._odd = grown(self._odd, capacity, 0)

    def settle(self) -> None:
        self.samples = np.zeros((0, 2), dtype=np.float64)

    def reset(self, numbers: Ints) -> None:
        for array in (self._sums, self._squares, self._counts, self._odd):
            array[numbers] = 0

    def snapshot(self, numbers: Ints, rows: Ints) -> State:
        sums = limb_table(self._low, self._sums, self._odd, numbers)
        squares = limb_table(2 * self._low, self._squares, self._odd, numbers)
        return {
            "groups": sums.append_column("squares", squares.column("limbs")).append_column(
                "count", [self._counts[numbers]]
            )
        }

    def restore(self, state: State, numbers: Ints, capacity: int) -> None:
        table = state["groups"]
        if table.num_rows:
            low, sums, odd = from_limb_table(table)
            plain = table.drop_columns(["limbs"]).rename_columns({"squares": "limbs"})
            _, squares, _ = from_limb_table(plain)
            self._low = low
            self._sums = np.zeros((0, sums.shape[1]), dtype=np.int64)
            self._squares = np.zeros((0, squares.shape[1]), dtype=np.int64)
            self._grow(capacity)
            self._sums[numbers] = sums
            self._squares[numbers] = squares
            self._odd[numbers] = odd
            self._counts[numbers] = table.column("count").to_numpy()

    @property
    def nbytes(self) -> int:
        return self._sums.nbytes + self._squares.nbytes + self._counts.nbytes + self._odd.nbytes
