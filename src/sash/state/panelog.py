"""The closed panes of a synopsis: one row per (pane, group), in order of pane.

Rows live in arrays that grow by doubling and lose their dead front by moving, so appending and
trimming cost O(1) a row. Each group's rows are chained newest first: the rows of one group in a window
are found without touching other groups' rows.

Positions are absolute: they keep their meaning when the front is trimmed. Rows base … end are stored.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sash.state import kernels
from sash.state.layout import Layout

Int64Array = npt.NDArray[np.int64]
Float64Array = npt.NDArray[np.float64]

_FIRST_CAPACITY = 1024


def room_for(live: int, have: int) -> int:
    """How much room a log is to have for what lives: twice as much, and a little for what comes before the
    dead are let go. Room that it has, and that is not far more, is not made anew."""
    return have if 2 * live <= have <= 3 * live else max(_FIRST_CAPACITY, live * 9 // 4)


class PaneLog:
    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.base = 0
        self.heads: Int64Array = np.full(_FIRST_CAPACITY, -1, dtype=np.int64)
        self._size = 0
        self._allocate(_FIRST_CAPACITY)

    def _allocate(self, capacity: int) -> None:
        self.slots: Int64Array = np.empty(capacity, dtype=np.int64)
        self.panes: Int64Array = np.empty(capacity, dtype=np.int64)
        self.previous: Int64Array = np.empty(capacity, dtype=np.int64)
        self.ints: Int64Array = np.empty((capacity, len(self.layout.operations)), dtype=np.int64)
        self.floats: Float64Array = np.empty((capacity, self.layout.float_columns))

    @property
    def end(self) -> int:
        return self.base + self._size

    @property
    def nbytes(self) -> int:
        arrays = (self.heads, self.slots, self.panes, self.previous, self.ints, self.floats)
        return sum(array.nbytes for array in arrays)

    def reserve_slots(self, slots: int) -> None:
        if slots > len(self.heads):
            heads = np.full(max(slots, 2 * len(self.heads)), -1, dtype=np.int64)
            heads[: len(self.heads)] = self.heads
            self.heads = heads

    def append(self, slots: Int64Array, panes: Int64Array, ints: Int64Array, floats: Float64Array) -> None:
        """Add rows whose panes ascend and are not before the last one's; their slots are reserved."""
        start, stop = self._size, self._size + len(slots)
        if stop > len(self.slots):
            self._move(start, max(stop, 2 * len(self.slots)))
        self.slots[start:stop] = slots
        self.panes[start:stop] = panes
        self.ints[start:stop] = ints
        self.floats[start:stop] = floats
        self._size = stop
        kernels.chain(self.slots, self.previous, self.heads, start, stop, self.base)

    def position_after(self, pane: int) -> int:
        """The position of the first row of a pane after `pane`."""
        return self.base + int(self.panes[: self._size].searchsorted(pane, side="right"))

    def positions_after(self, panes: Int64Array) -> Int64Array:
        """The positions of the first rows of panes after each of `panes`."""
        return self.base + np.searchsorted(self.panes[: self._size], panes, side="right")

    def different_panes(self) -> Int64Array:
        """The panes that have rows, in order."""
        return kernels.different(self.panes[: self._size])

    def trim(self, position: int) -> None:
        """Forget the rows before `position`, once they are at least half of what is stored."""
        dead = position - self.base
        if dead > 0 and 2 * dead >= self._size:
            self._move(self._size, room_for(self._size - dead, len(self.slots)), dead)

    def renumber(self, place: Int64Array, slots: int) -> None:
        """Slot s becomes place[s]; there are `slots` slots now."""
        self.slots[: self._size] = place[self.slots[: self._size]]
        self.heads = np.full(max(slots, _FIRST_CAPACITY), -1, dtype=np.int64)
        kernels.chain(self.slots, self.previous, self.heads, 0, self._size, self.base)

    def slots_between(self, start: int, stop: int) -> Int64Array:
        return self.slots[start - self.base : stop - self.base]

    def pane_at(self, position: int) -> int:
        return int(self.panes[position - self.base])

    def _move(self, size: int, capacity: int, dead: int = 0) -> None:
        old = (self.slots, self.panes, self.previous, self.ints, self.floats)
        if capacity != len(self.slots):
            self._allocate(capacity)
        for source, target in zip(
            old, (self.slots, self.panes, self.previous, self.ints, self.floats), strict=True
        ):
            # As one run of numbers: a matrix that overlaps itself would be copied twice.
            width = source[:1].size
            target.reshape(-1)[: (size - dead) * width] = source.reshape(-1)[dead * width : size * width]
        self.base += dead
        self._size = size - dead
