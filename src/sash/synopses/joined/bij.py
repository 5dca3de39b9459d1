"""BIJ, the basic-interval-join synopsis (002, section 8.3.2): one interval a pane, read from young to old.

Needs: measures that can be merged. Time: an update is O(1) a result; an answer is O(b) intervals, for all
lengths at once (CS5). Space: b intervals of 2g + 1 classes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sash.synopses.joined import kernels
from sash.synopses.joined.synopsis import Float64Array, Int64Array, JoinSynopsis, Results


class BasicIntervalJoinSynopsis(JoinSynopsis):
    """The interval of pane p is number p mod b."""

    @property
    def _intervals(self) -> int:
        return self.b

    def _open(self, fresh: int) -> None:
        assert self.newest is not None
        places = (self.newest - np.arange(fresh)) % self.b
        self.cells[places] = self.layout.identity()
        self.cell_floats[places] = 0.0

    def _enter(self, come: Results) -> None:
        self._add(come, come.panes % self.b)

    def _totals_of(self, lengths: Sequence[tuple[int, int]]) -> list[tuple[Int64Array, Float64Array]]:
        assert self.newest is not None
        slots = self.cells.shape[2]
        passed, passed_floats = self.layout.empty(slots)
        firsts = np.array([first for first, _ in lengths], dtype=np.int64)
        seconds = np.array([second for _, second in lengths], dtype=np.int64)
        ints = np.empty((len(lengths), *passed.shape), dtype=np.int64)
        floats = np.empty((len(lengths), *passed_floats.shape))
        kernels.sweep(
            self.cells,
            self.cell_floats,
            self.newest,
            np.argsort(np.minimum(firsts, seconds), kind="stable"),
            firsts,
            seconds,
            self.g,
            self.ops,
            passed,
            passed_floats,
            ints,
            floats,
        )
        size = self.groups.size
        return [(ints[i, :size], floats[i, :size]) for i in range(len(lengths))]

    def _probe(self, first: int, second: int) -> tuple[Int64Array, Float64Array]:
        return self._totals_of([(first, second)])[0]

    def elements(self) -> Results:
        panes = self._live()
        return self._rows_of(panes, self.cells[panes % self.b], self.cell_floats[panes % self.b])
