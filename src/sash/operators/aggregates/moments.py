"""Sums of values and of their squares, exact, for variances.

n·Σx² − (Σx)² is the difference of two large numbers, nearly equal where values are close to each other and
far from 0. Here all three are exact integers (see limbs) and the difference is rounded once, so a variance is
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
Work = tuple[Ints, Ints, Ints, Ints]


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
    g: int,
    counts: Ints,
    odd: Ints,
    sums: Ints,
    squares: Ints,
    low: int,
    unit: int,
    work: Work,
    out: Floats,
    sample: int,
) -> None:
    """The variances of a group; 0 for a single value, whatever it is."""
    limbs.carry(sums, g)
    limbs.carry(squares, g)
    out[sample, 0] = out[sample, 1] = 0.0
    count = counts[g]
    if count < 2:
        return
    if odd[g, 0] > 0 or odd[g, 1] > 0 or odd[g, 2] > 0:
        out[sample, 0] = out[sample, 1] = np.nan
        return
    plain, squared, product, factor = work
    size, square_size = sums.shape[1] + 1, squares.shape[1] + 1
    limbs.magnitude(sums, g, plain)
    _multiply(plain, size, plain, size, squared)
    limbs.magnitude(squares, g, plain)
    factor[0], factor[1] = count & limbs.MASK, count >> limbs.BITS
    _multiply(plain, square_size, factor, 2, product)
    _subtract(product, squared, 2 * size, square_size + 2)
    digits, exponent = limbs.rounded(product, square_size + 2)
    exponent += 2 * (limbs.BITS * low + unit)
    for k in range(2):
        divisor = float(count) * float(count - 1 + k)
        out[sample, k] = math.ldexp(digits / divisor, exponent)


@kernel
def _look_all(
    groups: Ints,
    counts: Ints,
    odd: Ints,
    sums: Ints,
    squares: Ints,
    low: int,
    unit: int,
    work: Work,
    out: Floats,
) -> None:
    for i in range(len(groups)):
        _look(groups[i], counts, odd, sums, squares, low, unit, work, out, i)


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
    work: Work,
    out: Floats,
) -> None:
    for i in range(len(numbers)):
        g, sign, value = numbers[i], signs[i], values[i]
        if sign != 0:
            counts[g] += sign
            place = 0
            if not is_double:
                # |value| in two parts; that of the least integer does not fit into one.
                x, y = value & limbs.MASK, value >> limbs.BITS
                if value < 0:
                    x, y = (~value & limbs.MASK) + 1, ~value >> limbs.BITS
                    x, y = x & limbs.MASK, y + (x >> limbs.BITS)
            elif limbs.exponent(value) == limbs.ODD:
                limbs.count_odd(value, sign, odd, g)
                x, y = 0, 0
            else:
                digits, place = limbs.mantissa(value), limbs.position(value)
                x, y = digits & limbs.MASK, digits >> limbs.BITS
            if x != 0 or y != 0:
                limbs.add(sums, g, low, place, x, y, -sign if value < 0 else sign)
                limbs.add_square(squares, g, 2 * low, 2 * place, x, y, sign)
        if marks[i] >= 0:
            _look(g, counts, odd, sums, squares, low, unit, work, out, marks[i])


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
        size = self._squares.shape[1] + 4
        plain, squared, product, factor = (np.zeros(n, dtype=np.int64) for n in (size, size, size, 2))
        work = plain, squared, product, factor
        sums = self._counts, self._odd, self._sums, self._squares, self._low, self._unit
        _look_all(events.groups, *sums, work, self.samples)
        _follow(
            events.numbers,
            given.signs,
            given.values,
            events.marks,
            self._is_double,
            *sums,
            work,
            self.samples,
        )

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
