"""TOP(x, k): the most frequent values of each group, most frequent first, equal counts by value.

A tally has the count of each value in each group, and a counted tree the values by (group, −count, value). A
row moves one value in the tree, so it costs O(log n), and a look O(k + log n).
"""

from __future__ import annotations

import numpy as np

from sash.operators.aggregates.arguments import Argument, Given
from sash.operators.aggregates.events import Events
from sash.operators.aggregates.listed import Listed
from sash.operators.aggregates.tally import Tally, from_value_table, value_table
from sash.operators.delta import Ints
from sash.operators.operator import State
from sash.state.countedtree import (
    ENTRY,
    GREATEST,
    LEAST,
    SECOND,
    THIRD,
    Tree,
    at_or_after,
    has_room,
    insert,
    length_of,
    remove,
)
from sash.state.jit import kernel
from sash.state.keytable import grown


@kernel
def _look(
    number: int,
    kinds: int,
    limit: int,
    tree: Tree,
    sample: int,
    begins: Ints,
    ends: Ints,
    values: Ints,
    counts: Ints,
    used: int,
) -> int:
    """Write a group's most frequent values behind `used`; gives what is used then."""
    begins[sample] = used
    wanted = min(kinds, limit)
    second, third = LEAST, LEAST
    while wanted > 0:
        node, at = at_or_after(tree, number, second, third)
        stop = min(at + wanted, length_of(tree, node))
        wanted -= stop - at
        for place in range(ENTRY * at, ENTRY * stop, ENTRY):
            counts[used] = -tree[node, SECOND + place]
            values[used] = tree[node, THIRD + place]
            used += 1
        # On to what comes after the last of them.
        second, third = -counts[used - 1], values[used - 1]
        if third < GREATEST:
            third += 1
        else:
            second, third = second + 1, LEAST
    ends[sample] = used
    return used


@kernel
def _look_all(
    begin: int,
    groups: Ints,
    kinds: Ints,
    limit: int,
    tree: Tree,
    begins: Ints,
    ends: Ints,
    values: Ints,
    counts: Ints,
    about: Ints,
) -> int:
    for i in range(begin, len(groups)):
        if about[0] + min(kinds[groups[i]], limit) > len(values):
            return i
        about[0] = _look(groups[i], kinds[groups[i]], limit, tree, i, begins, ends, values, counts, about[0])
    return len(groups)


@kernel
def _follow(
    begin: int,
    numbers: Ints,
    signs: Ints,
    ordinals: Ints,
    marks: Ints,
    entries: Ints,
    uses: Ints,
    kinds: Ints,
    limit: int,
    tree: Tree,
    begins: Ints,
    ends: Ints,
    values: Ints,
    counts: Ints,
    about: Ints,
) -> int:
    """Take events from `begin` on, up to where tree or samples need room; −1 if a value is missing."""
    for i in range(begin, len(numbers)):
        number = numbers[i]
        if not has_room(tree) or about[0] + min(kinds[number] + 1, limit) > len(values):
            return i
        if signs[i] != 0:
            entry = entries[i]
            count = uses[entry]
            if count > 0:
                remove(tree, number, -count, ordinals[i])
                kinds[number] -= 1
            count += signs[i]
            if count < 0:
                return -1
            if count > 0:
                insert(tree, number, -count, ordinals[i], 1)
                kinds[number] += 1
            uses[entry] = count
        if marks[i] >= 0:
            about[0] = _look(
                number, kinds[number], limit, tree, marks[i], begins, ends, values, counts, about[0]
            )
    return len(numbers)


class Frequencies(Listed):
    def __init__(self, argument: Argument, limit: int) -> None:
        super().__init__(argument)
        self._limit = limit
        self._tally = Tally()

    def follow(self, events: Events, given: Given) -> None:
        self._kinds = grown(self._kinds, events.capacity, 0)
        if given.moved is not None:
            self._tree.recode(THIRD, *given.moved)
        places = np.flatnonzero(given.signs)
        found = self._tally.enter(events.numbers[places], given.codes[places])
        entries = np.full(len(events), -1, dtype=np.int64)
        entries[places] = found
        order = events.by_group()
        ordered = events.numbers[order], given.signs[order], given.ordinals[order], events.marks[order]
        entries = entries[order]
        uses, kinds, limit = self._tally.counts, self._kinds, self._limit
        self._sample(
            events,
            limit + events.samples * min(limit, 8),
            lambda done, tree, samples: _look_all(done, events.groups, kinds, limit, tree, *samples),
            lambda done, tree, samples: _follow(done, *ordered, entries, uses, kinds, limit, tree, *samples),
        )
        self._tally.forget(np.unique(found[uses[found] == 0]))

    def snapshot(self, numbers: Ints, rows: Ints) -> State:
        groups, negative, ordinals, _ = self._tree.entries()
        values = self._argument.decode(ordinals)
        return {"values": value_table(rows[groups], values, -negative)}

    def restore(self, state: State, numbers: Ints, capacity: int) -> None:
        self._kinds = grown(self._kinds, capacity, 0)
        groups, values, counts = from_value_table(state["values"])
        ordinals, codes = self._argument.encode(values)
        owners = numbers[groups]
        entries = self._tally.enter(owners, codes)
        self._tally.counts[entries] = counts
        self._tree.add(owners, -counts, ordinals, np.ones(len(owners), dtype=np.int64))
        np.add.at(self._kinds, owners, 1)

    @property
    def entries(self) -> int:
        return len(self._tally)

    @property
    def nbytes(self) -> int:
        return self._tally.nbytes + self._kinds.nbytes + self._tree.nbytes
