"""CI-MAX and CI-MIN: groups whose extremum over a suffix window lies in a range (004, figure 1).

What matters of a group are its elements that no later one exceeds, a staircase: each is the maximum of all
windows that begin at or after the element before it on the staircase, up to itself. So it is a segment of
time (where the window may begin) at the height of its value, and segments of one group do not overlap.
Groups whose maximum since the instant x is above v are the segments over x that are higher than v: exact,
each group once.

Segments are cut into dyadic stretches of time, and each stretch has a bag of its segments sorted by height,
all bags in one counted tree. A new element removes the steps that it exceeds and adds one.

Values are integers in the order of the values they stand for (see state/ordering); CI-MIN turns them round.
Times are those of panes or of tuples; a batch is in order of time.

Needs: values that can be ordered. Exact, both directions and ranges. Time: amortised O(log R) entries of
the tree a row, R being the longest window in units of time, so O(log R · log N); a look-up O(log R · log N)
and its answer. Space: 48 bytes per step of a staircase, and for each up to 2·log₂ R + 1 entries of the
tree, 40 bytes at a fill of three eighths to one; 16 bytes per group.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.operators.operator import State
from sash.state.countedtree import GREATEST, LEAST, CountedTree, Tree, rank, recoded
from sash.state.jit import kernel
from sash.state.keytable import distinct, grown
from sash.synopses.cells import roomier
from sash.synopses.collective.bags import third_parts

Ints = npt.NDArray[np.int64]

# The bag of all steps by time, from which the old ones are let go.
_TIMES = LEAST
# Columns of a step: time, value, slot, the next older step and the next newer one, where its segment begins.
_TIME, _VALUE, _SLOT, _OLDER, _NEWER, _BEGIN = 0, 1, 2, 3, 4, 5


@kernel
def stretch_of(time: int, level: int) -> int:
    """The number of the dyadic stretch of a level that holds an instant."""
    return (time >> level) * 64 + level


@kernel
def _climb(
    begin: int,
    slots: Ints,
    times: Ints,
    values: Ints,
    steps: Ints,
    newest: Ints,
    reach: int,
    about: Ints,
    is_filed: npt.NDArray[np.bool_],
    gone: Ints,
    made: Ints,
) -> int:
    """Take rows from `begin` on while there is room for steps.

    `about` has how many steps were ever used, the first that is free, how many filed ones are gone, and how
    many were made.
    """
    for i in range(begin, len(slots)):
        if about[1] < 0 and about[0] >= len(steps):
            return i
        slot, time, value = slots[i], times[i], values[i]
        last = newest[slot]
        while last >= 0 and steps[last, _VALUE] <= value:
            if is_filed[last]:
                for c in range(6):
                    gone[about[2], c] = steps[last, c]
                gone[about[2], 6] = last
                about[2] += 1
                is_filed[last] = False
            older = steps[last, _OLDER]
            steps[last, _OLDER] = about[1]
            steps[last, _SLOT] = -1
            about[1] = last
            last = older
        start = time - reach
        if last >= 0:
            if steps[last, _TIME] == time:
                newest[slot] = last
                steps[last, _NEWER] = -1
                continue
            start = max(start, steps[last, _TIME])
        step = about[1]
        if step >= 0:
            about[1] = steps[step, _OLDER]
        else:
            step = about[0]
            about[0] += 1
        steps[step, _TIME], steps[step, _VALUE], steps[step, _SLOT] = time, value, slot
        steps[step, _OLDER], steps[step, _NEWER], steps[step, _BEGIN] = last, -1, start
        if last >= 0:
            steps[last, _NEWER] = step
        newest[slot] = step
        made[about[3]] = step
        about[3] += 1
    return len(slots)


@kernel
def _cut(segments: Ints, out: Ints) -> int:
    """The stretches of segments, as entries (stretch, height, slot)."""
    count = 0
    for i in range(len(segments)):
        at, end = segments[i, _BEGIN], segments[i, _TIME]
        while at < end:
            level = 0
            while level < 62 and (at >> level) & 1 == 0 and at + (2 << level) <= end:
                level += 1
            out[0, count] = stretch_of(at, level)
            out[1, count] = segments[i, _VALUE]
            out[2, count] = segments[i, _SLOT]
            count += 1
            at += 1 << level
    return count


@kernel
def _ranges(tree: Tree, time: int, levels: int, least: int, greatest: int, begins: Ints, counts: Ints) -> int:
    """Where the segments over an instant with heights from `least` to `greatest` stand in the tree."""
    total = 0
    for level in range(levels):
        bag = stretch_of(time, level)
        begins[level] = rank(tree, bag, least, LEAST)
        counts[level] = rank(tree, bag, greatest, GREATEST) - begins[level]
        total += counts[level]
    return total


class CollectiveExtremes:
    """`reach` is the longest window; with `is_min` it is CI-MIN."""

    def __init__(self, reach: int, *, is_min: bool = False) -> None:
        self.reach = reach
        self.is_min = is_min
        self.slots = 0
        self._levels = reach.bit_length()
        self._clear()

    def _clear(self) -> None:
        self._tree = CountedTree()
        self._steps = np.zeros((0, 6), dtype=np.int64)
        self._is_filed = np.zeros(0, dtype=np.bool_)
        self._newest = np.full(self.slots, -1, dtype=np.int64)
        self._about = np.array([0, -1, 0, 0], dtype=np.int64)
        self._count = 0

    # ---------------------------------------------------------------- updates

    def update(self, slots: Ints, times: Ints, values: Ints) -> None:
        """Rows in order of time, none before the last one; NULLs are left out."""
        if len(slots) == 0:
            return
        self.reserve(int(slots.max()) + 1)
        heights = ~values if self.is_min else values
        gone = np.empty((self._count, 7), dtype=np.int64)
        made = np.empty(len(slots), dtype=np.int64)
        self._about[2:] = 0
        done = 0
        while True:
            done = _climb(
                done,
                slots,
                times,
                heights,
                self._steps,
                self._newest,
                self.reach,
                self._about,
                self._is_filed,
                gone,
                made,
            )
            if done == len(slots):
                break
            room = max(64, 2 * len(self._steps))
            self._steps = grown(self._steps, room, -1)
            self._is_filed = grown(self._is_filed, room, False)
        self._remove(gone[: self._about[2]])
        # Some were exceeded within the batch, and their places may have been taken again.
        new = distinct(made[: self._about[3]])
        self._file(new[self._steps[new, _SLOT] >= 0])

    def _file(self, new: Ints) -> None:
        steps = self._steps[new]
        first, second, third = self._entries(steps)
        self._tree.add(first, second, third, np.ones(len(first), dtype=np.int64))
        bag = np.full(len(new), _TIMES, dtype=np.int64)
        self._tree.add(bag, steps[:, _TIME].copy(), new, np.ones(len(new), dtype=np.int64))
        self._is_filed[new] = True
        self._count += len(new)

    def _entries(self, steps: Ints) -> tuple[Ints, Ints, Ints]:
        out = np.empty((3, len(steps) * 2 * (self._levels + 1)), dtype=np.int64)
        count = _cut(steps, out)
        return out[0, :count], out[1, :count], out[2, :count]

    def _remove(self, gone: Ints) -> None:
        """Take steps out of the tree; their numbers are in the last column."""
        self._tree.remove(*self._entries(gone))
        bag = np.full(len(gone), _TIMES, dtype=np.int64)
        self._tree.remove(bag, gone[:, _TIME].copy(), gone[:, 6].copy())
        self._count -= len(gone)

    def expire(self, now: int) -> None:
        """Let go of steps that no window reaches any more."""
        tree = self._tree.tree
        begin = int(rank(tree, _TIMES, LEAST, LEAST))
        dead = np.empty(int(rank(tree, _TIMES, now - self.reach, GREATEST)) - begin, dtype=np.int64)
        third_parts(tree, begin, dead)
        if len(dead) == 0:
            return
        steps = self._steps[dead]
        self._remove(np.concatenate([steps, dead[:, None]], axis=1))
        # The oldest steps go first, so what remains of a staircase begins with a newer one that stays.
        newer = steps[:, _NEWER]
        stays = (newer >= 0) & ~np.isin(newer, dead)
        self._steps[newer[stays], _OLDER] = -1
        ends = newer < 0
        self._newest[steps[ends, _SLOT]] = -1
        self._is_filed[dead] = False
        self._steps[dead, _SLOT] = -1
        self._steps[dead[:-1], _OLDER] = dead[1:]
        self._steps[dead[-1], _OLDER] = self._about[1]
        self._about[1] = dead[0]

    def reserve(self, slots: int) -> None:
        if slots > len(self._newest):
            self._newest = grown(self._newest, roomier(self.slots, slots), -1)
        self.slots = max(self.slots, slots)

    # ---------------------------------------------------------------- look-ups

    def between(self, now: int, width: int, least: int = LEAST + 1, greatest: int = GREATEST) -> Ints:
        """The groups whose extremum over (now − width, now] is from `least` to `greatest`."""
        if self.is_min:
            least, greatest = ~greatest, ~least
        begins = np.empty(self._levels + 1, dtype=np.int64)
        counts = np.empty(self._levels + 1, dtype=np.int64)
        tree = self._tree.tree
        found = np.empty(
            int(_ranges(tree, now - width, self._levels + 1, least, greatest, begins, counts)), dtype=np.int64
        )
        at = 0
        for begin, count in zip(begins.tolist(), counts.tolist(), strict=True):
            if count:
                third_parts(tree, begin, found[at : at + count])
                at += count
        return found

    # ---------------------------------------------------------------- state

    def _alive(self) -> Ints:
        """The steps there are, in order of time."""
        alive = np.flatnonzero(self._is_filed)
        return alive[np.argsort(self._steps[alive, _TIME], kind="stable")]

    def snapshot(self) -> State:
        steps = self._steps[self._alive()]
        columns = {
            "slot": steps[:, _SLOT].copy(),
            "time": steps[:, _TIME].copy(),
            "height": steps[:, _VALUE].copy(),
        }
        return {"steps": pa.table(columns), "about": pa.table({"slots": [self.slots]})}

    def restore(self, state: State) -> None:
        """Take up a state; only for an index that has been given nothing."""
        columns = (state["steps"].column(name).to_numpy() for name in ("slot", "time", "height"))
        self._take(state["about"].column("slots")[0].as_py(), *columns)

    def _take(self, slots: int, owners: Ints, times: Ints, heights: Ints) -> None:
        """Make all anew from steps in order of time.

        The first segment of a staircase may now begin earlier, but only where no window begins any more.
        """
        self.slots = slots
        self._clear()
        self.update(owners, times, ~heights if self.is_min else heights)

    def renumber(self, slots: Ints) -> None:
        """Slot slots[i] is now slot i; the others are gone."""
        self.reserve(int(slots.max(initial=-1)) + 1)
        place = np.full(self.slots, -1, dtype=np.int64)
        place[slots] = np.arange(len(slots))
        steps = self._steps[self._alive()]
        steps = steps[place[steps[:, _SLOT]] >= 0]
        self._take(len(slots), place[steps[:, _SLOT]], steps[:, _TIME].copy(), steps[:, _VALUE].copy())

    def recode(self, old: Ints, new: Ints) -> None:
        """The values `old`, ascending, are now `new`, in the same order."""
        if self.is_min:
            old, new = ~old[::-1], ~new[::-1]
        steps = self._steps[self._alive()]
        heights = recoded(steps[:, _VALUE], old, new)
        self._take(self.slots, steps[:, _SLOT].copy(), steps[:, _TIME].copy(), heights)

    def __len__(self) -> int:
        """Steps of all staircases."""
        return self._count

    @property
    def nbytes(self) -> int:
        return self._tree.nbytes + self._steps.nbytes + self._is_filed.nbytes + self._newest.nbytes
