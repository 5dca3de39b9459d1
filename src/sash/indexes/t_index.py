"""T-INDEX: a search tree of values with their counts (003, section 5.2).

A counted B-tree (published: an AVL tree; any self-balancing one will do) has the values in order, each with
its node. Beside it stands a hash directory, by which values that are in the tree already are found at once;
without it every value goes down the tree, as published.

A quantile that is asked for has a cursor: a key, and how many tuples have a lesser one. Tuples that come
and go correct that number by comparing keys, and the next question moves the cursor by the few values
between it and the quantile of now.

Needs: an order, which all CQL types have; works well in all situations. Time: O(log D) to put a value in,
O(1) to find one (without directory O(log D)), O(D) to walk in order; a quantile costs a comparison a tuple
and O(log D) a value that it moves by. Space: O(D), about 100 bytes a value.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa

from sash.indexes.buckets import BucketIndex
from sash.indexes.domain import Ints
from sash.indexes.storage import NULL_NODE, BasicWindow, Nodes
from sash.indexes.value_index import NO_AMOUNTS, has_node, take_node
from sash.state.countedtree import (
    CHILD,
    ENTRY,
    FIRST,
    LEAST,
    SECOND,
    CountedTree,
    Tree,
    has_room,
    insert,
    is_leaf,
    length_of,
    remove,
    root_of,
)
from sash.state.jit import kernel
from sash.state.lexicon import Moved

_DEEPEST = 64
# A cursor is moved by so many values before the whole index is passed instead: a share, and a number.
_FAR_SHARE, _FAR_LEAST = 8, 256
_MOST_CURSORS = 8


@kernel
def _places_before(tree: Tree, node: int, key: int) -> int:
    """How many entries of a node of the tree have a lesser key."""
    low, high = 0, length_of(tree, node)
    while low < high:
        middle = (low + high) >> 1
        if tree[node, FIRST + ENTRY * middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _places_through(tree: Tree, node: int, key: int) -> int:
    """How many entries of a node of the tree have a key up to this one."""
    low, high = 0, length_of(tree, node)
    while low < high:
        middle = (low + high) >> 1
        if tree[node, FIRST + ENTRY * middle] <= key:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _child_of(tree: Tree, node: int, key: int) -> int:
    """The place of the child under which a key belongs."""
    return max(_places_through(tree, node, key) - 1, 0)


@kernel
def _seek(tree: Tree, key: int) -> int:
    """The number that stands beside a key, or −1."""
    node = root_of(tree)
    while not is_leaf(tree, node):
        node = tree[node, CHILD + ENTRY * _child_of(tree, node, key)]
    at = _child_of(tree, node, key)
    if at < length_of(tree, node) and tree[node, FIRST + ENTRY * at] == key:
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
            insert(tree, ordinals[i], node, 0, 1)
            fresh[count[0]] = i
            count[0] += 1
        nodes[i] = node
    return len(ordinals)


@kernel
def _insert_all(nodes: Ints, begin: int, keys: Ints, tree: Tree) -> int:
    for i in range(begin, len(nodes)):
        if not has_room(tree):
            return i
        insert(tree, keys[nodes[i]], nodes[i], 0, 1)
    return len(nodes)


@kernel
def _find_all(ordinals: Ints, tree: Tree, out: Ints) -> None:
    for i in range(len(ordinals)):
        out[i] = _seek(tree, ordinals[i])


@kernel
def _remove_all(nodes: Ints, keys: Ints, tree: Tree) -> None:
    for i in range(len(nodes)):
        remove(tree, keys[nodes[i]], nodes[i], 0)


@kernel
def _walk(tree: Tree, counts: Ints, low: int, high: int, out: Ints) -> int:
    """The nodes with tuples and keys from low to high, in order."""
    found = 0
    path = np.empty(_DEEPEST, dtype=np.int64)
    places = np.empty(_DEEPEST, dtype=np.int64)
    depth = 0
    path[0] = root_of(tree)
    places[0] = _child_of(tree, path[0], low)
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
            places[depth] = _child_of(tree, path[depth], low)
    return found


@kernel
def _up(tree: Tree, counts: Ints, cursor: Ints, number: int, steps: int) -> int:
    """Move a cursor (key, tuples below) to the value with `number` tuples before it, which is not below.

    Gives its node, or −1 after so many steps.
    """
    path = np.empty(_DEEPEST, dtype=np.int64)
    places = np.empty(_DEEPEST, dtype=np.int64)
    key, below = cursor[0], cursor[1]
    depth = 0
    path[0] = root_of(tree)
    places[0] = _child_of(tree, path[0], key)
    while depth >= 0 and steps > 0:
        node, at = path[depth], places[depth]
        if at == length_of(tree, node):
            depth -= 1
            continue
        places[depth] += 1
        if not is_leaf(tree, node):
            depth += 1
            path[depth] = tree[node, CHILD + ENTRY * at]
            places[depth] = _child_of(tree, path[depth], key)
        elif tree[node, FIRST + ENTRY * at] >= key:
            steps -= 1
            count = counts[tree[node, SECOND + ENTRY * at]]
            if number < below + count:
                cursor[0], cursor[1] = tree[node, FIRST + ENTRY * at], below
                return int(tree[node, SECOND + ENTRY * at])
            below += count
    return -1


@kernel
def _down(tree: Tree, counts: Ints, cursor: Ints, number: int, steps: int) -> int:
    """As `_up`, to a value that is below the cursor."""
    path = np.empty(_DEEPEST, dtype=np.int64)
    places = np.empty(_DEEPEST, dtype=np.int64)
    key, below = cursor[0], cursor[1]
    depth = 0
    path[0] = root_of(tree)
    places[0] = _places_before(tree, path[0], key) - 1
    while depth >= 0 and steps > 0:
        node, at = path[depth], places[depth]
        if at < 0:
            depth -= 1
            continue
        places[depth] -= 1
        if not is_leaf(tree, node):
            depth += 1
            path[depth] = tree[node, CHILD + ENTRY * at]
            places[depth] = _places_before(tree, path[depth], key) - 1
        else:
            steps -= 1
            below -= counts[tree[node, SECOND + ENTRY * at]]
            if below <= number:
                cursor[0], cursor[1] = tree[node, FIRST + ENTRY * at], below
                return int(tree[node, SECOND + ENTRY * at])
    return -1


@kernel
def _below(nodes: Nodes, amounts: Ints, is_single: bool, keys: Ints, key: int) -> int:
    """How many tuples of a basic window have a lesser key."""
    count = 0
    for i in range(len(nodes)):
        if keys[nodes[i]] < key and nodes[i] != NULL_NODE:
            count += 1 if is_single else amounts[i]
    return count


class TIndex(BucketIndex):
    name = "T-INDEX"

    def __init__(self, type_: pa.DataType, *, has_directory: bool = True, sides: int = 1) -> None:
        super().__init__(type_, buckets=None if has_directory else 1, is_sorted=False, sides=sides)
        self._has_directory = has_directory
        self._tree = CountedTree()
        # By side and share: a key, and how many tuples have a lesser one.
        self._cursors: dict[tuple[int, Fraction], Ints] = {}

    def _enter(self, ordinals: Ints, begin: int, nodes: Ints, fresh: Ints, count: Ints) -> int:
        if self._has_directory:
            return super()._enter(ordinals, begin, nodes, fresh, count)
        tree = self._tree.tree
        return _enter_all(ordinals, begin, tree, self.keys, self._room, self._free, nodes, fresh, count)

    def _make_room(self) -> None:
        super()._make_room()
        if not has_room(self._tree.tree):
            self._tree.grow()

    def _linked(self, nodes: Ints) -> None:
        if not self._has_directory:
            return
        done = 0
        while True:
            done = _insert_all(nodes, done, self.keys, self._tree.tree)
            if done == len(nodes):
                return
            self._tree.grow()

    def _find(self, ordinals: Ints) -> Ints:
        if self._has_directory:
            return super()._find(ordinals)
        out = np.empty(len(ordinals), dtype=np.int64)
        _find_all(ordinals, self._tree.tree, out)
        return out

    def _unlink(self, nodes: Ints) -> None:
        if self._has_directory:
            super()._unlink(nodes)
        _remove_all(nodes, self.keys, self._tree.tree)

    def _recode(self, moved: Moved) -> None:
        if self._has_directory:
            super()._recode(moved)
        self._tree.recode(FIRST, moved.old, moved.new)
        # Their keys may be of words that are gone.
        self._cursors.clear()

    def _span(self, low: int, high: int, side: int) -> Ints:
        out = np.empty(self.kinds[side], dtype=np.int64)
        return out[: _walk(self._tree.tree, self.counts[side], low, high, out)]

    # ------------------------------------------------------------- quantiles

    def add(self, basic: BasicWindow, side: int = 0) -> None:
        super().add(basic, side)
        self._correct(basic, side, 1)

    def take(self, basic: BasicWindow, side: int = 0) -> None:
        super().take(basic, side)
        self._correct(basic, side, -1)

    def _correct(self, basic: BasicWindow, side: int, sign: int) -> None:
        amounts = NO_AMOUNTS if basic.amounts is None else basic.amounts
        for (of, _), cursor in self._cursors.items():
            if of == side:
                lesser = _below(basic.nodes, amounts, basic.amounts is None, self.keys, cursor[0])
                cursor[1] += sign * lesser

    def quantile(self, share: Fraction, number: int, side: int = 0) -> int:
        cursor = self._cursors.get((side, share))
        if cursor is not None:
            steps = max(_FAR_LEAST, self.nodes // _FAR_SHARE)
            move = _up if number >= cursor[1] else _down
            node = move(self._tree.tree, self.counts[side], cursor, number, steps)
            if node >= 0:
                return node
        node = super().quantile(share, number, side)
        if cursor is not None or len(self._cursors) < _MOST_CURSORS:
            nodes = self._span(LEAST, int(self.keys[node]), side)
            below = int(self.counts[side][nodes[:-1]].sum())
            self._cursors[side, share] = np.array([self.keys[node], below], dtype=np.int64)
        return node

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._tree.nbytes
