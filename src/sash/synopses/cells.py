"""Measures in a table of rows by slots: what synopses over arrays keep their intervals in.

A row stands for an interval, a slot for a group. The integer columns of a cell lie together, and so do the
cells of a row, so that an answer for all groups reads rows from end to end. Space: 8 bytes per row, slot and
column of the layout.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sash.state.jit import kernel
from sash.state.kernels import merge_floats, merge_ints
from sash.state.layout import Layout

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Cells:
    def __init__(self, layout: Layout, rows: int) -> None:
        self._layout = layout
        self.ints, self.floats = self._empty(rows, 0)

    def _empty(self, rows: int, slots: int) -> tuple[Ints, Floats]:
        ints, floats = self._layout.empty(rows * slots)
        return ints.reshape(rows, slots, len(self._layout.operations)), floats.reshape(
            rows, slots, self._layout.float_columns
        )

    def reserve(self, slots: int) -> None:
        rows, have, _ = self.ints.shape
        if slots > have:
            ints, floats = self._empty(rows, roomier(have, slots) - have)
            self.ints = np.concatenate([self.ints, ints], axis=1)
            self.floats = np.concatenate([self.floats, floats], axis=1)

    def renumber(self, slots: Ints) -> None:
        """Slot slots[i] is now slot i; the others are gone."""
        self.ints = np.ascontiguousarray(self.ints[:, slots])
        self.floats = np.ascontiguousarray(self.floats[:, slots])

    def matrix(self) -> Ints:
        """The integer measures of all cells, one a row."""
        return self.ints.reshape(-1, self.ints.shape[2])

    @property
    def nbytes(self) -> int:
        return self.ints.nbytes + self.floats.nbytes


def roomier(have: int, wanted: int) -> int:
    """How much to have when `wanted` is needed: what is asked for first is given exactly."""
    return wanted if have == 0 else max(wanted, have + have // 2)


@kernel
def clear(ints: Ints, floats: Floats, identity: Ints, row: int, slots: int) -> None:
    """Make a row that of no tuples."""
    for slot in range(slots):
        for c in range(identity.shape[0]):
            ints[row, slot, c] = identity[c]
        for c in range(floats.shape[2]):
            floats[row, slot, c] = 0.0


@kernel
def put(
    ints: Ints,
    floats: Floats,
    ops: Ints,
    row: int,
    new_slots: Ints,
    new_panes: Ints,
    new_ints: Ints,
    new_floats: Floats,
    start: int,
    pane: int,
) -> int:
    """Merge the rows of `pane`, which begin at `start`, into one row of cells; gives where they end."""
    while start < len(new_slots) and new_panes[start] == pane:
        slot = new_slots[start]
        merge_ints(ints[row, slot], new_ints[start], ops)
        merge_floats(floats[row, slot], new_floats[start])
        start += 1
    return start


@kernel
def merge_row(ints: Ints, floats: Floats, ops: Ints, target: int, source: int, slots: int) -> None:
    """target ⊕= source, two rows of the same cells."""
    for slot in range(slots):
        merge_ints(ints[target, slot], ints[source, slot], ops)
        merge_floats(floats[target, slot], floats[source, slot])


@kernel
def copy_row(ints: Ints, floats: Floats, target: int, source: int, slots: int) -> None:
    for slot in range(slots):
        for c in range(ints.shape[2]):
            ints[target, slot, c] = ints[source, slot, c]
        for c in range(floats.shape[2]):
            floats[target, slot, c] = floats[source, slot, c]


@kernel
def gather(
    ints: Ints, floats: Floats, ops: Ints, rows: Ints, count: int, slots: Ints, out: Ints, out_floats: Floats
) -> None:
    """Merge the first `count` of `rows` into out[i], for each slot slots[i]."""
    for r in range(count):
        row = rows[r]
        for i in range(len(slots)):
            merge_ints(out[i], ints[row, slots[i]], ops)
            merge_floats(out_floats[i], floats[row, slots[i]])
