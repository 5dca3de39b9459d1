"""RJ, the running-join synopsis (002, section 8.3.2): all results that expire by the end of each pane.

Needs: measures that can be subtracted. Time: a result enters every interval from its own to the youngest,
O(b); an answer is O(1 + g) differences for each pair of lengths. Space: b + 1 intervals of 2g + 1 classes.
"""

from __future__ import annotations

from sash.errors import InternalError
from sash.plan.periodic import SynopsisSpec
from sash.state.kernels import MAX, MIN
from sash.synopses.joined import kernels
from sash.synopses.joined.synopsis import Float64Array, Int64Array, JoinSynopsis, Results


class RunningJoinSynopsis(JoinSynopsis):
    """Interval p mod (b + 1) has the results of pane p and of all older ones."""

    def __init__(self, spec: SynopsisSpec, g: int = 0) -> None:
        super().__init__(spec, g)
        if self.layout.float_columns or any(op in (MIN, MAX) for op in self.layout.operations):
            raise InternalError("a running synopsis of an aggregate that cannot be subtracted")

    @property
    def _intervals(self) -> int:
        return self.b + 1

    def _open(self, fresh: int) -> None:
        """A running interval begins as a copy of the one before it."""
        assert self.newest is not None
        size = self._intervals
        for pane in range(self.newest - fresh + 1, self.newest + 1):
            self.cells[pane % size] = self.cells[(pane - 1) % size]

    def _enter(self, come: Results) -> None:
        assert self.newest is not None
        kernels.add_running(
            self.cells, come.panes, self.newest, come.classes, come.slots, come.ints, self.ops
        )

    def _probe(self, first: int, second: int) -> tuple[Int64Array, Float64Array]:
        assert self.newest is not None
        ints, floats = self.layout.empty(self.cells.shape[2])
        kernels.probe_running(self.cells, self.newest, first, second, self.g, self.ops, ints)
        return ints[: self.groups.size], floats[: self.groups.size]

    def elements(self) -> Results:
        panes = self._live()
        ints, floats = self._empty(len(panes), self.cells.shape[2])
        for place, pane in enumerate(panes.tolist()):
            for kind in range(ints.shape[1]):
                kernels.add_difference(self.cells, pane, pane - 1, kind, self.ops, ints[place, kind])
        return self._rows_of(panes, ints, floats)
