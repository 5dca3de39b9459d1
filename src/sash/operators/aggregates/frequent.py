"""TOP(x, k): the most frequent values of each group, most frequent first, equal counts by value.

A tally has the count of each value in each group, and a counted tree the values by (group, −count, value). A
row moves one value in the tree, so it costs O(log n), and a look O(k + log n).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.errors import InternalError
from sash.operators.aggregates.arguments import Argument, Given
from sash.operators.aggregates.events import Events
from sash.operators.aggregates.json_text import json_values, pairs_text, ranges_text
from sash.operators.aggregates.measure import Measure
from sash.operators.aggregates.tally import Tally, from_value_table, value_table
from sash.operators.aggregates.values import Values
from sash.operators.delta import Bools, Ints
from sash.operators.operator import State
from sash.state.countedtree import (
    ENTRY,
    GREATEST,
    LEAST,
    SECOND,
    THIRD,
    CountedTree,
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


@kernel
def _differ(
    samples: Ints, others: Ints, begins: Ints, ends: Ints, values: Ints, counts: Ints, out: Bools
) -> None:
    for i in range(len(samples)):
        a, b = begins[samples[i]], begins[others[i]]
        length = ends[samples[i]] - a
        out[i] = length != ends[others[i]] - b
        for k in range(length):
            if out[i]:
                break
            out[i] = values[a + k] != values[b + k] or counts[a + k] != counts[b + k]


class Pairs(Values):
    """Lists of values and counts; sample i has those from begins[i] to ends[i]. An empty list is NULL.

    `ranges`: what the values 0, 1, … are called; then a list that is not empty has all of them.
    """

    def __init__(
        self,
        begins: Ints,
        ends: Ints,
        values: Ints,
        counts: Ints,
        argument: Argument,
        ranges: tuple[str, ...] | None = None,
    ) -> None:
        self._begins = begins
        self._ends = ends
        self._values = values
        self._counts = counts
        self._argument = argument
        self._ranges = ranges

    def differs(self, samples: Ints, others: Ints) -> Bools:
        out: Bools = np.empty(len(samples), dtype=np.bool_)
        _differ(samples, others, self._begins, self._ends, self._values, self._counts, out)
        return out

    def take(self, samples: Ints) -> pa.Array:
        lengths = self._ends[samples] - self._begins[samples]
        offsets = np.zeros(len(samples) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        places = np.repeat(self._begins[samples] - offsets[:-1], lengths) + np.arange(offsets[-1])
        if self._ranges is not None:
            return ranges_text(self._ranges, self._values[places], self._counts[places], offsets)
        # A value is written once, however often it stands among the samples.
        unique, which = np.unique(self._values[places], return_inverse=True)
        texts = json_values(self._argument.decode(unique)).take(pa.array(which))
        return pairs_text(texts, self._counts[places], offsets)


class Frequencies(Measure):
    def __init__(self, argument: Argument, limit: int) -> None:
        self._argument = argument
        self._limit = limit
        self._tally = Tally()
        self._kinds = np.zeros(0, dtype=np.int64)
        self._tree = CountedTree()
        self._pairs: Pairs | None = None

    def follow(self, events: Events, given: Given) -> None:
        self._kinds = grown(self._kinds, events.capacity, 0)
        if given.moved is not None:
            self._tree.recode(THIRD, *given.moved)
        places = np.flatnonzero(given.signs)
        found = self._tally.enter(events.numbers[places], given.codes[places])
        entries = np.full(len(events), -1, dtype=np.int64)
        entries[places] = found
        begins, ends = (np.zeros(events.samples, dtype=np.int64) for _ in range(2))
        size = self._limit + events.samples * min(self._limit, 8)
        values, counts = (np.zeros(size, dtype=np.int64) for _ in range(2))
        about = np.zeros(1, dtype=np.int64)
        done = 0
        while done < len(events.groups):
            done = _look_all(
                done,
                events.groups,
                self._kinds,
                self._limit,
                self._tree.tree,
                begins,
                ends,
                values,
                counts,
                about,
            )
            if done < len(events.groups):
                values, counts = grown(values, 2 * len(values), 0), grown(counts, 2 * len(counts), 0)
        order = events.by_group()
        ordered = events.numbers[order], given.signs[order], given.ordinals[order], events.marks[order]
        entries = entries[order]
        done = 0
        while done < len(events):
            done = _follow(
                done,
                *ordered,
                entries,
                self._tally.counts,
                self._kinds,
                self._limit,
                self._tree.tree,
                begins,
                ends,
                values,
                counts,
                about,
            )
            if done < 0:
                raise InternalError("a negative tuple takes back a value that is not there")
            if done < len(events):
                if about[0] + self._limit > len(values):
                    values, counts = grown(values, 2 * len(values), 0), grown(counts, 2 * len(counts), 0)
                else:
                    self._tree.grow()
        self._pairs = Pairs(begins, ends, values, counts, self._argument)
        self._tally.forget(np.unique(found[self._tally.counts[found] == 0]))

    def pairs(self) -> Pairs:
        """The samples of the last batch."""
        assert self._pairs is not None
        return self._pairs

    def settle(self) -> None:
        self._pairs = None

    def reset(self, numbers: Ints) -> None:
        self._kinds[numbers] = 0

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
