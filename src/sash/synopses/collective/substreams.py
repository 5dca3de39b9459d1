"""R-INT by substream: the running sum of each group at the times of its own elements (004 section 4).

With it the candidates of a collective index are looked at one by one, and the naive way of answering range
conditions, which looks at every group, is this for all of them. Where panes are few and groups are in most
of them, `RInt` does the same without searching.

Needs: integers. Time: O(1) an element, amortised; a look-up O(log n) for a group with n elements. Space: 16
bytes an element in rings that double, and 40 a group.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sash.state.jit import kernel
from sash.state.keytable import grown
from sash.synopses.cells import roomier

Ints = npt.NDArray[np.int64]

_FIRST_RING = 8
# Columns of a group: where its ring begins and how long it is, its oldest element and how many there are,
# what was summed up before that.
_AT, _SIZE, _OLDEST, _COUNT, _BEFORE = 0, 1, 2, 3, 4


@kernel
def append(
    begin: int,
    slots: Ints,
    times: Ints,
    weights: Ints,
    groups: Ints,
    elements: Ints,
    used: Ints,
    totals: Ints,
    reach: int,
) -> int:
    """Take rows from `begin` on while there is room; gives how far it came."""
    for i in range(begin, len(slots)):
        slot = slots[i]
        group = groups[slot]
        while group[_COUNT] > 0:
            place = group[_AT] + (group[_OLDEST] & (group[_SIZE] - 1))
            if elements[place, 0] > times[i] - reach:
                break
            group[_BEFORE] = elements[place, 1]
            group[_OLDEST] += 1
            group[_COUNT] -= 1
        if group[_COUNT] == group[_SIZE]:
            size = max(_FIRST_RING, 2 * group[_SIZE])
            if used[0] + size > len(elements):
                return i
            for k in range(group[_COUNT]):
                place = group[_AT] + ((group[_OLDEST] + k) & (group[_SIZE] - 1))
                target = used[0] + ((group[_OLDEST] + k) & (size - 1))
                elements[target, 0], elements[target, 1] = elements[place, 0], elements[place, 1]
            group[_AT], group[_SIZE] = used[0], size
            used[0] += size
        totals[slot] += weights[i]
        place = group[_AT] + ((group[_OLDEST] + group[_COUNT]) & (group[_SIZE] - 1))
        elements[place, 0], elements[place, 1] = times[i], totals[slot]
        group[_COUNT] += 1
    return len(slots)


@kernel
def since(slots: Ints, edge: int, groups: Ints, elements: Ints, totals: Ints, out: Ints) -> None:
    """out[i] is what the elements of slots[i] after `edge` sum up to."""
    for i in range(len(slots)):
        group = groups[slots[i]]
        low, high = 0, group[_COUNT]
        while low < high:
            middle = (low + high) >> 1
            place = group[_AT] + ((group[_OLDEST] + middle) & (group[_SIZE] - 1))
            if elements[place, 0] <= edge:
                low = middle + 1
            else:
                high = middle
        before = group[_BEFORE]
        if low > 0:
            before = elements[group[_AT] + ((group[_OLDEST] + low - 1) & (group[_SIZE] - 1)), 1]
        out[i] = totals[slots[i]] - before


class Substreams:
    """`reach` is the longest window."""

    def __init__(self, reach: int) -> None:
        self.reach = reach
        self.slots = 0
        self._groups = np.zeros((0, 5), dtype=np.int64)
        self._totals = np.zeros(0, dtype=np.int64)
        self._elements = np.zeros((1024, 2), dtype=np.int64)
        self._used = np.zeros(1, dtype=np.int64)

    def update(self, slots: Ints, times: Ints, weights: Ints) -> None:
        """Rows in order of time, none before the last one."""
        self.reserve(int(slots.max(initial=-1)) + 1)
        done = 0
        while True:
            done = append(
                done,
                slots,
                times,
                weights,
                self._groups,
                self._elements,
                self._used,
                self._totals,
                self.reach,
            )
            if done == len(slots):
                return
            self.grow()

    def grow(self) -> None:
        """Make room for more elements."""
        self._elements = grown(self._elements, 2 * len(self._elements), 0)

    def lookup(self, now: int, width: int, slots: Ints | None = None) -> Ints:
        """The sums over (now − width, now] of all groups, or of those in `slots`; nothing is after `now`."""
        asked = np.arange(self.slots) if slots is None else slots
        found = np.empty(len(asked), dtype=np.int64)
        since(asked, now - width, self._groups, self._elements, self._totals, found)
        return found

    def reserve(self, slots: int) -> None:
        if slots > len(self._totals):
            room = roomier(self.slots, slots)
            self._groups = grown(self._groups, room, 0)
            self._totals = grown(self._totals, room, 0)
        self.slots = max(self.slots, slots)

    @property
    def nbytes(self) -> int:
        return self._groups.nbytes + self._totals.nbytes + self._elements.nbytes
