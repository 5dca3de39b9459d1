"""Rows of equal key, newest first: the index by which windows are probed.

A key has a chain of slots. Where rows leave in the order in which they came, a probe stops at the first row
that is gone; elsewhere it looks at all of them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sash.state.fingerprints import Keys
from sash.state.jit import kernel
from sash.state.keytable import KeyTable, grown

Ints = npt.NDArray[np.int64]


@kernel
def _append(slots: Ints, numbers: Ints, heads: Ints, following: Ints, before: Ints, owner: Ints) -> None:
    for i in range(slots.shape[0]):
        slot, number = slots[i], numbers[i]
        head = heads[number]
        following[slot] = head
        before[slot] = -1
        owner[slot] = number
        if head >= 0:
            before[head] = slot
        heads[number] = slot


@kernel
def _remove(slots: Ints, heads: Ints, following: Ints, before: Ints, owner: Ints, emptied: Ints) -> int:
    count = 0
    for i in range(slots.shape[0]):
        slot = slots[i]
        number = owner[slot]
        if number < 0:
            continue
        after = following[slot]
        if before[slot] >= 0:
            following[before[slot]] = after
        else:
            heads[number] = after
            if after < 0:
                emptied[count] = number
                count += 1
        if after >= 0:
            before[after] = before[slot]
        owner[slot] = -1
    return count


class Chains:
    """Slots by key. Rows that no key may match (NULL in a join) are simply not put in."""

    def __init__(self) -> None:
        self.keys = KeyTable()
        self.heads = np.full(self.keys.capacity, -1, dtype=np.int64)
        self.following = np.full(64, -1, dtype=np.int64)
        self.before = np.full(64, -1, dtype=np.int64)
        self.owner = np.full(64, -1, dtype=np.int64)

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.heads.nbytes + 3 * self.following.nbytes

    def add(self, slots: Ints, keys: Keys) -> Ints:
        """Put rows in front of the chains of their keys; gives the numbers of the keys."""
        numbers = self.keys.intern(keys)
        if len(slots):
            self.heads = grown(self.heads, self.keys.capacity, -1)
            needed = int(slots.max()) + 1
            if needed > len(self.following):
                size = 1 << (needed - 1).bit_length()
                self.following = grown(self.following, size, -1)
                self.before = grown(self.before, size, -1)
                self.owner = grown(self.owner, size, -1)
            _append(slots, numbers, self.heads, self.following, self.before, self.owner)
        return numbers

    def remove(self, slots: Ints) -> None:
        """Take rows out, those that are in; keys without rows are forgotten."""
        self.keys.release(self.unlink(slots))

    def unlink(self, slots: Ints) -> Ints:
        """Take rows out and give the numbers of keys that have none left, which stay known."""
        slots = slots[slots < len(self.owner)]
        emptied = np.empty(len(slots), dtype=np.int64)
        count = _remove(slots, self.heads, self.following, self.before, self.owner, emptied)
        return emptied[:count]
