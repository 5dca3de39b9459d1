"""Several synopses read as one (002, section 8.3.3): their totals added up, group by group, or taken away; or
each for other measures of the same rows (rule SS2).

It keeps no rows: only which of its groups each group of its parts is, and the totals of the windows that are
asked for. When a window moves, groups in panes that entered or left in any part are put together anew.
Parts are moved and asked in step, so what has a `Combined` must move them boundary by boundary with all of
their own readers.

Needs: parts whose panes have the edges of the windows; measures that can be merged, and subtracted where a
part is taken away. Time: O(p) for a group that changes, p parts. Space: two numbers per group and part, and
one row per (window length, group).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from sash.errors import InternalError
from sash.lang.bound import AggregateCall, Scalar
from sash.operators.evaluate import ARROW_TYPES
from sash.plan.measures import Measure
from sash.plan.periodic import SynopsisSpec
from sash.plan.sketches import Sketched
from sash.state import kernels
from sash.state.groups import GroupTable
from sash.state.layout import Layout
from sash.state.ordering import Words
from sash.synopses.basic_interval import BasicIntervalSynopsis, Dependent, Looked, Sliding, WindowKey
from sash.synopses.collective.filters import Filters
from sash.synopses.frequent_items import FrequentItems
from sash.synopses.pane_store import Totals
from sash.synopses.value_counts import ValueCounts

Int64Array = npt.NDArray[np.int64]
Float64Array = npt.NDArray[np.float64]

# Groups that nothing refers to any more are dropped once they are the greater part of so many.
_LEAST_TO_COMPACT = 1024


class Member:
    """A part: `place[i]` is the group here that its group i is; `back` has it the other way round, or −1.

    It gives the measures in `given`, and nothing of others.
    """

    def __init__(
        self, synopsis: BasicIntervalSynopsis, sign: int, layout: Layout, given: Collection[Measure]
    ) -> None:
        self.synopsis = synopsis
        self.sign = sign
        self.place: Int64Array = np.zeros(0, dtype=np.int64)
        self.back: Int64Array = np.zeros(0, dtype=np.int64)
        self._seen = 0
        self._layout = layout
        self._ints, self._floats = synopsis.layout.columns(given)
        self._own_ints, self._own_floats = layout.columns(given)
        synopsis.dependents.append(self)

    def measures(self, ints: Int64Array, floats: Float64Array) -> tuple[Int64Array, Float64Array]:
        """The columns that are asked for, of rows of the part."""
        own_ints, own_floats = self._layout.empty(len(ints))
        own_ints[:, self._own_ints] = ints[:, self._ints]
        own_floats[:, self._own_floats] = floats[:, self._floats]
        return own_ints, own_floats

    def learn(self, groups: GroupTable) -> None:
        """Give groups that are new in the part their place."""
        known, size = len(self.place), self.synopsis.groups.size
        if size > known:
            keys = self.synopsis.groups.keys_of(np.arange(known, size))
            place = groups.encode(keys) if keys else np.zeros(1, dtype=np.int64)
            self.place = np.concatenate([self.place, place])

    def look_back(self, groups: int) -> None:
        """Know of each group here which one of the part it is."""
        if groups > len(self.back):
            self.back = np.full(max(groups, 2 * len(self.back)), -1, dtype=np.int64)
            self._seen = 0
        self.back[self.place[self._seen :]] = np.arange(self._seen, len(self.place))
        self._seen = len(self.place)

    def totals(self) -> Int64Array:
        """Nothing is kept by the slots of the part, so it may forget any."""
        return self.synopsis.layout.empty(0)[0]

    def renumber(self, slots: Int64Array) -> None:
        self.move(self.place[slots[slots < len(self.place)]])

    def move(self, place: Int64Array) -> None:
        """Its groups have other places."""
        self.place = place
        self.back = np.zeros(0, dtype=np.int64)
        self._seen = 0

    def leave(self) -> None:
        self.synopsis.dependents.remove(self)


class CombinedWindow:
    """The totals of a window of one length, per group."""

    def __init__(self, synopsis: Combined, key: WindowKey) -> None:
        self._synopsis = synopsis
        self._key = key
        self.ints, self.floats = synopsis.layout.empty(0)
        self.positions = [(base.log.base, base.log.base) for base in synopsis.bases]

    @property
    def nbytes(self) -> int:
        return self.ints.nbytes + self.floats.nbytes

    def renumber(self, slots: Int64Array) -> None:
        self.ints, self.floats = self.ints[slots], self.floats[slots]

    def advance(self, boundary: int) -> None:
        """Make the window that of `boundary`, which is on an edge and not before the last one."""
        combined = self._synopsis
        windows = [base.window(self._key) for base in combined.bases]
        for window in windows:
            window.advance(boundary)
        combined.learn()
        missing = combined.groups.size - len(self.ints)
        if missing > 0:
            ints, floats = combined.layout.empty(max(missing, len(self.ints)))
            self.ints = np.concatenate([self.ints, ints])
            self.floats = np.concatenate([self.floats, floats])
        positions = [window.positions[0] for window in windows]
        slots = combined.moved(self.positions, positions)
        totals = [(window.ints, window.floats) for window in windows]
        self.ints[slots], self.floats[slots] = combined.put_together(slots, totals)
        self.positions = positions


class Combined:
    """`parts` are synopses of the same grouping; those with the sign −1 are taken away.

    Where the cover of `spec` says so they have the same rows, and each gives other measures.
    """

    def __init__(self, spec: SynopsisSpec, parts: Sequence[tuple[BasicIntervalSynopsis, int]]) -> None:
        self.spec = spec
        self.layout = Layout.of(spec.measures)
        self.ops = self.layout.ops
        self.groups = GroupTable([ARROW_TYPES[key.type] for key in spec.keys])
        is_beside = spec.cover is not None and spec.cover.beside
        self.members = []
        left = list(spec.measures)
        for synopsis, sign in parts:
            # Beside each other, each gives what those before it have not.
            own = [measure for measure in left if not is_beside or measure in synopsis.spec.measures]
            self.members.append(Member(synopsis, sign, self.layout, own))
            left = [measure for measure in left if not is_beside or measure not in own]
        if is_beside and left:
            raise InternalError(f"no part has {left[0]}")
        self.windows: dict[WindowKey, CombinedWindow] = {}
        self.dependents: list[Dependent] = []
        # Strings and values are not put together.
        self.words: dict[int, Words] = {}
        self.values: dict[Scalar | Sketched, ValueCounts] = {}
        self.frequent: dict[AggregateCall, FrequentItems] = {}
        # There are no rows of its own to keep an index of.
        self.filters: Filters | None = None

    @property
    def bases(self) -> list[BasicIntervalSynopsis]:
        return [member.synopsis for member in self.members]

    def window(self, key: WindowKey) -> CombinedWindow:
        """The window of that length, made on first use."""
        if key not in self.windows:
            self.windows[key] = CombinedWindow(self, key)
        return self.windows[key]

    def seal(self, through: int) -> None:
        for base in self.bases:
            base.seal(through)

    def move_to(self, boundary: int) -> None:
        for base in self.bases:
            base.move_to(boundary)

    def learn(self) -> None:
        """Take in the groups that parts have now."""
        for member in self.members:
            member.learn(self.groups)
        for member in self.members:
            member.look_back(self.groups.size)

    def moved(self, before: Sequence[tuple[int, int]], now: Sequence[tuple[int, int]]) -> Int64Array:
        """The groups in panes that entered or left between two states of a window."""
        marks = np.zeros(self.groups.size, dtype=np.bool_)
        for member, (left, right), (new_left, new_right) in zip(self.members, before, now, strict=True):
            log = member.synopsis.log
            marks[member.place[log.slots_between(left, new_left)]] = True
            marks[member.place[log.slots_between(right, new_right)]] = True
        return np.flatnonzero(marks)

    def put_together(
        self, slots: Int64Array, totals: Sequence[tuple[Int64Array, Float64Array]]
    ) -> tuple[Int64Array, Float64Array]:
        """The measures of some groups, from those that the parts have of all of theirs."""
        ints, floats = self.layout.empty(len(slots))
        nowhere = np.zeros_like(ints)
        for member, (part_ints, part_floats) in zip(self.members, totals, strict=True):
            sources = member.back[slots]
            # What the part has no totals of is nothing.
            rows = np.flatnonzero((sources >= 0) & (sources < len(part_ints)))
            own_ints, own_floats = member.measures(part_ints[sources[rows]], part_floats[sources[rows]])
            panes, count = np.zeros(len(rows), np.int64), len(rows)
            if member.sign > 0:
                kernels.enter(rows, panes, own_ints, own_floats, 0, count, self.ops, ints, floats, nowhere)
            else:
                stale = np.zeros(len(slots), dtype=np.bool_)
                kernels.leave(rows, panes, own_ints, 0, count, self.ops, False, ints, nowhere, stale)
        return ints, floats

    def between(self, left: int, right: int) -> Totals:
        """The measures of all groups over the window between two edges."""
        totals = [base.between(left, right) for base in self.bases]
        self.learn()
        return Totals(*self.put_together(np.arange(self.groups.size), [(t.ints, t.floats) for t in totals]))

    def forget_windows(self, asked: set[WindowKey]) -> None:
        """Other windows are not asked for any more."""
        self.windows = {key: window for key, window in self.windows.items() if key in asked}

    def trim(self) -> None:
        """Forget groups that no part has and that are in no answer, once they are the greater part."""
        if not self.spec.keys or self.groups.size < _LEAST_TO_COMPACT:
            return
        self.learn()
        used = np.zeros(self.groups.size, dtype=np.bool_)
        for member in self.members:
            used[member.place] = True
        for matrix in self._matrices():
            used[np.flatnonzero(matrix[: len(used), 0])] = True
        slots = np.flatnonzero(used)
        if 2 * len(slots) >= self.groups.size:
            return
        keys = self.groups.keys_of(slots)
        place = np.full(self.groups.size, -1, dtype=np.int64)
        self.groups = GroupTable(self.groups.types)
        place[slots] = self.groups.encode(keys)
        for member in self.members:
            member.move(place[member.place])
        for window in self.windows.values():
            window.renumber(slots[slots < len(window.ints)])
        for dependent in self.dependents:
            dependent.renumber(slots)

    def _matrices(self) -> Iterator[Int64Array]:
        yield from (window.ints for window in self.windows.values())
        yield from (dependent.totals() for dependent in self.dependents)

    def leave(self) -> None:
        """It is not read any more."""
        for member in self.members:
            member.leave()

    @property
    def live_rows(self) -> int:
        """It has no rows of its own."""
        return 0

    @property
    def nbytes(self) -> int:
        places = sum(member.place.nbytes + member.back.nbytes for member in self.members)
        windows = sum(window.nbytes for window in self.windows.values())
        totals = sum(dependent.totals().nbytes for dependent in self.dependents)
        return self.groups.nbytes + places + windows + totals


Synopsis = BasicIntervalSynopsis | Combined
AnyWindow = Sliding | Looked | CombinedWindow
