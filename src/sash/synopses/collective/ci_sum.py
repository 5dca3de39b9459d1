"""CI-SUM and CI-COUNT: groups whose sum or count over a suffix window is beyond a threshold (004 section 4).

A group is a row of positions, one for each `unit` of what it has summed up; for COUNT one for each row.
Counted from the newest, positions are divided into levels: p of one position, p of two, p of four, …. In
each level one position has a number that is a multiple of the level's size, and its time is kept. More than
v came after the instant x if the v-th newest position is later than x, and some position of a level near v
tells that: a sorted bag of all groups' times of that level gives the groups at once. When a group grows, a
time moves to a higher level only when the position reaches it, so most updates change few levels.

The answer is a superset: all groups that pass, and some that miss the threshold by less than the share ε ≈
2/p of it (and by two units). `bound` says what every candidate surely passes. `are_sure` tells, from a
level just beyond the threshold, which of them pass anyway; a look-up of the others in any other synopsis
makes the answer exact.

Both directions are answered. Below a threshold, groups without rows in the window are no answer; groups
with late enough rows are compared with those whose level is old, from whichever side there are fewer.

Times are those of panes or of tuples, or numbers of tuples; a batch is in order of time.

Needs: values that are not negative. Time: a row changes p·(1 + log₂ a) times, amortised, a being its value
in units, and as many places of the tree as there are watched levels among them; a look-up costs O(log K)
and its candidates. Space: 8 bytes per group and level, p levels for each doubling of the greatest sum; per
group and watched level 8 bytes and an entry of the tree, 40 bytes at a fill of three eighths to one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.errors import AlgebraError
from sash.operators.operator import State
from sash.plan.having import Comparison, Threshold
from sash.state.countedtree import GREATEST, LEAST, CountedTree, Tree, has_room, insert, rank, remove
from sash.state.jit import kernel
from sash.state.keytable import grown
from sash.synopses.cells import roomier
from sash.synopses.collective.bags import third_parts

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

NEVER = LEAST
"""The time of a level that has no position yet."""
_NOT_FILED = LEAST + 1
# The bag of the groups' newest times; those of levels have their numbers.
_NEWEST = -1
_MOST_POSITIONS = 1e15


@kernel
def size_of(level: int, p: int) -> int:
    return 1 << (level // p)


@kernel
def nearer(level: int, p: int) -> int:
    """How many positions are nearer to the newest than those of a level."""
    size = size_of(level, p)
    return p * (size - 1) + (level % p) * size


@kernel
def level_at(distance: int, p: int) -> int:
    """The level of the position that is the distance-th newest."""
    # Classes of p levels begin after p·(2^j − 1) positions.
    size = 1
    doubled = 0
    while distance > p * (2 * size - 1):
        size *= 2
        doubled += 1
    return int(doubled * p + (distance - p * (size - 1) - 1) // size)


@kernel
def _advance(stamps: Ints, old: int, new: int, time: int, p: int) -> int:
    """Positions old + 1 … new of a group come at `time`; gives how many levels may have changed."""
    last = 0
    while last < 62 and (new + p) >> last > (old + p) >> last:
        last += 1
    top = min(last * p, stamps.shape[0])
    for level in range(top - 1, -1, -1):
        size = size_of(level, p)
        position = (new - nearer(level, p)) // size * size
        if position < 1:
            continue
        if position > old:
            stamps[level] = time
        else:
            stamps[level] = stamps[level_at(old - position + 1, p)]
    return int(top)


@kernel
def advance_all(
    slots: Ints,
    times: Ints,
    weights: Floats,
    unit: float,
    p: int,
    stamps: Ints,
    positions: Ints,
    rests: Floats,
    newest: Ints,
    reach: Ints,
    touched: Ints,
) -> int:
    """Take a batch; gives how many slots are touched. `reach` has how many levels of each may change."""
    count = 0
    for i in range(len(slots)):
        slot = slots[i]
        rest = rests[slot] + weights[i] / unit
        steps = int(rest)
        rests[slot] = rest - steps
        changed = 0
        if steps > 0:
            changed = _advance(stamps[slot], positions[slot], positions[slot] + steps, times[i], p)
            positions[slot] += steps
        newest[slot] = times[i]
        if reach[slot] < 0:
            touched[count] = slot
            count += 1
        reach[slot] = max(reach[slot], changed)
    return count


@kernel
def _refile(tree: Tree, bag: int, slot: int, old: int, new: int) -> None:
    if old != _NOT_FILED:
        remove(tree, bag, old, slot)
    if new != _NOT_FILED:
        insert(tree, bag, new, slot, 1)


@kernel
def file_all(
    begin: int,
    touched: Ints,
    count: int,
    tree: Tree,
    levels: Ints,
    filed: Ints,
    stamps: Ints,
    newest: Ints,
    reach: Ints,
    files_never: bool,
) -> int:
    """Bring the tree to what was touched, from `begin` on; gives how far it came before the tree was full."""
    for i in range(begin, count):
        slot = touched[i]
        for column in range(len(levels)):
            level = levels[column]
            old = filed[slot, column]
            new = newest[slot] if level < 0 else stamps[slot, level]
            if new == NEVER and not files_never:
                new = _NOT_FILED
            if level >= reach[slot] and not (files_never and old == _NOT_FILED):
                break
            if old != new:
                if not has_room(tree):
                    return i
                _refile(tree, level, slot, old, new)
                filed[slot, column] = new
        reach[slot] = -1
    return count


@kernel
def count_late(tree: Tree, bags: Ints, edges: Ints, begins: Ints, offsets: Ints) -> None:
    """For each query where its late entries begin in the tree, and how many all queries before have."""
    for i in range(len(bags)):
        begins[i] = rank(tree, bags[i], edges[i], GREATEST)
        offsets[i + 1] = offsets[i] + rank(tree, bags[i], GREATEST, GREATEST) - begins[i]


@kernel
def write_late(
    tree: Tree,
    begins: Ints,
    offsets: Ints,
    edges: Ints,
    sure: Ints,
    stamps: Ints,
    slots: Ints,
    is_sure: npt.NDArray[np.bool_],
) -> None:
    for i in range(len(begins)):
        third_parts(tree, begins[i], slots[offsets[i] : offsets[i + 1]])
        for k in range(offsets[i], offsets[i + 1]):
            is_sure[k] = sure[i] >= 0 and stamps[slots[k], sure[i]] > edges[i]


@dataclass(frozen=True, slots=True)
class Found:
    """Candidates of many look-ups, those of look-up i from offsets[i] on; where `is_sure`, they pass."""

    offsets: Ints
    slots: Ints
    is_sure: npt.NDArray[np.bool_]


class CollectiveSums:
    """`unit` is None for counts, which are exact in themselves; `reach` is the longest window.

    With `only`, there are candidates for those thresholds alone: levels beyond them are not kept, and newest
    times are not sorted unless those need it, so groups that rest are let go of by renumbering alone.
    """

    def __init__(
        self, p: int, reach: int, unit: float | None = None, only: Sequence[Threshold] | None = None
    ) -> None:
        self.p = p
        self.reach = reach
        self.unit = unit
        self.slots = 0
        self.now = LEAST
        self._levels: list[int] = [_NEWEST] if only is None else []
        self._files_never = False
        # What is computed of a threshold: the level that is asked, and the one that makes sure.
        self._places: dict[Threshold, tuple[int, int | None]] = {}
        self._most_levels: int | None = None
        self._clear()
        if only is not None:
            for threshold in only:
                self.watch(threshold)
            self._most_levels = max(self.stamps.shape[1], max(self._levels, default=_NEWEST) + 1)

    @classmethod
    def within(cls, epsilon: float, reach: int, unit: float | None = None) -> CollectiveSums:
        """An index whose candidates miss a threshold by less than the share `epsilon` of it."""
        return cls(math.ceil(2 / epsilon), reach, unit)

    def _clear(self) -> None:
        self._tree = CountedTree()
        self.stamps = np.full((self.slots, self.p), NEVER, dtype=np.int64)
        self._filed = np.full((self.slots, len(self._levels)), _NOT_FILED, dtype=np.int64)
        self.positions = np.zeros(self.slots, dtype=np.int64)
        self.rests = np.zeros(self.slots)
        self.newest = np.full(self.slots, NEVER, dtype=np.int64)
        self._touches = np.full(self.slots, -1, dtype=np.int64)

    # ---------------------------------------------------------------- updates

    def update(self, slots: Ints, times: Ints, weights: Ints | Floats) -> None:
        """Rows in order of time, none before the last one: what each adds to its group."""
        if len(slots) == 0:
            return
        given = np.ascontiguousarray(weights, dtype=np.float64)
        unit = 1.0 if self.unit is None else self.unit
        if not (given.min() >= 0 and given.sum() / unit < _MOST_POSITIONS):
            raise AlgebraError(
                "a collective index of sums was given a value that it cannot count in its units",
                expected=f"values from 0 up, together less than {_MOST_POSITIONS * unit:.1e}",
                hint="answer from the sums of all groups",
            )
        self.reserve(int(slots.max()) + 1)
        if self.stamps.shape[1] != self._most_levels:
            self._fit(int(self.positions.max()) + int(given.sum() / unit) + 1)
        touched = np.empty(len(slots), dtype=np.int64)
        count = advance_all(
            slots,
            times,
            given,
            unit,
            self.p,
            self.stamps,
            self.positions,
            self.rests,
            self.newest,
            self._touches,
            touched,
        )
        self.now = max(self.now, int(times[-1]))
        self._file(touched, count)

    def _file(self, touched: Ints, count: int) -> None:
        levels = np.array(self._levels, dtype=np.int64)
        done = 0
        while True:
            done = file_all(
                done,
                touched,
                count,
                self._tree.tree,
                levels,
                self._filed,
                self.stamps,
                self.newest,
                self._touches,
                self._files_never,
            )
            if done == count:
                return
            self._tree.grow()

    def _fit(self, positions: int) -> None:
        """Levels enough for so many positions of one group."""
        levels = self.stamps.shape[1]
        while levels != self._most_levels and nearer(levels, self.p) < positions:
            levels += self.p
        if levels > self.stamps.shape[1]:
            more = np.full((len(self.stamps), levels - self.stamps.shape[1]), NEVER, dtype=np.int64)
            self.stamps = np.concatenate([self.stamps, more], axis=1)

    def reserve(self, slots: int) -> None:
        if slots > len(self.positions):
            room = roomier(self.slots, slots)
            self.stamps = grown(self.stamps, room, NEVER)
            self._filed = grown(self._filed, room, _NOT_FILED)
            self.positions = grown(self.positions, room, 0)
            self.rests = grown(self.rests, room, 0.0)
            self.newest = grown(self.newest, room, NEVER)
            self._touches = grown(self._touches, room, -1)
        self.slots = max(self.slots, slots)

    def expire(self, now: int) -> None:
        """Let go of groups that no window reaches any more."""
        self.now = max(self.now, now)
        count = self._rank(_NEWEST, now - self.reach, after=True) - self._rank(_NEWEST, NEVER, after=True)
        if count == 0:
            return
        dead = self._between(_NEWEST, NEVER, now - self.reach)
        for column, level in enumerate(self._levels):
            times = self._filed[dead, column]
            filed = times != _NOT_FILED
            self._tree.remove(np.full(int(filed.sum()), level), times[filed], dead[filed])
        self._filed[dead] = _NOT_FILED
        self.stamps[dead] = self.newest[dead] = NEVER
        self.positions[dead] = 0
        self.rests[dead] = 0.0

    def renumber(self, slots: Ints) -> None:
        """Slot slots[i] is now slot i; the others are gone."""
        self.reserve(int(slots.max(initial=-1)) + 1)
        kept = self.stamps[slots], self.positions[slots], self.rests[slots], self.newest[slots]
        self._take(len(slots), *kept)

    def _take(self, slots: int, stamps: Ints, positions: Ints, rests: Floats, newest: Ints) -> None:
        self.slots = slots
        self._clear()
        self.stamps, self.positions, self.rests, self.newest = stamps, positions, rests, newest
        self._file_alive()

    def _file_alive(self) -> None:
        """Put into the tree whatever is not in it yet."""
        alive = np.flatnonzero(self.newest != NEVER)
        self._touches[alive] = self.stamps.shape[1]
        self._file(alive, len(alive))

    # ---------------------------------------------------------------- look-ups

    def watch(self, threshold: Threshold) -> None:
        """Keep the bag that answers a threshold; it is made when it is first asked for otherwise."""
        level, is_below = self._level(threshold), not threshold.comparison.is_upwards
        wanted = {level, _NEWEST} if is_below else {level}
        missing = sorted(wanted.difference(self._levels))
        if not missing and (self._files_never or not is_below):
            return
        if level >= self.stamps.shape[1]:
            self._fit(nearer(level + 1, self.p))
        if missing:
            self._levels += missing
            order = np.argsort(self._levels, kind="stable")
            self._levels.sort()
            columns = np.full((len(self._filed), len(missing)), _NOT_FILED, dtype=np.int64)
            self._filed = np.ascontiguousarray(np.concatenate([self._filed, columns], axis=1)[:, order])
        self._files_never |= is_below
        self._file_alive()

    def _needed(self, threshold: Threshold) -> int:
        """How many positions the window of a candidate must have (upwards), or must not have."""
        value = threshold.value
        match threshold.comparison, self.unit:
            case Comparison.MORE | Comparison.AT_MOST, None:
                return math.floor(value) + 1
            case Comparison.AT_LEAST | Comparison.LESS, None:
                return math.ceil(value)
            case Comparison.MORE | Comparison.AT_LEAST, unit:
                assert unit is not None
                return math.floor(value / unit) - 1
            case _, unit:
                assert unit is not None
                return math.ceil(value / unit) + 2

    def _level(self, threshold: Threshold) -> int:
        """The bag to ask, −1 if that is the one of newest times."""
        return self._place(threshold)[0]

    def sure_level(self, threshold: Threshold) -> int | None:
        """The level of which a position tells that a group passes: by being late or, downwards, by not."""
        return self._place(threshold)[1]

    def _place(self, threshold: Threshold) -> tuple[int, int | None]:
        if threshold not in self._places:
            self._places[threshold] = self._near_level(threshold), self._far_level(threshold)
        return self._places[threshold]

    def _near_level(self, threshold: Threshold) -> int:
        needed = self._needed(threshold)
        if needed < 1:
            return _NEWEST
        level = level_at(needed, self.p)
        if threshold.comparison.is_upwards:
            # All of its positions are among those that are needed.
            if nearer(level, self.p) + size_of(level, self.p) > needed:
                level -= 1
            return max(level, _NEWEST)
        # None of its positions is nearer.
        if nearer(level, self.p) + 1 < needed:
            level += 1
        return level

    def _far_level(self, threshold: Threshold) -> int | None:
        is_upwards = threshold.comparison.is_upwards
        needed = self._needed(threshold)
        if self.unit is not None:
            # A number of units may be one more or one less than the sum, and one more for rounding.
            needed = math.floor(threshold.value / self.unit) + (3 if is_upwards else -1)
        if needed < 1:
            return None
        level = level_at(needed, self.p)
        if is_upwards:
            return level if nearer(level, self.p) + 1 >= needed else level + 1
        if nearer(level, self.p) + size_of(level, self.p) > needed:
            level -= 1
        return level if level >= 0 else None

    def bound(self, threshold: Threshold) -> float:
        """What the aggregate of every candidate is surely above, or for `<` and `<=` surely below."""
        level = self._level(threshold)
        unit = 1.0 if self.unit is None else self.unit
        slack = 0 if self.unit is None else 1
        if threshold.comparison.is_upwards:
            return -math.inf if level < 0 else (nearer(level, self.p) - slack) * unit
        if self._needed(threshold) < 1:
            return 0.0 if self.unit is None else unit
        return (nearer(level, self.p) + size_of(level, self.p) + slack) * unit

    def candidates(self, now: int, width: int, threshold: Threshold) -> Ints:
        """A superset of the groups whose aggregate over (now − width, now] passes; nothing is after `now`."""
        self.watch(threshold)
        level, edge = self._level(threshold), now - width
        if threshold.comparison.is_upwards:
            return self._between(level, edge, GREATEST)
        if self._needed(threshold) < 1:
            return np.zeros(0, dtype=np.int64)
        late = self._rank(_NEWEST, GREATEST) - self._rank(_NEWEST, edge, after=True)
        old = self._rank(level, edge, after=True) - self._rank(level, LEAST)
        if late <= old:
            slots = self._between(_NEWEST, edge, GREATEST)
            kept: Ints = slots[self.stamps[slots, level] <= edge]
            return kept
        slots = self._between(level, LEAST, edge, is_closed=True)
        alive: Ints = slots[self.newest[slots] > edge]
        return alive

    def upwards(self, now: int, widths: Ints, thresholds: Sequence[Threshold]) -> Found:
        """`candidates` and `are_sure` of many look-ups with > and >= in one go."""
        for threshold in thresholds:
            self.watch(threshold)
        levels = (self.sure_level(threshold) for threshold in thresholds)
        sure = np.array([-1 if level is None else level for level in levels], dtype=np.int64)
        if (most := int(sure.max(initial=0))) >= self.stamps.shape[1]:
            self._fit(nearer(most + 1, self.p))
        bags = np.array([self._level(threshold) for threshold in thresholds], dtype=np.int64)
        edges = now - widths
        begins, offsets = np.empty(len(bags), dtype=np.int64), np.zeros(len(bags) + 1, dtype=np.int64)
        count_late(self._tree.tree, bags, edges, begins, offsets)
        slots = np.empty(int(offsets[-1]), dtype=np.int64)
        is_sure = np.empty(len(slots), dtype=np.bool_)
        write_late(self._tree.tree, begins, offsets, edges, sure, self.stamps, slots, is_sure)
        return Found(offsets, slots, is_sure)

    def are_sure(self, slots: Ints, now: int, width: int, threshold: Threshold) -> npt.NDArray[np.bool_]:
        """Which of some candidates pass for certain, so that only the others need be looked up."""
        level = self.sure_level(threshold)
        if level is None:
            return np.zeros(len(slots), dtype=np.bool_)
        if level >= self.stamps.shape[1]:
            self._fit(nearer(level + 1, self.p))
        is_late: npt.NDArray[np.bool_] = self.stamps[slots, level] > now - width
        return is_late if threshold.comparison.is_upwards else ~is_late

    def _rank(self, bag: int, time: int, *, after: bool = False) -> int:
        return int(rank(self._tree.tree, bag, time, GREATEST if after else LEAST))

    def _between(self, bag: int, after: int, through: int, *, is_closed: bool = False) -> Ints:
        """The slots of a bag with times in (after, through], or in [after, through]."""
        begin = self._rank(bag, after, after=not is_closed)
        found = np.empty(self._rank(bag, through, after=True) - begin, dtype=np.int64)
        third_parts(self._tree.tree, begin, found)
        return found

    # ---------------------------------------------------------------- state

    def snapshot(self) -> State:
        count, levels = self.slots, self.stamps.shape[1]
        lists = pa.FixedSizeListArray.from_arrays(pa.array(self.stamps[:count].reshape(-1)), levels)
        columns = {
            "stamps": lists,
            "position": self.positions[:count],
            "rest": self.rests[:count],
            "newest": self.newest[:count],
        }
        return {"groups": pa.table(columns), "about": pa.table({"now": [self.now], "levels": [levels]})}

    def restore(self, state: State) -> None:
        """Take up a state; only for an index that has been given nothing."""
        groups, about = state["groups"].combine_chunks(), state["about"]
        self.now, levels = about.column("now")[0].as_py(), about.column("levels")[0].as_py()
        flat = groups.column("stamps").combine_chunks().flatten().to_numpy()
        positions, rests, newest = (
            groups.column(name).to_numpy().copy() for name in ("position", "rest", "newest")
        )
        self._take(groups.num_rows, flat.reshape(-1, levels).copy(), positions, rests, newest)

    @property
    def nbytes(self) -> int:
        arrays = (self.stamps, self._filed, self.positions, self.rests, self.newest, self._touches)
        return self._tree.nbytes + sum(array.nbytes for array in arrays)
