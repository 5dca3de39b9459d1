"""IJ, the interval-join synopsis (002, section 8.3.2): intervals of 1, 2, 4, … panes, a tree over a ring.

Needs: measures that can be merged. Time: an update recomputes what lies above the panes that changed, up to
all 2b intervals; an answer is O(log b + g) for each pair of lengths. Space: 2b intervals of 2g + 1 classes,
b rounded up to a power of two.
"""

from __future__ import annotations

import numpy as np

from sash.plan.periodic import SynopsisSpec
from sash.synopses.joined import kernels
from sash.synopses.joined.synopsis import Float64Array, Int64Array, JoinSynopsis, Results


class IntervalJoinSynopsis(JoinSynopsis):
    """Node 1 is the root, node n has the children 2n and 2n + 1; pane p is leaf p mod `leaves`."""

    def __init__(self, spec: SynopsisSpec, g: int = 0) -> None:
        super().__init__(spec, g)
        self._touched = np.zeros(self._intervals, dtype=np.bool_)

    @property
    def leaves(self) -> int:
        return 1 << max(1, (self.b - 1).bit_length())

    @property
    def _intervals(self) -> int:
        return 2 * self.leaves

    def _open(self, fresh: int) -> None:
        """The pane that leaves need not be where the new one goes: it is cleared, too."""
        assert self.newest is not None
        young = self.newest - np.arange(fresh)
        places = self.leaves + np.concatenate([young, young - self.b]) % self.leaves
        self.cells[places] = self.layout.identity()
        self.cell_floats[places] = 0.0
        self._touched[places] = True

    def _enter(self, come: Results) -> None:
        places = self.leaves + come.panes % self.leaves
        self._touched[places] = True
        self._add(come, places)

    def _close(self) -> None:
        identity = self.layout.identity()
        kernels.refresh_parents(self.cells, self.cell_floats, self._touched, identity, self.ops)
        self._touched[:] = False

    def _probe(self, first: int, second: int) -> tuple[Int64Array, Float64Array]:
        assert self.newest is not None
        ints, floats = self.layout.empty(self.cells.shape[2])
        shorter = min(first, second)
        kernels.probe_tree(self.cells, self.cell_floats, self.newest, shorter, self.ops, ints, floats)
        kernels.probe_old(
            self.cells,
            self.cell_floats,
            self.leaves,
            self.leaves,
            self.newest,
            first,
            second,
            self.g,
            self.ops,
            ints,
            floats,
        )
        return ints[: self.groups.size], floats[: self.groups.size]

    def elements(self) -> Results:
        panes = self._live()
        places = self.leaves + panes % self.leaves
        return self._rows_of(panes, self.cells[places], self.cell_floats[places])
