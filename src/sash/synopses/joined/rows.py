"""BIJ kept as rows: one for each (interval, class, group) that has results, where cells would be too many.

Needs: measures that can be merged. Time: an update is a sort of what is new and, now and then, of all; an
answer passes over all rows, once for each pair of lengths. Space: no more rows than there are live results.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sash.plan.periodic import SynopsisSpec
from sash.state import kernels
from sash.synopses.joined.results import class_count
from sash.synopses.joined.synopsis import Float64Array, Int64Array, JoinSynopsis, Results
from sash.synopses.rows import BoolArray, PaneRows


class JoinRows(JoinSynopsis):
    """Rows are in order of `panes`, which number intervals and classes together; `_fresh` has new ones."""

    def __init__(self, spec: SynopsisSpec, g: int = 0) -> None:
        super().__init__(spec, g)
        self._classes = class_count(g)
        self._rows = PaneRows.none(self.layout)
        self._fresh = PaneRows.none(self.layout)

    @property
    def _intervals(self) -> int:
        return 0

    def _open(self, fresh: int) -> None:
        assert self.newest is not None
        first = (self.newest - self.b + 1) * self._classes
        self._rows = self._rows.split(int(np.searchsorted(self._rows.panes, first)))[1]
        self._fresh = self._fresh.split(int(np.searchsorted(self._fresh.panes, first)))[1]

    def _enter(self, come: Results) -> None:
        panes = come.panes * self._classes + come.classes
        rows = PaneRows(come.slots, panes, come.ints, come.floats)
        self._fresh = PaneRows.concatenated([self._fresh, rows]).merged(self.ops)

    def _close(self) -> None:
        if 2 * len(self._fresh.panes) > len(self._rows.panes):
            self._rows = PaneRows.concatenated([self._rows, self._fresh]).merged(self.ops)
            self._fresh = PaneRows.none(self.layout)

    def _renumber(self, slots: Int64Array, place: Int64Array) -> None:
        super()._renumber(slots, place)
        for rows in (self._rows, self._fresh):
            rows.slots = place[rows.slots]

    def _matrices(self) -> Iterator[Int64Array]:
        yield from super()._matrices()
        yield from (self._rows.ints, self._fresh.ints)

    def _probe(self, first: int, second: int) -> tuple[Int64Array, Float64Array]:
        totals = self.layout.empty(self.groups.size)
        last = np.zeros_like(totals[0])
        for rows in (self._rows, self._fresh):
            part = rows.where(self._has(rows, first, second))
            count = len(part.slots)
            kernels.enter(part.slots, part.panes, part.ints, part.floats, 0, count, self.ops, *totals, last)
        return totals

    def _has(self, rows: PaneRows, first: int, second: int) -> BoolArray:
        """Which results have both tuples in windows of these lengths, by the age of the older one.

        Of tuples g panes apart or more the younger is young enough if the older is: windows differ by g.
        """
        assert self.newest is not None
        ages = self.newest - rows.panes // self._classes
        classes = rows.panes % self._classes
        is_second = classes > self.g
        apart = np.where(is_second, classes - self.g, classes)
        older, younger = np.where(is_second, second, first), np.where(is_second, first, second)
        young: BoolArray = (ages < older) & (ages - apart < younger)
        return young

    def elements(self) -> Results:
        rows = PaneRows.concatenated([self._rows, self._fresh]).merged(self.ops)
        intervals, classes = np.divmod(rows.panes, self._classes)
        arrivals = np.full(len(intervals), -1 if self.newest is None else self.newest, dtype=np.int64)
        return Results(rows.slots, intervals, classes, arrivals, rows.ints, rows.floats)

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._rows.nbytes + self._fresh.nbytes
