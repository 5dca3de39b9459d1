"""Synopses whose intervals are rows of one table of cells: a window is a list of rows to merge."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from sash.plan.measures import Measure
from sash.synopses.cells import Cells, Ints, gather
from sash.synopses.pane_store import PaneStore, Totals
from sash.synopses.rows import PaneRows


class CellStore(PaneStore):
    """`capacity` is how many panes the table has room for.

    `_write` is the kernel that adds panes to cells. It takes those, operations, identity, capacity and slots;
    the rows of the panes; the first row, pane and last pane.
    """

    capacity: int
    _write: ClassVar[staticmethod[..., int]]

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
