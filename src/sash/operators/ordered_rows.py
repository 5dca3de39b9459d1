"""The rows of a bag in the order of their first sort key: a tuple index, on a T-INDEX (003, 5.2 and 6).

A counted tree has the rows by (NULL or not, key, row). A row that comes or goes costs O(log n), and the first
rows are read off from the left, so that nobody sorts a window again because it has slid. Rows whose keys are
equal come in any order: whoever reads them puts those few right.

Invariant: the tree has the rows that were put in and not taken out, each once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sash.errors import InternalError
from sash.indexes.domain import Domain
from sash.lang.algebra import Field, SortKey
from sash.operators.delta import ARROW_TYPES, Bools, Ints, as_table, one_array
from sash.operators.evaluate import evaluate
from sash.state.countedtree import (
    ENTRY,
    FIRST,
    GREATEST,
    LEAST,
    SECOND,
    THIRD,
    CountedTree,
    Tree,
    at_or_after,
    length_of,
)
from sash.state.jit import kernel
from sash.state.keytable import first_of_each, grown
from sash.state.lexicon import Moved

# What is not known, and the places of NULL and of values in the order.
_UNKNOWN, _EARLY, _VALUE, _LATE = -1, 0, 1, 2


@kernel
def _read(tree: Tree, entries: int, counts: Ints, limit: int, rows: Ints, tied: Bools) -> int:
    """The first rows with so many copies, and those with the key of the last one; gives how many."""
    found, copies = 0, 0
    place, key, row = LEAST, LEAST, LEAST
    while found < entries:
        node, at = at_or_after(tree, place, key, row)
        for i in range(at, length_of(tree, node)):
            is_equal = (
                found > 0 and tree[node, FIRST + ENTRY * i] == place and tree[node, SECOND + ENTRY * i] == key
            )
            if copies >= limit and not is_equal:
                return found
            place, key = tree[node, FIRST + ENTRY * i], tree[node, SECOND + ENTRY * i]
            row = tree[node, THIRD + ENTRY * i]
            rows[found] = row
            tied[found] = is_equal
            if is_equal:
                tied[found - 1] = True
            copies += counts[row]
            found += 1
        # Numbers of rows are small: there is one after each.
        row += 1
    return found


class OrderedRows:
    """Rows are known by the numbers that a bag gives them."""

    def __init__(self, key: SortKey, fields: Sequence[Field]) -> None:
        self._key = key
        self._names = [field.name for field in fields]
        self._domain = Domain(ARROW_TYPES[key.scalar.type], self._moved)
        self._tree = CountedTree()
        self._place = np.zeros(0, dtype=np.int8)
        self._holder = np.zeros(0, dtype=np.int64)

    def know(self, numbers: Ints, columns: Sequence[pa.Array], capacity: int) -> None:
        """Learn the keys of rows, given with their columns, of a bag that has so many numbers."""
        self._place = grown(self._place, capacity, _UNKNOWN)
        self._holder = grown(self._holder, capacity, 0)
        unknown = np.flatnonzero(self._place[numbers] == _UNKNOWN)
        if not len(unknown):
            return
        added, where = first_of_each(numbers[unknown])
        rows = pa.array(unknown[where])
        table = as_table([column.take(rows) for column in columns], self._names, len(rows))
        (keys,) = evaluate(table, [self._key.scalar])
        read = self._domain.read(one_array(keys))
        self._domain.hold(read.holders)
        self._place[added] = _EARLY if self._key.nulls_first else _LATE
        there = added if read.present is None else added[read.present]
        self._place[there] = _VALUE
        self._holder[there] = read.holders

    def put(self, numbers: Ints) -> None:
        """Rows are there now."""
        self._tree.add(*self._keys(numbers), numbers, np.ones(len(numbers), dtype=np.int64))

    def take(self, numbers: Ints) -> None:
        """Rows are not there any more, but still known."""
        if not self._tree.remove(*self._keys(numbers), numbers):
            raise InternalError("a row leaves that is not among the ordered ones")

    def forget(self, numbers: Ints) -> None:
        """Rows that are not there may have their numbers given to others."""
        self._domain.release(self._holder[numbers[self._place[numbers] == _VALUE]])
        self._place[numbers] = _UNKNOWN

    def first(self, counts: Ints, limit: int | None) -> tuple[Ints, Bools]:
        """The first rows with at least `limit` copies, all that are equal to the last of them included.

        `counts` has the copies of each row. Also where keys are equal to those of the row before or after.
        """
        rows = np.empty(len(self._tree), dtype=np.int64)
        tied: Bools = np.empty(len(self._tree), dtype=np.bool_)
        wanted = GREATEST if limit is None else limit
        found = _read(self._tree.tree, len(self._tree), counts, wanted, rows, tied)
        return rows[:found], tied[:found]

    def _keys(self, numbers: Ints) -> tuple[Ints, Ints]:
        places = self._place[numbers].astype(np.int64)
        is_value = places == _VALUE
        keys = np.full(len(numbers), LEAST, dtype=np.int64)
        ordinals = self._domain.ordinals(self._holder[numbers[is_value]])
        keys[is_value] = self._in_direction(ordinals)
        return places, keys

    def _in_direction(self, ordinals: Ints) -> Ints:
        # ~x reverses the order of integers without overflow.
        return ~ordinals if self._key.is_descending else ordinals

    def _moved(self, moved: Moved) -> None:
        """Words have other labels, in the same order; NULL has none."""
        step = -1 if self._key.is_descending else 1
        old, new = (
            np.concatenate([[LEAST], self._in_direction(labels)[::step]]) for labels in (moved.old, moved.new)
        )
        self._tree.recode(SECOND, old, new)

    @property
    def nbytes(self) -> int:
        return self._tree.nbytes + self._domain.nbytes + self._place.nbytes + self._holder.nbytes
