"""Synopses whose intervals are rows of one table of cells: a window is a list of rows to merge."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import ClassVar

from sash.plan.measures import Measure
from sash.synopses.cells import Cells, Floats, Ints, gather
from sash.synopses.pane_store import PaneStore, Totals
from sash.synopses.rows import PaneRows

Write = Callable[[Ints, Floats, Ints, Ints, int, int, Ints, Ints, Ints, Floats, int, int, int], int]
"""A kernel that adds panes to cells: those, operations, identity, capacity, slots; the rows of the panes, the
first row, pane and last pane. It gives how many rows it has read.
"""


class CellStore(PaneStore):
    """`capacity` is how many panes the table has room for; `_write` adds them."""

    capacity: int
    _write: ClassVar[Write]

    def __init__(self, measures: tuple[Measure, ...], span: int, rows: int) -> None:
        super().__init__(measures, span)
        self.cells = Cells(self.layout, rows)

    def _append(self, rows: PaneRows, first: int, through: int) -> None:
        cells = self.cells.ints, self.cells.floats, self.ops, self.identity
        new = rows.slots, rows.panes, rows.ints, rows.floats
        self._write(*cells, self.capacity, self.slots, *new, 0, first, through)

    @abstractmethod
    def _rows(self, left: int, right: int) -> Ints:
        """The rows that make up (left, right]."""

    def _look(self, left: int, right: int, slots: Ints, totals: Totals) -> None:
        rows = self._rows(left, right)
        cells = self.cells
        gather(cells.ints, cells.floats, self.ops, rows, len(rows), slots, totals.ints, totals.floats)

    def _reserve(self, slots: int) -> None:
        self.cells.reserve(slots)

    def _renumber(self, slots: Ints) -> None:
        self.cells.renumber(slots)

    def matrices(self) -> Iterator[Ints]:
        yield self.cells.matrix()

    @property
    def nbytes(self) -> int:
        return self.cells.nbytes
