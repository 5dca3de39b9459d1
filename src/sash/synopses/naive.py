"""The two naive extremes (004 section 1.2): nothing computed ahead, and everything.

`MaterialiseNone` keeps the elements and merges all of a window at a look-up: an update is one merge, a
look-up W. `MaterialiseAll` keeps the answers of registered windows up to date: an update costs two merges
per window, a look-up is a copy. A window with measures that cannot be subtracted, or with sums of doubles,
is merged anew at each pane.

Space: one cell per group and pane, of `span` rounded up to a power of two; for `MaterialiseAll` one more
per group and window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sash.errors import NotCovered
from sash.plan.measures import Measure
from sash.state.jit import kernel
from sash.state.kernels import MAX, MIN, merge_floats, merge_ints, subtract
from sash.synopses.cell_store import CellStore
from sash.synopses.cells import Cells, Floats, Ints, clear, put
from sash.synopses.pane_store import Totals, power_of_two
from sash.synopses.rows import PaneRows


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
        row = pane & (capacity - 1)
        clear(ints, floats, identity, row, slots)
        start = put(ints, floats, ops, row, new_slots, new_panes, new_ints, new_floats, start, pane)
    return start


@kernel
def rows_between(left: int, right: int, capacity: int, rows: Ints) -> int:
    """Write the rows of the panes in (left, right]; gives how many they are."""
    for i in range(right - left):
        rows[i] = (left + 1 + i) & (capacity - 1)
    return right - left


class MaterialiseNone(CellStore):
    _write = staticmethod(append)

    def __init__(self, measures: tuple[Measure, ...], span: int) -> None:
        self.capacity = power_of_two(span)
        super().__init__(measures, span, self.capacity)

    def _rows(self, left: int, right: int) -> Ints:
        rows = np.empty(right - left, dtype=np.int64)
        rows_between(left, right, self.capacity, rows)
        return rows


@kernel
def refresh(
    ints: Ints,
    floats: Floats,
    totals: Ints,
    total_floats: Floats,
    ops: Ints,
    identity: Ints,
    capacity: int,
    slots: int,
    far: Ints,
    near: Ints,
    since: int,
    pane: int,
    is_anew: bool,
) -> None:
    """Move each window (pane − far, pane − near] on by one pane; nothing is held of `since` and before."""
    for w in range(len(far)):
        if is_anew:
            clear(totals, total_floats, identity, w, slots)
            for p in range(max(pane - far[w], since) + 1, pane - near[w] + 1):
                for slot in range(slots):
                    merge_ints(totals[w, slot], ints[p & (capacity - 1), slot], ops)
                    merge_floats(total_floats[w, slot], floats[p & (capacity - 1), slot])
            continue
        entering, leaving = pane - near[w], pane - far[w]
        for slot in range(slots):
            if entering > since:
                merge_ints(totals[w, slot], ints[entering & (capacity - 1), slot], ops)
            if leaving > since:
                subtract(totals[w, slot], ints[leaving & (capacity - 1), slot], ops)


class MaterialiseAll(MaterialiseNone):
    """`windows` are pairs (far, near): the panes from `far` − 1 to `near` before the newest."""

    def __init__(
        self, measures: tuple[Measure, ...], span: int, windows: Sequence[tuple[int, int]] = ()
    ) -> None:
        # The pane that leaves the longest window is still needed.
        super().__init__(measures, span + 1)
        self.span = span
        self.windows = {window: i for i, window in enumerate(dict.fromkeys(windows))}
        self.far = np.array([far for far, _ in self.windows], dtype=np.int64)
        self.near = np.array([near for _, near in self.windows], dtype=np.int64)
        self.answers = Cells(self.layout, len(self.windows))
        self._since: int | None = None
        self.is_anew = self.layout.float_columns > 0 or bool({MIN, MAX} & set(self.ops.tolist()))

    def covers(self, left: int, right: int) -> bool:
        return self.begin is None or (self.newest - left, self.newest - right) in self.windows

    def lookup(self, left: int, right: int, slots: Ints | None = None) -> Totals:
        asked = np.arange(self.slots) if slots is None else slots
        if self.begin is None:
            return Totals(*self.layout.empty(len(asked)))
        window = self.windows.get((self.newest - left, self.newest - right))
        if window is None:
            raise NotCovered(f"the window from pane {left} to {right} is not materialised")
        return Totals(self.answers.ints[window, asked], self.answers.floats[window, asked])

    def _append(self, rows: PaneRows, first: int, through: int) -> None:
        if first > self.newest + 1 or self._since is None:
            # Nothing of what a window held is in it any more.
            self._since = first - 1
            self.answers = Cells(self.layout, len(self.windows))
            self.answers.reserve(self.slots)
        for pane in range(first, through + 1):
            own, rows = rows.split(int(np.searchsorted(rows.panes, pane, side="right")))
            super()._append(own, pane, pane)
            refresh(
                self.cells.ints,
                self.cells.floats,
                self.answers.ints,
                self.answers.floats,
                self.ops,
                self.identity,
                self.capacity,
                self.slots,
                self.far,
                self.near,
                self._since,
                pane,
                self.is_anew,
            )

    def _element(self, pane: int) -> Totals:
        totals = Totals(*self.layout.empty(self.slots))
        self._look(pane - 1, pane, np.arange(self.slots), totals)
        return totals

    def _reserve(self, slots: int) -> None:
        super()._reserve(slots)
        self.answers.reserve(slots)

    def _renumber(self, slots: Ints) -> None:
        super()._renumber(slots)
        self.answers.renumber(slots)

    def matrices(self) -> Iterator[Ints]:
        yield from super().matrices()
        yield self.answers.matrix()

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.answers.nbytes
