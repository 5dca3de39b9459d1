"""R-INT: running aggregates, from the beginning of the stream up to each pane (004 section 3.2).

A window is the difference of two running aggregates, so only measures that can be subtracted are taken: the
type of the constructor's argument says so. Sums of doubles run as long fixed-point numbers (see
operators/aggregates/limbs), which lose nothing when they are added to or subtracted, however long the
stream is; what is not finite is counted apart. The difference is rounded once, to the pair of doubles that
panes have.

Needs: subtractable measures. Time: one merge a row, one copy a pane and group; a look-up one subtraction a
group. Space per group and pane, of `span` + 1 rounded up to a power of two: 8 bytes a column for integers;
for each sum of doubles 24 bytes and 8 a limb, as many limbs as the digits that were seen need.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from sash.operators.aggregates import limbs
from sash.operators.aggregates.sums import UNIT, fitted
from sash.plan.measures import SubtractableMeasures
from sash.state.jit import kernel
from sash.state.kernels import merge_ints, subtract
from sash.synopses.cells import Floats, Ints, roomier
from sash.synopses.pane_store import PaneStore, Totals, power_of_two
from sash.synopses.rows import PaneRows


@kernel
def add_double(sums: Ints, odd: Ints, row: int, low: int, bits: int, sign: int) -> None:
    """Add ± a double, given by its bits, to one of the running sums."""
    if limbs.exponent(bits) == limbs.ODD:
        limbs.count_odd(bits, sign, odd, row)
        return
    digits = limbs.mantissa(bits)
    if digits != 0:
        limbs.add(
            sums,
            row,
            low,
            limbs.position(bits),
            digits & limbs.MASK,
            digits >> limbs.BITS,
            -sign if bits < 0 else sign,
        )


@kernel
def append(
    running: Ints,
    sums: Ints,
    odd: Ints,
    ops: Ints,
    low: int,
    capacity: int,
    slots: int,
    new_slots: Ints,
    new_panes: Ints,
    new_ints: Ints,
    new_bits: Ints,
    start: int,
    first: int,
    through: int,
) -> int:
    """Row `capacity` of each table is the running aggregate of now; the others are those at past panes."""
    now = capacity
    for pane in range(first, through + 1):
        while start < len(new_slots) and new_panes[start] == pane:
            slot = new_slots[start]
            merge_ints(running[now, slot], new_ints[start], ops)
            for c in range(new_bits.shape[1]):
                add_double(sums[now, slot], odd[now, slot], c >> 1, low, new_bits[start, c], 1)
            for f in range(sums.shape[2]):
                limbs.carry(sums[now, slot], f)
            start += 1
        keep(running, sums, odd, pane & (capacity - 1), now, slots)
    return start


@kernel
def keep(running: Ints, sums: Ints, odd: Ints, row: int, now: int, slots: int) -> None:
    for slot in range(slots):
        for c in range(running.shape[2]):
            running[row, slot, c] = running[now, slot, c]
        for f in range(sums.shape[2]):
            for c in range(sums.shape[3]):
                sums[row, slot, f, c] = sums[now, slot, f, c]
            for c in range(3):
                odd[row, slot, f, c] = odd[now, slot, f, c]


@kernel
def _rounded(sums: Ints, low: int, scratch: Ints) -> float:
    negative = limbs.magnitude(sums, 0, scratch)
    digits, exponent = limbs.rounded(scratch, sums.shape[1] + 1)
    value = math.ldexp(digits, exponent + limbs.BITS * low + UNIT)
    return -value if negative else value


@kernel
def _take_away(part: Ints, low: int, bits: int) -> bool:
    """Subtract a number's own rounding from it, unless it is longer than the number has limbs."""
    digits, place = limbs.mantissa(bits), limbs.position(bits)
    least = limbs.BITS * low
    if place < least:
        # The number has no digits there, so neither has its rounding.
        digits >>= min(least - place, 63)
        place = least
    if limbs.exponent(bits) == limbs.ODD or (place >> 5) - low + 2 >= part.shape[1]:
        return False
    sign = 1 if bits < 0 else -1
    limbs.add(part, 0, low, place, digits & limbs.MASK, digits >> limbs.BITS, sign)
    limbs.carry(part, 0)
    return True


