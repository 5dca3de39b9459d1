"""Live strings by number, in order: a label for each, so that labels compare as the strings do.

A string is known while there are rows with it, and has one number all the while. Labels leave gaps: a new
string takes one between its neighbours', and only where there is no room left all labels are dealt anew
(list labelling). Strings compare byte by byte. Cost: a hash per row, O(log n) per new string.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sash.errors import InternalError
from sash.state.countedtree import (
    CHILD,
    ENTRY,
    GREATEST,
    LEAST,
    SECOND,
    SIZE,
    THIRD,
    CountedTree,
    Tree,
    at_or_after,
    is_leaf,
    length_of,
    root_of,
    select,
)
from sash.state.fingerprints import Bytes, fingerprint, string_buffers
from sash.state.jit import kernel
from sash.state.keytable import KeyTable, grown
from sash.state.rowstore import Strings

Ints = npt.NDArray[np.int64]
_LIMIT = 1 << 62
_STRIDE = 1 << 32


class Moved(NamedTuple):
    """Labels that were dealt anew: the old ones in order, and the new ones."""

    old: Ints
    new: Ints


@kernel
def _new_numbers(numbers: Ints, known: npt.NDArray[np.bool_], fresh: Ints, rows: Ints) -> int:
    """Numbers that are not known yet, each once, and a row that has it; they are known then."""
    count = 0
    for i in range(len(numbers)):
        number = numbers[i]
        if number >= 0 and not known[number]:
            known[number] = True
            fresh[count] = number
            rows[count] = i
            count += 1
    return count


@kernel
def _use(numbers: Ints, signs: Ints, uses: Ints, emptied: Ints) -> int:
    """Count the uses of words; gives how many have none left."""
    count = 0
    for i in range(len(numbers)):
        if numbers[i] >= 0:
            uses[numbers[i]] += signs[i]
    for i in range(len(numbers)):
        number = numbers[i]
        if number >= 0 and uses[number] <= 0:
            if uses[number] < 0:
                return -1
            # Marked, so that it is found once; reset when it is released.
            uses[number] = GREATEST
            emptied[count] = number
            count += 1
    return count


@kernel
def _is_less(
    data: Bytes, start: int, stop: int, heap: Bytes, places: Ints, lengths: Ints, number: int
) -> bool:
    """Whether a word of `data` is less than the one with a number."""
    place, length = places[number], lengths[number]
    common = min(stop - start, length)
    for k in range(common):
        if data[start + k] != heap[place + k]:
            return bool(data[start + k] < heap[place + k])
    return bool(stop - start < length)


@kernel
def _ranks(
    offsets: npt.NDArray[np.int32],
    data: Bytes,
    tree: Tree,
    heap: Bytes,
    places: Ints,
    lengths: Ints,
    out: Ints,
) -> None:
    """How many known words are less than each of some words that are not known."""
    for i in range(len(out)):
        node = root_of(tree)
        less = 0
        while True:
            low, high = 0, length_of(tree, node)
            while low < high:
                middle = (low + high) >> 1
                number = tree[node, THIRD + ENTRY * middle]
                if _is_less(data, offsets[i], offsets[i + 1], heap, places, lengths, number):
                    high = middle
                else:
                    low = middle + 1
            if is_leaf(tree, node):
                less += low
                break
            at = max(low - 1, 0)
            for k in range(at):
                less += tree[node, SIZE + ENTRY * k]
            node = tree[node, CHILD + ENTRY * at]
        out[i] = less


@kernel
def _deal(ranks: Ints, known: int, tree: Tree, labels: Ints) -> bool:
    """Labels for new words in order, spread evenly over their gaps; False where a gap is too small."""
    i = 0
    while i < len(ranks):
        stop = i
        while stop < len(ranks) and ranks[stop] == ranks[i]:
            stop += 1
        span = (stop - i + 1) * _STRIDE
        low, high = -(span >> 1), span - (span >> 1)
        if ranks[i] > 0:
            node, at = select(tree, ranks[i] - 1)
            low = tree[node, SECOND + ENTRY * at]
            high = min(low + span, _LIMIT)
        if ranks[i] < known:
            node, at = select(tree, ranks[i])
            high = tree[node, SECOND + ENTRY * at]
            if ranks[i] == 0:
                low = max(high - span, -_LIMIT)
        step = (high - low) // (stop - i + 1)
        if step < 1:
            return False
        for k in range(i, stop):
            low += step
            labels[k] = low
        i = stop
    return True


@kernel
def _numbers_of(labels: Ints, tree: Tree, out: Ints) -> None:
    for i in range(len(labels)):
        node, at = at_or_after(tree, 0, labels[i], LEAST)
        out[i] = tree[node, THIRD + ENTRY * at]


class Lexicon:
    def __init__(self) -> None:
        self._keys = KeyTable()
        capacity = self._keys.capacity
        self._strings = Strings(pa.string(), capacity)
        self._known = np.zeros(capacity, dtype=np.bool_)
        self._uses = np.zeros(capacity, dtype=np.int64)
        self._labels = np.zeros(capacity, dtype=np.int64)
        self._order = CountedTree()

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def nbytes(self) -> int:
        arrays = self._known.nbytes + self._uses.nbytes + self._labels.nbytes
        return self._keys.nbytes + self._strings.nbytes + self._order.nbytes + arrays

    def enter(self, words: pa.Array) -> tuple[Ints, Moved | None]:
        """The number of each string (−1 for NULL); those that are not known are put in."""
        numbers = np.full(len(words), -1, dtype=np.int64)
        if words.null_count:
            present = np.flatnonzero(words.is_valid().to_numpy(zero_copy_only=False))
            words = words.take(pa.array(present))
            numbers[present] = found = self._keys.intern(fingerprint([words], len(words)))
        else:
            numbers = found = self._keys.intern(fingerprint([words], len(words)))
        self._grow()
        fresh = np.empty(len(found), dtype=np.int64)
        rows = np.empty(len(found), dtype=np.int64)
        count = _new_numbers(found, self._known, fresh, rows)
        if not count:
            return numbers, None
        return numbers, self._put_in(fresh[:count], words.take(pa.array(rows[:count])))

    def _grow(self) -> None:
        capacity = self._keys.capacity
        if capacity > len(self._known):
            self._known = grown(self._known, capacity, False)
            self._uses = grown(self._uses, capacity, 0)
            self._labels = grown(self._labels, capacity, 0)
            self._strings.grow(capacity)

    def _put_in(self, numbers: Ints, words: pa.Array) -> Moved | None:
        order = np.asarray(pc.sort_indices(words)).astype(np.int64)
        numbers, words = numbers[order], words.take(pa.array(order))
        offsets, data = string_buffers(words)
        ranks = np.empty(len(words), dtype=np.int64)
        strings = self._strings
        _ranks(offsets, data, self._order.tree, strings._heap, strings._places, strings._lengths, ranks)
        labels = np.empty(len(words), dtype=np.int64)
        moved = None
        known = len(self._keys) - len(words)
        if not _deal(ranks, known, self._order.tree, labels):
            moved = self._relabel()
            if not _deal(ranks, known, self._order.tree, labels):
                raise InternalError("there are more strings than labels")
        self._known[numbers] = False
        self._strings.put(numbers, words, self._known)
        self._known[numbers] = True
        self._labels[numbers] = labels
        ones = np.ones(len(words), dtype=np.int64)
        self._order.add(np.zeros(len(words), dtype=np.int64), labels, numbers, ones)
        return moved

    def _relabel(self) -> Moved:
        """Deal all labels anew, evenly over the middle half of what there is."""
        _, old, numbers, _ = self._order.entries()
        step = (_LIMIT // 2) // (len(old) + 1)
        new: Ints = (np.arange(len(old), dtype=np.int64) - len(old) // 2) * step
        self._labels[numbers] = new
        self._order.recode(SECOND, old, new)
        return Moved(old, new)

    def labels(self, numbers: Ints) -> Ints:
        """The label of each number; anything for −1."""
        return self._labels[numbers]

    def words(self, numbers: Ints) -> pa.Array:
        return self._strings.get(numbers)

    def words_of(self, labels: Ints) -> pa.Array:
        """The strings with some labels."""
        numbers = np.empty(len(labels), dtype=np.int64)
        _numbers_of(labels, self._order.tree, numbers)
        return self._strings.get(numbers)

    def use(self, numbers: Ints, signs: Ints) -> None:
        """Rows with these strings come and go; strings without rows are forgotten."""
        emptied = np.empty(len(numbers), dtype=np.int64)
        count = _use(numbers, signs, self._uses, emptied)
        if count < 0:
            raise InternalError("a negative tuple takes back a value that is not there")
        gone = emptied[:count]
        if count:
            self._uses[gone] = 0
            self._known[gone] = False
            self._strings.free(gone)
            self._order.remove(np.zeros(count, dtype=np.int64), self._labels[gone], gone)
            self._keys.release(gone)

    def table(self) -> pa.Table:
        """All strings in order, and how many rows have each."""
        _, _, numbers, _ = self._order.entries()
        return pa.table({"word": self._strings.get(numbers), "uses": self._uses[numbers]})

    def load(self, words: pa.Array, uses: Ints) -> None:
        numbers, _ = self.enter(words)
        self._uses[numbers] = uses
