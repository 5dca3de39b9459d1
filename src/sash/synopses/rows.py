"""Rows of measures per pane and group: what synopses are fed with."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sash.state import kernels
from sash.state.layout import Layout

Int64Array = npt.NDArray[np.int64]
Float64Array = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


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
        order = np.lexsort((self.slots, self.panes))
        rows = PaneRows(self.slots[order], self.panes[order], self.ints[order], self.floats[order])
        count = kernels.merge_runs(rows.slots, rows.panes, rows.ints, rows.floats, ops)
        return rows.split(count)[0]
