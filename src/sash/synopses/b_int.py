"""B-INT: aggregates of base intervals, which are dyadic (004 section 3.1.1).

A base interval of level ℓ holds the panes 2^ℓ·i … 2^ℓ·(i + 1) − 1. It is made from its two halves as soon as
its last pane is there. A window is at most 2·log₂ W of them, one after another.

Needs: measures that can be merged. Time: two merges a pane and group, amortised; a look-up up to 2·log₂ W.
Space: two cells per group and pane, of `span` rounded up to a power of two.
"""

from __future__ import annotations

import numpy as np

from sash.plan.measures import Measure
from sash.state.jit import kernel
from sash.synopses.cell_store import CellStore
from sash.synopses.cells import Floats, Ints, clear, copy_row, merge_row, put
from sash.synopses.pane_store import power_of_two


@kernel
def row_of(pane: int, level: int, capacity: int) -> int:
    """The row of the base interval of a level that begins with `pane`; levels lie one after another."""
    return 2 * capacity - (2 * capacity >> level) + ((pane >> level) & ((capacity >> level) - 1))


@kernel
def append(
    ints: Ints,
    floats: Floats,
    ops: Ints,
    identity: Ints,
    capacity: int,
    slots: int,
    new_slots: Ints,
    new_panes: Ints,
    new_ints: Ints,
    new_floats: Floats,
    start: int,
    first: int,
    through: int,
) -> int:
    for pane in range(first, through + 1):
        row = row_of(pane, 0, capacity)
        clear(ints, floats, identity, row, slots)
        start = put(ints, floats, ops, row, new_slots, new_panes, new_ints, new_floats, start, pane)
        level = 1
        while (1 << level) <= capacity and ((pane + 1) & ((1 << level) - 1)) == 0:
            begin = pane + 1 - (1 << level)
            row = row_of(begin, level, capacity)
            copy_row(ints, floats, row, row_of(begin, level - 1, capacity), slots)
            middle = begin + (1 << (level - 1))
            merge_row(ints, floats, ops, row, row_of(middle, level - 1, capacity), slots)
            level += 1
    return start


@kernel
def decompose(left: int, right: int, capacity: int, rows: Ints) -> int:
    """Write the rows of the base intervals that make up (left, right]; gives how many they are."""
    count = 0
    begin = left + 1
    while begin <= right:
        level = 0
        # As wide as the beginning is aligned and the end allows.
        while (begin >> level) & 1 == 0 and begin + (2 << level) - 1 <= right:
            level += 1
        rows[count] = row_of(begin, level, capacity)
        count += 1
        begin += 1 << level
    return count


def most_rows(capacity: int) -> int:
    """So many base intervals make up any window."""
    return 2 * capacity.bit_length() + 2


class BInt(CellStore):
    _write = staticmethod(append)

    def __init__(self, measures: tuple[Measure, ...], span: int) -> None:
        self.capacity = power_of_two(span)
        super().__init__(measures, span, 2 * self.capacity - 1)

    def _rows(self, left: int, right: int) -> Ints:
        rows = np.empty(most_rows(self.capacity), dtype=np.int64)
        return rows[: decompose(left, right, self.capacity, rows)]
