"""HASH: an entry for each value of a basic window, found by hashing (003, section 3.2).

Buckets are sorted lists, as published; there are as many as tuples unless their number is given. Needs:
repetition within a basic window. Time: O(1 + d/h) a tuple, an access to the index for each value. Space:
O(d) a basic window, and O(d + h) while it is made: nobody searches in a basic window that is complete, so
its directory goes.
"""

from __future__ import annotations

import numpy as np

from sash.indexes.domain import Ints, Read
from sash.indexes.storage import BasicWindowStorage, Folded
from sash.state.fingerprints import mix_a
from sash.state.jit import kernel


@kernel
def bucket_of(key: int, buckets: int) -> int:
    """Where a key belongs. Labels and doubles share their low bits, so all bits are mixed first."""
    if buckets == 1:
        return 0
    return int(np.int64(mix_a(np.uint64(key)) % np.uint64(buckets)))


@kernel
def gather_equal(
    ordinals: Ints, heads: Ints, following: Ints, first: Ints, amounts: Ints, local: Ints
) -> int:
    """Number equal values alike (`local`), in order of appearance; gives how many different ones there are.

    `first` has the place at which each appears, `amounts` how often it does. Chains ascend.
    """
    count = 0
    for i in range(len(ordinals)):
        key = ordinals[i]
        bucket = bucket_of(key, len(heads))
        last, entry = -1, heads[bucket]
        while entry >= 0 and ordinals[first[entry]] < key:
            last, entry = entry, following[entry]
        if entry < 0 or ordinals[first[entry]] != key:
            following[count] = entry
            if last < 0:
                heads[bucket] = count
            else:
                following[last] = count
            entry = count
            first[entry] = i
            amounts[entry] = 0
            count += 1
        amounts[entry] += 1
        local[i] = entry
    return count


def equal_values(ordinals: Ints, buckets: int | None = None) -> tuple[Ints, Ints, Ints]:
    """For each different value where it first stands and how often; for each row the number of its value."""
    rows = len(ordinals)
    heads = np.full(buckets or max(1, rows), -1, dtype=np.int64)
    following, first, amounts, local = (np.empty(rows, dtype=np.int64) for _ in range(4))
    count = gather_equal(ordinals, heads, following, first, amounts, local)
    return first[:count].copy(), amounts[:count].copy(), local


class HashStorage(BasicWindowStorage):
    name = "HASH"

    def __init__(self, buckets: int | None = None) -> None:
        self._buckets = buckets

    def fold(self, read: Read) -> Folded:
        first, amounts, _ = equal_values(read.ordinals, self._buckets)
        return Folded(read.ordinals[first], read.holders[first], amounts)
