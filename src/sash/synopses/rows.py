"""Rows of measures per pane and group: what synopses are fed with."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sash.state import kernels
from sash.state.jit import kernel
from sash.state.layout import Layout

Int64Array = npt.NDArray[np.int64]
Float64Array = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

# Rows are sorted by counting if there are at most so many pairs of pane and slot.
_PAIRS_A_ROW, _FEW_PAIRS = 8, 1 << 16


def pane_order(slots: Int64Array, panes: Int64Array) -> Int64Array:
    """Rows in order of pane and slot, equal ones as they come."""
    if not len(slots):
        return np.zeros(0, dtype=np.int64)
    first, width = int(panes.min()), int(slots.max()) + 1
    pairs = (int(panes.max()) - first + 1) * width
    if pairs <= _PAIRS_A_ROW * len(slots) + _FEW_PAIRS:
        return _counting_order(slots, panes, first, width, pairs)
    return np.lexsort((slots, panes))


@kernel
def _counting_order(slots: Int64Array, panes: Int64Array, first: int, width: int, pairs: int) -> Int64Array:
    place = np.zeros(pairs + 1, dtype=np.int64)
    for row in range(len(slots)):
        place[(panes[row] - first) * width + slots[row] + 1] += 1
    for pair in range(pairs):
        place[pair + 1] += place[pair]
    order = np.empty(len(slots), dtype=np.int64)
    for row in range(len(slots)):
        pair = (panes[row] - first) * width + slots[row]
        order[place[pair]] = row
        place[pair] += 1
    return order


class PaneRows:
    """Measures per (pane, slot), as parallel arrays; sealed rows are in that order, each pair once."""

    __slots__ = ("floats", "ints", "panes", "slots")

    def __init__(self, slots: Int64Array, panes: Int64Array, ints: Int64Array, floats: Float64Array) -> None:
        self.slots, self.panes, self.ints, self.floats = slots, panes, ints, floats

    @property
    def nbytes(self) -> int:
        return self.slots.nbytes + self.panes.nbytes + self.ints.nbytes + self.floats.nbytes

    @staticmethod
    def none(layout: Layout) -> PaneRows:
        empty = np.zeros(0, dtype=np.int64)
        return PaneRows(empty, empty, *layout.empty(0))

    @staticmethod
    def concatenated(parts: list[PaneRows]) -> PaneRows:
        if len(parts) == 1:
            return parts[0]
        return PaneRows(
            np.concatenate([part.slots for part in parts]),
            np.concatenate([part.panes for part in parts]),
            np.concatenate([part.ints for part in parts]),
            np.concatenate([part.floats for part in parts]),
        )

    def where(self, mask: BoolArray) -> PaneRows:
        return PaneRows(self.slots[mask], self.panes[mask], self.ints[mask], self.floats[mask])

    def split(self, count: int) -> tuple[PaneRows, PaneRows]:
        return (
            PaneRows(self.slots[:count], self.panes[:count], self.ints[:count], self.floats[:count]),
            PaneRows(self.slots[count:], self.panes[count:], self.ints[count:], self.floats[count:]),
        )

    def merged(self, ops: Int64Array) -> PaneRows:
        """One row per (pane, slot), in that order; equal ones merged in order of arrival."""
        order = pane_order(self.slots, self.panes)
        rows = PaneRows(self.slots[order], self.panes[order], self.ints[order], self.floats[order])
        count = kernels.merge_runs(rows.slots, rows.panes, rows.ints, rows.floats, ops)
        return rows.split(count)[0]
