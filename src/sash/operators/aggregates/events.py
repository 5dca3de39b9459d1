"""The changes of a batch in the order of time, and when they are looked at.

An aggregate runs through the events once. Its value is taken before the first event for each group that is
touched, and after the last event of each group at each instant. These samples have places of their own: first
those before, in the order in which groups are touched, then those after, in the order of time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sash.operators.delta import Ints
from sash.state.jit import kernel
from sash.state.keytable import grown


@dataclass(frozen=True, slots=True)
class Events:
    """`numbers` is the group of each event, `signs` ±1, `marks` the place of the sample after it, or −1.

    `groups` are the groups that are touched; the sample at a place i < len(groups) is that before, of
    groups[i]. `owners` is, for each event, where its group stands among them. `ts` are the instants, where
    they are known.
    """

    numbers: Ints
    signs: Ints
    marks: Ints
    owners: Ints
    groups: Ints
    samples: int
    capacity: int
    ts: Ints | None = None

    def __len__(self) -> int:
        return len(self.numbers)

    def by_group(self) -> Ints:
        """The events group by group, each in the order of time: kind to the cache where state is large."""
        order = np.empty(len(self), dtype=np.int64)
        _sort_by_group(self.owners, len(self.groups), order)
        return order


@dataclass(frozen=True, slots=True)
class Touches:
    """A group at an instant at which it changes, in the order of time.

    `samples` are the places of the samples after, `previous` those of the samples that they follow.
    """

    ts: Ints
    numbers: Ints
    samples: Ints
    previous: Ints


@kernel
def _sort_by_group(owners: Ints, count: int, order: Ints) -> None:
    starts = np.zeros(count + 1, dtype=np.int64)
    for i in range(len(owners)):
        starts[owners[i] + 1] += 1
    for group in range(count):
        starts[group + 1] += starts[group]
    for i in range(len(owners)):
        order[starts[owners[i]]] = i
        starts[owners[i]] += 1


@kernel
def _groups(
    numbers: Ints, seen: Ints, places: Ints, stamp: int, owners: Ints, groups: Ints, firsts: Ints
) -> int:
    count = 0
    for i in range(len(numbers)):
        number = numbers[i]
        if seen[number] != stamp:
            seen[number] = stamp
            places[number] = count
            groups[count] = number
            firsts[count] = i
            count += 1
        owners[i] = places[number]
    return count


@kernel
def _mark(
    ts: Ints, numbers: Ints, owners: Ints, count: int, marks: Ints, at: Ints, touched: Ints, previous: Ints
) -> int:
    latest = np.full(count, -1, dtype=np.int64)
    instant = 0
    for i in range(len(ts) - 1, -1, -1):
        if i + 1 < len(ts) and ts[i] != ts[i + 1]:
            instant += 1
        place = owners[i]
        if latest[place] != instant:
            latest[place] = instant
            marks[i] = 0
        else:
            marks[i] = -1
    for place in range(count):
        latest[place] = place
    touches = 0
    for i in range(len(ts)):
        if marks[i] >= 0:
            place = owners[i]
            marks[i] = count + touches
            at[touches] = ts[i]
            touched[touches] = numbers[i]
            previous[touches] = latest[place]
            latest[place] = count + touches
            touches += 1
    return touches


class Schedule:
    """Finds the samples of batches. It remembers nothing but scratch space by group."""

    def __init__(self) -> None:
        self._seen = np.zeros(0, dtype=np.int64)
        self._places = np.zeros(0, dtype=np.int64)
        self._stamp = 0

    @property
    def nbytes(self) -> int:
        return self._seen.nbytes + self._places.nbytes

    def plan(self, ts: Ints, numbers: Ints, signs: Ints, capacity: int) -> tuple[Events, Touches, Ints]:
        """From events in the order of time: the samples, and for each touched group its first event."""
        self._seen = grown(self._seen, capacity, 0)
        self._places = grown(self._places, capacity, 0)
        self._stamp += 1
        size = len(ts)
        owners, groups, firsts, marks = (np.empty(size, dtype=np.int64) for _ in range(4))
        at, touched, previous = (np.empty(size, dtype=np.int64) for _ in range(3))
        count = _groups(numbers, self._seen, self._places, self._stamp, owners, groups, firsts)
        total = _mark(ts, numbers, owners, count, marks, at, touched, previous)
        events = Events(numbers, signs, marks, owners, groups[:count].copy(), count + total, capacity, ts)
        places = np.arange(count, count + total, dtype=np.int64)
        touches = Touches(at[:total], touched[:total], places, previous[:total])
        return events, touches, firsts[:count]

    def still(self, number: int, capacity: int) -> tuple[Events, Touches]:
        """No events, but a look at one group."""
        none = np.zeros(0, dtype=np.int64)
        events = Events(none, none, none, none, np.array([number], dtype=np.int64), 1, capacity, none)
        return events, Touches(none, none, none, none)


def own(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array, or a copy that may be written to: kernels are compiled for those alone."""
    return array if array.flags.writeable and array.flags.c_contiguous else array.copy()
