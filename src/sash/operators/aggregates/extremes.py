"""MIN, MAX and quantiles of rows that leave in any order: the values of each group in a counted tree.

Equal values are one entry with a count. O(log n) per row and per look. MIN and MAX remember their value and look
for it again only when it has left.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa

from sash.errors import InternalError
from sash.operators.aggregates.arguments import Argument, Given, value_table
from sash.operators.aggregates.events import Events
from sash.operators.aggregates.measure import Measure
from sash.operators.delta import Bools, Ints
from sash.operators.operator import State
from sash.state.countedtree import (
    ENTRY,
    LEAST,
    SECOND,
    CountedTree,
    Tree,
    at_or_after,
    before,
    has_room,
    insert,
    rank,
    remove,
    select,
)
from sash.state.jit import kernel
from sash.state.keytable import grown

MINIMUM = Fraction(0)
MAXIMUM = Fraction(1)
_LARGEST_DENOMINATOR = 10**9


@kernel
def _look(
    number: int, count: int, tree: Tree, part: int, whole: int, found: Ints, stale: Bools, probe: int
) -> int:
    """The value of a group at a probe; there is one."""
    if part > 0 and part < whole:
        # ⌈count · part / whole⌉, without a product that overflows.
        wanted = (count // whole) * part + ((count % whole) * part + whole - 1) // whole
        node, at = select(tree, rank(tree, number, LEAST, LEAST) + wanted - 1)
        return tree[node, SECOND + ENTRY * at]
    if stale[probe]:
        if part == 0:
            node, at = at_or_after(tree, number, LEAST, LEAST)
        else:
            node, at = before(tree, number + 1, LEAST, LEAST)
        found[probe] = tree[node, SECOND + ENTRY * at]
        stale[probe] = False
    return found[probe]


@kernel
def _look_all(
    groups: Ints, tree: Tree, counts: Ints, parts: Ints, wholes: Ints, found: Ints, stale: Bools, out: Ints
) -> None:
    for i in range(len(groups)):
        number = groups[i]
        for probe in range(len(parts)):
            out[i, probe] = 0
            if counts[number] > 0:
                out[i, probe] = _look(
                    number,
                    counts[number],
                    tree,
                    parts[probe],
                    wholes[probe],
                    found[number],
                    stale[number],
                    probe,
                )


@kernel
def _follow(
    begin: int,
    numbers: Ints,
    signs: Ints,
    ordinals: Ints,
    marks: Ints,
    tree: Tree,
    counts: Ints,
    parts: Ints,
    wholes: Ints,
    found: Ints,
    stale: Bools,
    out: Ints,
) -> int:
    """Take events from `begin` on until the tree is full; gives how far it came, −1 if a value was not there."""
    for i in range(begin, len(numbers)):
        number, value = numbers[i], ordinals[i]
        if signs[i] > 0:
            if not has_room(tree):
                return i
            insert(tree, number, value, 0, 1)
            for probe in range(len(parts)):
                if counts[number] == 0:
                    found[number, probe] = value
                    stale[number, probe] = False
                elif not stale[number, probe]:
                    if (parts[probe] == 0 and value < found[number, probe]) or (
                        parts[probe] == wholes[probe] and value > found[number, probe]
                    ):
                        found[number, probe] = value
            counts[number] += 1
        elif signs[i] < 0:
            left = remove(tree, number, value, 0)
            if left < 0:
                return -1
            counts[number] -= 1
            if left == 0:
                for probe in range(len(parts)):
                    if value == found[number, probe]:
                        stale[number, probe] = True
        if marks[i] >= 0:
            for probe in range(len(parts)):
                out[marks[i], probe] = 0
                if counts[number] > 0:
                    out[marks[i], probe] = _look(
                        number,
                        counts[number],
                        tree,
                        parts[probe],
                        wholes[probe],
                        found[number],
                        stale[number],
                        probe,
                    )
    return len(numbers)


class OrderedValues(Measure):
    """`samples` has a column of ordinals for each probe."""

    def __init__(self, argument: Argument) -> None:
        self._argument = argument
        self._tree = CountedTree()
        self._probes: list[Fraction] = []
        self._counts = np.zeros(0, dtype=np.int64)
        self._found = np.zeros((0, 0), dtype=np.int64)
        self._stale: Bools = np.zeros((0, 0), dtype=np.bool_)
        self.samples = self._found

    def probe(self, fraction: Fraction) -> int:
        """Ask for the value at a fraction, 0 for the least; gives its column."""
        fraction = fraction.limit_denominator(_LARGEST_DENOMINATOR)
        if fraction not in self._probes:
            self._probes.append(fraction)
            self._found = np.zeros((0, len(self._probes)), dtype=np.int64)
            self._stale = np.zeros((0, len(self._probes)), dtype=np.bool_)
        return self._probes.index(fraction)

    def follow(self, events: Events, given: Given) -> None:
        self._grow(events.capacity)
        if given.moved is not None:
            self._tree.recode(SECOND, *given.moved)
            self._stale[:] = True
        parts = np.array([probe.numerator for probe in self._probes], dtype=np.int64)
        wholes = np.array([probe.denominator for probe in self._probes], dtype=np.int64)
        self.samples = np.empty((events.samples, len(parts)), dtype=np.int64)
        state = self._counts, parts, wholes, self._found, self._stale, self.samples
        _look_all(events.groups, self._tree.tree, *state)
        order = events.by_group()
        ordered = events.numbers[order], given.signs[order], given.ordinals[order], events.marks[order]
        done = 0
        while True:
            done = _follow(done, *ordered, self._tree.tree, *state)
            if done == len(events):
                return
            if done < 0:
                raise InternalError("a negative tuple takes back a value that is not there")
            self._tree.grow()

    def _grow(self, capacity: int) -> None:
        self._counts = grown(self._counts, capacity, 0)
        self._found = grown(self._found, capacity, 0)
        self._stale = grown(self._stale, capacity, False)

    def settle(self) -> None:
        self.samples = np.zeros((0, 0), dtype=np.int64)

    def reset(self, numbers: Ints) -> None:
        self._counts[numbers] = 0
        self._stale[numbers] = False

    def snapshot(self, numbers: Ints, rows: Ints) -> State:
        groups, ordinals, _, counts = self._tree.entries()
        values = self._argument.decode(ordinals)
        return {"values": pa.table({"group": rows[groups], "value": values, "count": counts})}

    def restore(self, state: State, numbers: Ints, capacity: int) -> None:
        self._grow(capacity)
        groups, values, counts = value_table(state["values"])
        if len(values):
            ordinals, _ = self._argument.encode(values)
            owners = numbers[groups]
            self._tree.add(owners, ordinals, np.zeros(len(owners), dtype=np.int64), counts)
            np.add.at(self._counts, owners, counts)
            self._stale[:] = True

    @property
    def entries(self) -> int:
        return self._tree.entry_count

    @property
    def nbytes(self) -> int:
        return self._tree.nbytes + self._counts.nbytes + self._found.nbytes + self._stale.nbytes
