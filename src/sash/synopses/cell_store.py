"""Synopses whose intervals are rows of one table of cells: a window is a list of rows to merge."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

from sash.plan.measures import Measure
from sash.synopses.cells import Cells, Ints, gather
from sash.synopses.pane_store import PaneStore, Totals


class CellStore(PaneStore):
    def __init__(self, measures: tuple[Measure, ...], span: int, rows: int) -> None:
        super().__init__(measures, span)
        self.cells = Cells(self.layout, rows)

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
