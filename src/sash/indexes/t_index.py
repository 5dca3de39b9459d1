"""T-INDEX: a search tree of values with their counts (003, section 5.2).

A counted B-tree (published: an AVL tree; any self-balancing one will do) has the values in order, each
with its node. How many tuples are under a branch is brought up to date when a quantile is asked for, for
those values whose count has changed since the last time, so windows of which no quantile is asked do not
pay for it.

Needs: an order, which all CQL types have; works well in all situations. Time: O(log D) to find a value and
to find the value of a rank, O(D) to walk in order. Space: O(D), about 80 bytes a value.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.indexes.domain import Bools, Ints
from sash.indexes.storage import NULL_NODE, BasicWindow, Nodes
from sash.indexes.value_index import KeyedIndex, has_node, take_node
from sash.state.countedtree import (
    CHILD,
    ENTRY,
    FIRST,
    SECOND,
    CountedTree,
    Tree,
    has_room,
    insert,
    is_leaf,
    length_of,
    remove,
    root_of,
    select,
)
from sash.state.jit import kernel
from sash.state.keytable import grown
from sash.state.lexicon import Moved

_DEEPEST = 64


@kernel
def _place_after(tree: Tree, node: int, key: int) -> int:
    """How many entries of a node of the tree have a key up to `key`."""
    low, high = 0, length_of(tree, node)
    while low < high:
        middle = (low + high) >> 1
        if tree[node, FIRST + ENTRY * middle] <= key:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _seek(tree: Tree, key: int) -> int:
    """The number that stands beside a key, or −1."""
    node = root_of(tree)
    while not is_leaf(tree, node):
        node = tree[node, CHILD + ENTRY * max(_place_after(tree, node, key) - 1, 0)]
    at = _place_after(tree, node, key) - 1
    if at >= 0 and tree[node, FIRST + ENTRY * at] == key:
        return int(tree[node, SECOND + ENTRY * at])
    return -1


@kernel
def _enter_all(
    ordinals: Ints,
    begin: int,
    tree: Tree,
    keys: Ints,
    room: Ints,
    free: Ints,
    nodes: Ints,
    fresh: Ints,
    count: Ints,
) -> int:
    for i in range(begin, len(ordinals)):
        node = _seek(tree, ordinals[i])
        if node < 0:
            if not has_node(room, len(keys)) or not has_room(tree):
                return i
            node = take_node(room, free)
            keys[node] = ordinals[i]
            insert(tree, ordinals[i], node, 0, 0)
            fresh[count[0]] = i
            count[0] += 1
        nodes[i] = node
    return len(ordinals)


@kernel
def _find_all(ordinals: Ints, tree: Tree, out: Ints) -> None:
    for i in range(len(ordinals)):
        out[i] = _seek(tree, ordinals[i])


@kernel
def _unlink_all(nodes: Ints, keys: Ints, weights: Ints, tree: Tree) -> None:
    for i in range(len(nodes)):
        node = nodes[i]
        # An entry leaves the tree when one is taken from a last one.
        insert(tree, keys[node], node, 0, 1 - weights[node])
        remove(tree, keys[node], node, 0)
        weights[node] = 0


@kernel
def _note(nodes: Nodes, is_pending: Bools, pending: Ints, about: Ints) -> None:
    for i in range(len(nodes)):
        node = nodes[i]
        if node != NULL_NODE and not is_pending[node]:
            is_pending[node] = True
            pending[about[0]] = node
            about[0] += 1


@kernel
def _weigh(nodes: Ints, keys: Ints, counts: Ints, weights: Ints, is_pending: Bools, tree: Tree) -> None:
    for i in range(len(nodes)):
        node = nodes[i]
        is_pending[node] = False
        change = counts[node] - weights[node]
        if change != 0:
            insert(tree, keys[node], node, 0, change)
            weights[node] += change


@kernel
def _walk(tree: Tree, counts: Ints, low: int, high: int, out: Ints) -> int:
    """The nodes with tuples and keys from low to high, in order."""
    found = 0
    path = np.empty(_DEEPEST, dtype=np.int64)
    places = np.empty(_DEEPEST, dtype=np.int64)
    depth = 0
    path[0] = root_of(tree)
    places[0] = max(_place_after(tree, path[0], low) - 1, 0)
    while depth >= 0:
        node, at = path[depth], places[depth]
        if at == length_of(tree, node) or (at > 0 and tree[node, FIRST + ENTRY * at] > high):
            depth -= 1
            continue
        places[depth] += 1
        if is_leaf(tree, node):
            number = tree[node, SECOND + ENTRY * at]
            if low <= tree[node, FIRST + ENTRY * at] <= high and counts[number] > 0:
                out[found] = number
                found += 1
        else:
            depth += 1
            path[depth] = tree[node, CHILD + ENTRY * at]
            places[depth] = max(_place_after(tree, path[depth], low) - 1, 0)
    return found


class TIndex(KeyedIndex):
    name = "T-INDEX"

    def __init__(self, type_: pa.DataType, *, sides: int = 1) -> None:
        super().__init__(type_, sides=sides)
        self._tree = CountedTree()
        # What the tree knows of the counts of side 0; None until the first quantile is asked for.
        self._weights: Ints = np.zeros(self.capacity, dtype=np.int64)
        self._is_pending: Bools | None = None
        self._pending: Ints = np.zeros(0, dtype=np.int64)
        self._pending_count = np.zeros(1, dtype=np.int64)

    def _enter(self, ordinals: Ints, begin: int, nodes: Ints, fresh: Ints, count: Ints) -> int:
        return _enter_all(
            ordinals, begin, self._tree.tree, self.keys, self._room, self._free, nodes, fresh, count
        )

    def _make_room(self) -> None:
        super()._make_room()
        if not has_room(self._tree.tree):
            self._tree.grow()

    def _find(self, ordinals: Ints) -> Ints:
        out = np.empty(len(ordinals), dtype=np.int64)
        _find_all(ordinals, self._tree.tree, out)
        return out

    def _unlink(self, nodes: Ints) -> None:
        if self._is_pending is not None:
            # They may be among those that wait, with the count 0.
            self._bring_up_to_date()
        _unlink_all(nodes, self.keys, self._weights, self._tree.tree)

    def _recode(self, moved: Moved) -> None:
        self._tree.recode(FIRST, moved.old, moved.new)

    def _span(self, low: int, high: int, side: int) -> Ints:
        out = np.empty(self.kinds[side], dtype=np.int64)
        return out[: _walk(self._tree.tree, self.counts[side], low, high, out)]

    # ---------------------------------------------------------------- ranks

    def add(self, basic: BasicWindow, side: int = 0) -> None:
        super().add(basic, side)
        self._note(basic, side)

    def take(self, basic: BasicWindow, side: int = 0) -> None:
        super().take(basic, side)
        self._note(basic, side)

    def _note(self, basic: BasicWindow, side: int) -> None:
        if self._is_pending is not None and side == 0:
            _note(basic.nodes, self._is_pending, self._pending, self._pending_count)

    def select(self, number: int, side: int = 0) -> int:
        if side != 0:
            return super().select(number, side)
        if self._is_pending is None:
            self._is_pending = np.zeros(self.capacity, dtype=np.bool_)
            self._pending = np.zeros(self.capacity, dtype=np.int64)
            nodes = np.flatnonzero(self._is_linked)
            self._pending[: len(nodes)] = nodes
            self._pending_count[0] = len(nodes)
        self._bring_up_to_date()
        node, at = select(self._tree.tree, number)
        return int(self._tree.tree[node, SECOND + ENTRY * at])

    def _bring_up_to_date(self) -> None:
        assert self._is_pending is not None
        nodes = self._pending[: int(self._pending_count[0])]
        _weigh(nodes, self.keys, self.counts[0], self._weights, self._is_pending, self._tree.tree)
        self._pending_count[0] = 0

    def _grow(self) -> None:
        super()._grow()
        self._weights = grown(self._weights, self.capacity, 0)
        if self._is_pending is not None:
            self._is_pending = grown(self._is_pending, self.capacity, False)
            self._pending = grown(self._pending, self.capacity, 0)

    @property
    def nbytes(self) -> int:
        waiting = self._pending.nbytes + (0 if self._is_pending is None else self._is_pending.nbytes)
        return super().nbytes + self._tree.nbytes + self._weights.nbytes + waiting
