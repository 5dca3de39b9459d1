"""Nodes in lists, one for each bucket: what L-, H- and UH-INDEX have in common.

Lists are linked both ways, so that a node that is known leaves in O(1).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.indexes.domain import Ints
from sash.indexes.hash_storage import bucket_of
from sash.indexes.storage import NULL_NODE
from sash.indexes.value_index import KeyedIndex, has_node, take_node
from sash.state.jit import kernel
from sash.state.keytable import grown
from sash.state.lexicon import Moved


@kernel
def _link(node: int, after: int, bucket: int, heads: Ints, following: Ints, before: Ints) -> None:
    """Put a node into a list behind `after`, or in front of all (−1)."""
    if after < 0:
        then = heads[bucket]
        heads[bucket] = node
    else:
        then = following[after]
        following[after] = node
    following[node] = then
    before[node] = after
    if then >= 0:
        before[then] = node


@kernel
def _seek(
    key: int, bucket: int, keys: Ints, heads: Ints, following: Ints, is_sorted: bool
) -> tuple[int, int]:
    """The node of a key or −1, and the node behind which it belongs."""
    node, last = heads[bucket], -1
    if not is_sorted:
        while node >= 0 and keys[node] != key:
            node = following[node]
        return node, -1
    while node >= 0 and keys[node] < key:
        last, node = node, following[node]
    if node >= 0 and keys[node] == key:
        return node, last
    return -1, last


@kernel
def _enter_all(
    ordinals: Ints,
    begin: int,
    is_sorted: bool,
    keys: Ints,
    heads: Ints,
    following: Ints,
    before: Ints,
    room: Ints,
    free: Ints,
    nodes: Ints,
    fresh: Ints,
    count: Ints,
) -> int:
    for i in range(begin, len(ordinals)):
        bucket = bucket_of(ordinals[i], len(heads))
        node, last = _seek(ordinals[i], bucket, keys, heads, following, is_sorted)
        if node < 0:
            if not has_node(room, len(keys)):
                return i
            node = take_node(room, free)
            keys[node] = ordinals[i]
            _link(node, last, bucket, heads, following, before)
            fresh[count[0]] = i
            count[0] += 1
        nodes[i] = node
    return len(ordinals)


@kernel
def _find_all(ordinals: Ints, is_sorted: bool, keys: Ints, heads: Ints, following: Ints, out: Ints) -> None:
    for i in range(len(ordinals)):
        bucket = bucket_of(ordinals[i], len(heads))
        out[i] = _seek(ordinals[i], bucket, keys, heads, following, is_sorted)[0]


@kernel
def _unlink_all(nodes: Ints, keys: Ints, heads: Ints, following: Ints, before: Ints) -> None:
    for i in range(len(nodes)):
        node = nodes[i]
        last, then = before[node], following[node]
        if last >= 0:
            following[last] = then
        else:
            heads[bucket_of(keys[node], len(heads))] = then
        if then >= 0:
            before[then] = last


@kernel
def _relink(nodes: Ints, is_sorted: bool, keys: Ints, heads: Ints, following: Ints, before: Ints) -> None:
    for i in range(len(nodes)):
        bucket = bucket_of(keys[nodes[i]], len(heads))
        last = -1
        if is_sorted:
            _, last = _seek(keys[nodes[i]], bucket, keys, heads, following, True)
        _link(nodes[i], last, bucket, heads, following, before)


@kernel
def _walk(heads: Ints, following: Ints, keys: Ints, counts: Ints, low: int, high: int, out: Ints) -> int:
    """The nodes with tuples and keys from low to high, bucket by bucket."""
    found = 0
    for bucket in range(len(heads)):
        node = heads[bucket]
        while node >= 0:
            if counts[node] > 0 and low <= keys[node] <= high:
                out[found] = node
                found += 1
            node = following[node]
    return found


class BucketIndex(KeyedIndex):
    """`buckets` lists, or as many as there are nodes where it is None; `is_sorted`: each list ascends."""

    def __init__(self, type_: pa.DataType, *, buckets: int | None, is_sorted: bool, sides: int = 1) -> None:
        super().__init__(type_, sides=sides)
        self._is_sorted = is_sorted
        self._grows = buckets is None
        self._heads: Ints = np.full(buckets or self.capacity, -1, dtype=np.int64)
        self._following: Ints = np.full(self.capacity, -1, dtype=np.int64)
        self._before: Ints = np.full(self.capacity, -1, dtype=np.int64)

    def _enter(self, ordinals: Ints, begin: int, nodes: Ints, fresh: Ints, count: Ints) -> int:
        return _enter_all(
            ordinals,
            begin,
            self._is_sorted,
            self.keys,
            self._heads,
            self._following,
            self._before,
            self._room,
            self._free,
            nodes,
            fresh,
            count,
        )

    def _find(self, ordinals: Ints) -> Ints:
        out = np.empty(len(ordinals), dtype=np.int64)
        _find_all(ordinals, self._is_sorted, self.keys, self._heads, self._following, out)
        return out

    def _unlink(self, nodes: Ints) -> None:
        _unlink_all(nodes, self.keys, self._heads, self._following, self._before)

    def _recode(self, moved: Moved) -> None:
        # Another label belongs into another bucket.
        self._link_again(np.flatnonzero(self._is_linked), len(self._heads))

    def _link_again(self, nodes: Ints, buckets: int) -> None:
        self._heads = np.full(buckets, -1, dtype=np.int64)
        # Descending, so that a sorted list takes each node in front.
        nodes = nodes[np.argsort(self.keys[nodes])[::-1]]
        _relink(nodes, self._is_sorted, self.keys, self._heads, self._following, self._before)

    def _span(self, low: int, high: int, side: int) -> Ints:
        out = np.empty(self.kinds[side], dtype=np.int64)
        found = out[: _walk(self._heads, self._following, self.keys, self.counts[side], low, high, out)]
        if len(self._heads) == 1 and self._is_sorted:
            return found
        # Buckets that ascend are runs, which a stable sort merges.
        return found[np.argsort(self.keys[found], kind="stable" if self._is_sorted else "quicksort")]

    def _grow(self) -> None:
        super()._grow()
        self._following = grown(self._following, self.capacity, -1)
        self._before = grown(self._before, self.capacity, -1)
        if self._grows:
            # Every node but NULL is in use, or there would be room.
            self._link_again(np.arange(NULL_NODE + 1, int(self._room[0])), self.capacity)

    @property
    def nbytes(self) -> int:
        lists = self._heads.nbytes + self._following.nbytes + self._before.nbytes
        return super().nbytes + lists
