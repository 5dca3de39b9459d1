"""HISTOGRAM(x): the values of each group in order, with how many rows have each.

A counted tree has the values by (group, value), equal ones as one entry with a count. A row costs O(log n), a
look what it shows and O(log n).
"""

from __future__ import annotations

import numpy as np

from sash.operators.aggregates.arguments import Given
from sash.operators.aggregates.events import Events
from sash.operators.aggregates.listed import Listed
from sash.operators.aggregates.tally import from_value_table, value_table
from sash.operators.delta import Ints
from sash.operators.operator import State
from sash.state.countedtree import (
    ENTRY,
    GREATEST,
    LEAST,
    SECOND,
    SIZE,
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
    tree: Tree,
    sample: int,
    begins: Ints,
    ends: Ints,
    values: Ints,
    counts: Ints,
    used: int,
) -> int:
    """Write a group's values behind `used`; gives what is used then."""
    begins[sample] = used
    value = LEAST
    while kinds > 0:
        node, at = at_or_after(tree, number, value, LEAST)
        stop = min(at + kinds, length_of(tree, node))
        kinds -= stop - at
        for place in range(ENTRY * at, ENTRY * stop, ENTRY):
            values[used] = tree[node, SECOND + place]
            counts[used] = tree[node, SIZE + place]
            used += 1
        # On to what comes after the last of them; after the greatest value there is nothing.
        value = values[used - 1]
        value += 1 if value < GREATEST else 0
    ends[sample] = used
    return used


@kernel
def _look_all(
    begin: int,
    groups: Ints,
    kinds: Ints,
    tree: Tree,
    begins: Ints,
    ends: Ints,
    values: Ints,
    counts: Ints,
    about: Ints,
) -> int:
    for i in range(begin, len(groups)):
        kind_count = kinds[groups[i]]
        if about[0] + kind_count > len(values):
            return i
        about[0] = _look(groups[i], kind_count, tree, i, begins, ends, values, counts, about[0])
    return len(groups)


@kernel
def _follow(
    begin: int,
    numbers: Ints,
    signs: Ints,
    ordinals: Ints,
    marks: Ints,
    kinds: Ints,
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
        if not has_room(tree) or about[0] + kinds[number] + 1 > len(values):
            return i
        if signs[i] > 0:
            if insert(tree, number, ordinals[i], 0, 1) == 1:
                kinds[number] += 1
        elif signs[i] < 0:
            left = remove(tree, number, ordinals[i], 0)
            if left < 0:
                return -1
            if left == 0:
                kinds[number] -= 1
        if marks[i] >= 0:
            about[0] = _look(number, kinds[number], tree, marks[i], begins, ends, values, counts, about[0])
    return len(numbers)


class Histograms(Listed):
    def follow(self, events: Events, given: Given) -> None:
        self._kinds = grown(self._kinds, events.capacity, 0)
        if given.moved is not None:
            self._tree.recode(SECOND, *given.moved)
        order = events.by_group()
        ordered = events.numbers[order], given.signs[order], given.ordinals[order], events.marks[order]
        kinds = self._kinds
        self._sample(
            events,
            8 * (events.samples + 1),
            lambda done, tree, samples: _look_all(done, events.groups, kinds, tree, *samples),
            lambda done, tree, samples: _follow(done, *ordered, kinds, tree, *samples),
        )

    def snapshot(self, numbers: Ints, rows: Ints) -> State:
        groups, ordinals, _, counts = self._tree.entries()
        return {"values": value_table(rows[groups], self._argument.decode(ordinals), counts)}

    def restore(self, state: State, numbers: Ints, capacity: int) -> None:
        self._kinds = grown(self._kinds, capacity, 0)
        groups, values, counts = from_value_table(state["values"])
        ordinals, _ = self._argument.encode(values)
        owners = numbers[groups]
        self._tree.add(owners, ordinals, np.zeros(len(owners), dtype=np.int64), counts)
        np.add.at(self._kinds, owners, 1)

    @property
    def entries(self) -> int:
        return len(self._tree)

    @property
    def nbytes(self) -> int:
        return self._tree.nbytes + self._kinds.nbytes
