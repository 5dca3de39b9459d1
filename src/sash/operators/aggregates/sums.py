"""Sums of integers and of doubles, both exact while rows come and go.

A BIGINT sum is hi·2³² + lo, as in the kernels of the synopses. A DOUBLE sum is a long fixed-point number (see
limbs) that is rounded when it is looked at, so nothing of a large value stays behind when it leaves; NaN and
infinities are counted apart and leave no trace either. Space: 16 bytes per group for integers; for doubles 24
bytes and 8 per limb, as many as the exponents that were seen need (5 for values from 10⁻⁵ to 10⁵, 68 at most).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.operators.aggregates import limbs
from sash.operators.aggregates.arguments import Given
from sash.operators.aggregates.events import Events
from sash.operators.aggregates.measure import Measure
from sash.operators.delta import Ints
from sash.operators.operator import State
from sash.state.jit import kernel
from sash.state.kernels import LOW_BITS, LOW_MASK
from sash.state.keytable import grown

Floats = npt.NDArray[np.float64]

UNIT = -1074
"""The exponent of a double's least digit."""


@kernel
def _sum_integers(
    numbers: Ints,
    signs: Ints,
    values: Ints,
    marks: Ints,
    high: Ints,
    low: Ints,
    out_high: Ints,
    out_low: Ints,
) -> None:
    for i in range(len(numbers)):
        number, sign = numbers[i], signs[i]
        if sign != 0:
            part = low[number] + sign * (values[i] & LOW_MASK)
            high[number] += sign * (values[i] >> LOW_BITS) + (part >> LOW_BITS)
            low[number] = part & LOW_MASK
        if marks[i] >= 0:
            out_high[marks[i]] = high[number]
            out_low[marks[i]] = low[number]


class IntegerSums(Measure):
    def __init__(self) -> None:
        self._high = np.zeros(0, dtype=np.int64)
        self._low = np.zeros(0, dtype=np.int64)
        self.high = self.low = self._high

    def follow(self, events: Events, given: Given) -> None:
        self._high = grown(self._high, events.capacity, 0)
        self._low = grown(self._low, events.capacity, 0)
        self.high, self.low = (np.empty(events.samples, dtype=np.int64) for _ in range(2))
        before = len(events.groups)
        self.high[:before] = self._high[events.groups]
        self.low[:before] = self._low[events.groups]
        _sum_integers(
            events.numbers,
            given.signs,
            given.values,
            events.marks,
            self._high,
            self._low,
            self.high,
            self.low,
        )

    def settle(self) -> None:
        self.high = self.low = np.zeros(0, dtype=np.int64)

    def reset(self, numbers: Ints) -> None:
        self._high[numbers] = 0
        self._low[numbers] = 0

    def snapshot(self, numbers: Ints, rows: Ints) -> State:
        return {"groups": pa.table({"high": self._high[numbers], "low": self._low[numbers]})}

    def restore(self, state: State, numbers: Ints, capacity: int) -> None:
        self._high = grown(self._high, capacity, 0)
        self._low = grown(self._low, capacity, 0)
        self._high[numbers] = state["groups"].column("high").to_numpy()
        self._low[numbers] = state["groups"].column("low").to_numpy()

    @property
    def nbytes(self) -> int:
        return self._high.nbytes + self._low.nbytes


@kernel
def _look(row: Ints, odd: Ints, low: int, scratch: Ints) -> float:
    limbs.carry(row)
    if odd[0] > 0 or (odd[1] > 0 and odd[2] > 0):
        return np.nan
    if odd[1] > 0:
        return np.inf
    if odd[2] > 0:
        return -np.inf
    negative = limbs.magnitude(row, scratch)
    digits, exponent = limbs.rounded(scratch, row.shape[0] + 1)
    value = math.ldexp(digits, exponent + limbs.BITS * low + UNIT)
    return -value if negative else value


@kernel
def _look_all(groups: Ints, low: int, sums: Ints, odd: Ints, out: Floats) -> None:
    scratch = np.zeros(sums.shape[1] + 1, dtype=np.int64)
    for i in range(len(groups)):
        out[i] = _look(sums[groups[i]], odd[groups[i]], low, scratch)