@kernel
def difference(
    running: Ints,
    sums: Ints,
    odd: Ints,
    ops: Ints,
    low: int,
    left: int,
    right: int,
    slots: Ints,
    out: Ints,
    out_floats: Floats,
) -> None:
    """out[i] = row `right` − row `left` of slot slots[i]."""
    for i in range(len(slots)):
        slot = slots[i]
        for c in range(running.shape[2]):
            out[i, c] = running[right, slot, c]
        subtract(out[i], running[left, slot], ops)
    if sums.shape[2] > 0:
        _sum_differences(sums, odd, low, left, right, slots, out_floats)


@kernel
def _sum_differences(
    sums: Ints, odd: Ints, low: int, left: int, right: int, slots: Ints, out: Floats
) -> None:
    part = np.zeros((1, sums.shape[3]), dtype=np.int64)
    scratch = np.zeros(sums.shape[3] + 1, dtype=np.int64)
    first = np.zeros(1, dtype=np.float64)
    for i in range(len(slots)):
        slot = slots[i]
        for f in range(sums.shape[2]):
            late, early = odd[right, slot, f], odd[left, slot, f]
            has_plus, has_minus = late[1] > early[1], late[2] > early[2]
            if late[0] > early[0] or (has_plus and has_minus):
                out[i, 2 * f] = np.nan
            elif has_plus:
                out[i, 2 * f] = np.inf
            elif has_minus:
                out[i, 2 * f] = -np.inf
            elif sums.shape[3] > 0:
                for c in range(sums.shape[3]):
                    part[0, c] = sums[right, slot, f, c] - sums[left, slot, f, c]
                limbs.carry(part, 0)
                first[0] = _rounded(part, low, scratch)
                out[i, 2 * f] = first[0]
                # What rounding has taken away is the second of the pair.
                if _take_away(part, low, first.view(np.int64)[0]):
                    out[i, 2 * f + 1] = _rounded(part, low, scratch)


class RInt(PaneStore):
    def __init__(self, measures: SubtractableMeasures, span: int) -> None:
        super().__init__(measures, span)
        self.capacity = power_of_two(span + 1)
        columns, sums = len(self.ops), self.layout.float_columns // 2
        self.running = np.zeros((self.capacity + 1, 0, columns), dtype=np.int64)
        self.odd = np.zeros((self.capacity + 1, 0, sums, 3), dtype=np.int64)
        self.sums = np.zeros((self.capacity + 1, 0, sums, 0), dtype=np.int64)
        self.low = 0

    def _append(self, rows: PaneRows, first: int, through: int) -> None:
        bits = np.ascontiguousarray(rows.floats).view(np.int64)
        self.fit(bits)
        # The aggregate before the first pane is where a window may begin.
        keep(self.running, self.sums, self.odd, (first - 1) & (self.capacity - 1), self.capacity, self.slots)
        append(
            self.running,
            self.sums,
            self.odd,
            self.ops,
            self.low,
            self.capacity,
            self.slots,
            rows.slots,
            rows.panes,
            rows.ints,
            bits,
            0,
            first,
            through,
        )

    def fit(self, bits: Ints) -> None:
        """Make room for the digits of some doubles."""
        flat = bits.reshape(-1)
        span = limbs.span(flat, np.ones(len(flat), dtype=np.int64))
        rows, slots, sums, count = self.sums.shape
        low, wide = fitted(self.low, self.sums.reshape(rows * slots * sums, count), *span)
        self.low, self.sums = low, wide.reshape(rows, slots, sums, wide.shape[1])

    def _look(self, left: int, right: int, slots: Ints, totals: Totals) -> None:
        mask = self.capacity - 1
        difference(
            self.running,
            self.sums,
            self.odd,
            self.ops,
            self.low,
            left & mask,
            right & mask,
            slots,
            totals.ints,
            totals.floats,
        )

    def _reserve(self, slots: int) -> None:
        have = self.running.shape[1]
        if slots > have:
            more = roomier(have, slots) - have
            self.running, self.odd, self.sums = (
                np.concatenate(
                    [table, np.zeros((table.shape[0], more, *table.shape[2:]), dtype=np.int64)], axis=1
                )
                for table in (self.running, self.odd, self.sums)
            )

    def _renumber(self, slots: Ints) -> None:
        self.running, self.odd, self.sums = (
            np.ascontiguousarray(table[:, slots]) for table in (self.running, self.odd, self.sums)
        )

    def matrices(self) -> Iterator[Ints]:
        """None: there are no words among counts and sums."""
        yield from ()

    @property
    def nbytes(self) -> int:
        return self.running.nbytes + self.odd.nbytes + self.sums.nbytes
