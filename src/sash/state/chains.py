"""Rows of equal key, newest first: the index by which windows are probed.

A key has a chain of slots. Where rows leave in the order in which they came, a probe stops at the first row
that is gone; elsewhere it looks at all of them.

Beside the chains, rows are counted by a hash of their key, in at least as many buckets as there can be rows.
So how many partners a tuple will find can be foretold for the price of one look, and never too few.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sash.state.fingerprints import Keys
from sash.state.jit import kernel
from sash.state.keytable import KeyTable, grown

Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint32]
_FEWEST_BUCKETS = 64
_MIX = np.uint64(0x9E3779B97F4A7C15)


def hashes_of(keys: Keys) -> Hashes:
    """32 bits for each key; equal keys have equal ones."""
    mixed = (keys.first ^ (keys.second * _MIX)) * _MIX
    return (mixed >> np.uint64(32)).astype(np.uint32)


@kernel
def _count(hashes: Hashes, counted: Hashes, buckets: Ints, added: Ints) -> Ints:
    """For each hash the rows of its bucket, with those that are added."""
    mask, few = buckets.shape[0] - 1, added.shape[0] - 1
    for i in range(counted.shape[0]):
        added[counted[i] & few] += 1
    found = np.empty(hashes.shape[0], dtype=np.int64)
    for i in range(hashes.shape[0]):
        found[i] = buckets[hashes[i] & mask] + added[hashes[i] & few]
    return found


@kernel
def _count_all(slots: Ints, owner: Ints, hash_of: Hashes, buckets: Ints) -> None:
    mask = buckets.shape[0] - 1
    for i in range(slots.shape[0]):
        if owner[slots[i]] >= 0:
            buckets[hash_of[slots[i]] & mask] += 1


@kernel
def _append(
    slots: Ints,
    numbers: Ints,
    hashes: Hashes,
    heads: Ints,
    following: Ints,
    before: Ints,
    owner: Ints,
    hash_of: Hashes,
    buckets: Ints,
) -> None:
    mask = buckets.shape[0] - 1
    for i in range(slots.shape[0]):
        slot, number = slots[i], numbers[i]
        hash_of[slot] = hashes[i]
        buckets[hashes[i] & mask] += 1
        head = heads[number]
        following[slot] = head
        before[slot] = -1
        owner[slot] = number
        if head >= 0:
            before[head] = slot
        heads[number] = slot


@kernel
def _remove(
    slots: Ints,
    heads: Ints,
    following: Ints,
    before: Ints,
    owner: Ints,
    hash_of: Hashes,
    buckets: Ints,
    emptied: Ints,
) -> int:
    count = 0
    mask = buckets.shape[0] - 1
    for i in range(slots.shape[0]):
        slot = slots[i]
        number = owner[slot]
        if number < 0:
            continue
        buckets[hash_of[slot] & mask] -= 1
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
        self._hash_of: Hashes = np.zeros(64, dtype=np.uint32)
        self._buckets = np.zeros(_FEWEST_BUCKETS, dtype=np.int64)

    @property
    def nbytes(self) -> int:
        chains = self.heads.nbytes + 3 * self.following.nbytes
        return self.keys.nbytes + chains + self._hash_of.nbytes + self._buckets.nbytes

    def expected(self, hashes: Hashes, added: Hashes) -> Ints:
        """At most how many rows each key has, by their hashes, when those of `added` are in, too."""
        size = max(_FEWEST_BUCKETS, 1 << max(0, len(added) - 1).bit_length())
        return _count(hashes, added, self._buckets, np.zeros(size, dtype=np.int64))

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
                self._hash_of = grown(self._hash_of, size, 0)
                if size > len(self._buckets):
                    self._buckets = np.zeros(size, dtype=np.int64)
                    _count_all(np.arange(size), self.owner, self._hash_of, self._buckets)
            _append(
                slots,
                numbers,
                hashes_of(keys),
                self.heads,
                self.following,
                self.before,
                self.owner,
                self._hash_of,
                self._buckets,
            )
        return numbers

    def remove(self, slots: Ints) -> None:
        """Take rows out, those that are in; keys without rows are forgotten."""
        self.keys.release(self.unlink(slots))

    def unlink(self, slots: Ints) -> Ints:
        """Take rows out and give the numbers of keys that have none left, which stay known."""
        slots = slots[slots < len(self.owner)]
        emptied = np.empty(len(slots), dtype=np.int64)
        count = _remove(
            slots,
            self.heads,
            self.following,
            self.before,
            self.owner,
            self._hash_of,
            self._buckets,
            emptied,
        )
        return emptied[:count]