@kernel
def _sum_doubles(
    numbers: Ints, signs: Ints, bits: Ints, marks: Ints, low: int, sums: Ints, odd: Ints, out: Floats
) -> None:
    scratch = np.zeros(sums.shape[1] + 1, dtype=np.int64)
    for i in range(len(numbers)):
        number, sign, value = numbers[i], signs[i], bits[i]
        if sign != 0:
            if limbs.exponent(value) == limbs.ODD:
                limbs.count_odd(value, sign, odd[number])
            else:
                digits = limbs.mantissa(value)
                if digits != 0:
                    if value < 0:
                        sign = -sign
                    place = limbs.position(value)
                    limbs.add(sums[number], low, place, digits & limbs.MASK, digits >> limbs.BITS, sign)
        if marks[i] >= 0:
            out[marks[i]] = _look(sums[number], odd[number], low, scratch)


class DoubleSums(Measure):
    def __init__(self) -> None:
        self._low = 0
        self._sums = np.zeros((0, 0), dtype=np.int64)
        self._odd = np.zeros((0, 3), dtype=np.int64)
        self.samples = np.zeros(0, dtype=np.float64)

    def follow(self, events: Events, given: Given) -> None:
        self._grow(events.capacity)
        self._low, self._sums = fitted(self._low, self._sums, *limbs.span(given.values, given.signs))
        self.samples = np.empty(events.samples, dtype=np.float64)
        _look_all(events.groups, self._low, self._sums, self._odd, self.samples)
        _sum_doubles(
            events.numbers,
            given.signs,
            given.values,
            events.marks,
            self._low,
            self._sums,
            self._odd,
            self.samples,
        )

    def _grow(self, capacity: int) -> None:
        self._sums = grown(self._sums, capacity, 0)
        self._odd = grown(self._odd, capacity, 0)

    def settle(self) -> None:
        self.samples = np.zeros(0, dtype=np.float64)

    def reset(self, numbers: Ints) -> None:
        self._sums[numbers] = 0
        self._odd[numbers] = 0

    def snapshot(self, numbers: Ints, rows: Ints) -> State:
        return {"groups": limb_table(self._low, self._sums, self._odd, numbers)}

    def restore(self, state: State, numbers: Ints, capacity: int) -> None:
        self._low, sums, odd = from_limb_table(state["groups"])
        self._sums = np.zeros((capacity, sums.shape[1]), dtype=np.int64)
        self._odd = np.zeros((capacity, 3), dtype=np.int64)
        self._sums[numbers] = sums
        self._odd[numbers] = odd

    @property
    def nbytes(self) -> int:
        return self._sums.nbytes + self._odd.nbytes


def fitted(low: int, sums: Ints, least: int, greatest: int) -> tuple[int, Ints]:
    """Numbers with limbs for doubles of some positions, and the number of their first limb."""
    if greatest < least:
        return low, sums
    count = sums.shape[1]
    first = least >> 5 if count == 0 else min(low, least >> 5)
    # Three limbs for the digits and one for what is carried.
    last = max(low + count, (greatest >> 5) + 4)
    if count and first == low and last == low + count:
        return low, sums
    return first, limbs.widened(sums, low - first if count else 0, last - first)


def limb_table(low: int, sums: Ints, odd: Ints, numbers: Ints) -> pa.Table:
    """Sums as the list of their limbs from 2^(32·low − 1074) up."""
    count = sums.shape[1]
    digits = sums[numbers]
    lists = pa.ListArray.from_arrays(
        pa.array(np.arange(len(numbers) + 1, dtype=np.int32) * count), pa.array(digits.reshape(-1))
    )
    odds = odd[numbers]
    return pa.table(
        {
            "low": np.full(len(numbers), low, dtype=np.int64),
            "limbs": lists,
            "nans": odds[:, 0].copy(),
            "infinities": odds[:, 1].copy(),
            "negative_infinities": odds[:, 2].copy(),
        }
    )


def from_limb_table(table: pa.Table) -> tuple[int, Ints, Ints]:
    """What `limb_table` wrote: the first limb's number, the limbs, and the counts of what is not finite."""
    rows = table.num_rows
    if rows == 0:
        return 0, np.zeros((0, 0), dtype=np.int64), np.zeros((0, 3), dtype=np.int64)
    digits = np.concatenate([chunk.flatten().to_numpy() for chunk in table.column("limbs").chunks])
    names = ("nans", "infinities", "negative_infinities")
    odd = np.stack([table.column(name).to_numpy() for name in names], axis=1)
    return int(table.column("low")[0].as_py()), digits.reshape(rows, -1).astype(np.int64), odd
