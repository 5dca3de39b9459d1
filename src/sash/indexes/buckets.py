"""Nodes in lists, one for each bucket: what L-, H- and UH-INDEX have in common.

Lists are linked both ways, so that a node that is known leaves in O(1). Where there are as many buckets as
nodes and the keys lie close together (lengths, ports, codes of words), an array says which node each possible
key has, and nothing is searched.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.indexes.domain import Ints
from sash.indexes.hash_storage import bucket_of
from sash.indexes.storage import NULL_NODE, Nodes
from sash.indexes.value_index import KeyedIndex, has_node, take_node
from sash.state.countedtree import LEAST
from sash.state.fingerprints import mix_a
from sash.state.jit import kernel
from sash.state.keytable import grown
from sash.state.lexicon import Moved

# So many low bits of a key are its place among its neighbours.
_NEAR = 9
# Keys lie close together in a range of so many times as many.
_CLOSE = 4
_LEAST_WIDTH = 1024


@kernel
def _home(key: int, buckets: int) -> int:
    """The bucket of a key. Neighbours among keys are neighbours there if the buckets are a power of two.

    Values come in order, so most of what they need is in the cache then. Keys that share their low bits are
    spread by their high ones.
    """
    if buckets & (buckets - 1):
        return bucket_of(key, buckets)
    return int((key ^ np.int64(mix_a(np.uint64(key >> _NEAR)))) & (buckets - 1))


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
    first: int,
    of_key: Nodes,
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
    """The nodes of keys, new ones where there are none; gives how many were done before room ran out.

    Where keys lie close together, `of_key` has the node of each from `first` on.
    """
    is_close = len(of_key) > 0
    for i in range(begin, len(ordinals)):
        node = int(of_key[ordinals[i] - first]) if is_close else -1
        if node < 0:
            bucket = _home(ordinals[i], len(heads))
            node, last = _seek(ordinals[i], bucket, keys, heads, following, is_sorted)
            if node < 0:
                if not has_node(room, len(keys)):
                    return i
                node = take_node(room, free)
                keys[node] = ordinals[i]
                _link(node, last, bucket, heads, following, before)
                if is_close:
                    of_key[ordinals[i] - first] = node
                fresh[count[0]] = i
                count[0] += 1
        nodes[i] = node
    return len(ordinals)


@kernel
def _find_all(ordinals: Ints, is_sorted: bool, keys: Ints, heads: Ints, following: Ints, out: Ints) -> None:
    for i in range(len(ordinals)):
        bucket = _home(ordinals[i], len(heads))
        out[i] = _seek(ordinals[i], bucket, keys, heads, following, is_sorted)[0]


@kernel
def _unlink_all(nodes: Ints, keys: Ints, heads: Ints, following: Ints, before: Ints) -> None:
    for i in range(len(nodes)):
        node = nodes[i]
        last, then = before[node], following[node]
        if last >= 0:
            following[last] = then
        else:
            heads[_home(keys[node], len(heads))] = then
        if then >= 0:
            before[then] = last


@kernel
def _relink(nodes: Ints, is_sorted: bool, keys: Ints, heads: Ints, following: Ints, before: Ints) -> None:
    for i in range(len(nodes)):
        bucket = _home(keys[nodes[i]], len(heads))
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
        # The node of each key from `_first` on, −1 where there is none; empty where keys do not lie close.
        self._of_key: Nodes = np.zeros(0, dtype=np.int32)
        self._first = 0
        # Whether they do is asked again when there are so many nodes; it falls with each that goes.
        self._far_until = 0

    def _enter(self, ordinals: Ints, begin: int, nodes: Ints, fresh: Ints, count: Ints) -> int:
        if self._grows and begin == 0:
            self._make_places(ordinals)
        return _enter_all(
            ordinals,
            begin,
            self._is_sorted,
            self._first,
            self._of_key,
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

    def _make_places(self, ordinals: Ints) -> None:
        """Let each of these keys have a place, if they and those that there are lie close together."""
        if not len(ordinals) or (not len(self._of_key) and self.nodes < self._far_until):
            return
        least, greatest = int(ordinals.min()), int(ordinals.max())
        if self._first <= least and greatest < self._first + len(self._of_key):
            return
        linked = np.flatnonzero(self._is_linked)
        known = self.keys[linked]
        least, greatest = int(known.min(initial=least)), int(known.max(initial=greatest))
        width = greatest - least + 1
        # Room on both sides, so that keys that drift do not ask for another array each time.
        spare = (_CLOSE * max(len(linked), len(ordinals)) + _LEAST_WIDTH - width) // 2
        if spare < width // 8:
            self._of_key = np.zeros(0, dtype=np.int32)
            self._far_until = 2 * self.nodes
            return
        self._first = max(least - spare, LEAST)
        self._of_key = np.full(width + 2 * spare, -1, dtype=np.int32)
        self._of_key[known - self._first] = linked

    def _find(self, ordinals: Ints) -> Ints:
        out = np.empty(len(ordinals), dtype=np.int64)
        _find_all(ordinals, self._is_sorted, self.keys, self._heads, self._following, out)
        return out

    def _unlink(self, nodes: Ints) -> None:
        self._far_until -= len(nodes)
        if len(self._of_key):
            self._of_key[self.keys[nodes] - self._first] = -1
        _unlink_all(nodes, self.keys, self._heads, self._following, self._before)

    def _recode(self, moved: Moved) -> None:
        # Another label belongs into another bucket, and another place.
        self._of_key = np.zeros(0, dtype=np.int32)
        self._far_until = 0
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
        return super().nbytes + lists + self._of_key.nbytes
