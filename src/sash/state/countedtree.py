"""A counted B-tree of triples of integers: any order of values under insertion and deletion in any order.

Entries stand in leaves, sorted, each with how often it is there; an inner node has, for each child, its least
entry and how many values are under it. So the least and the greatest value of a range, the number of values
before one and the value of a rank each cost one way from the root. Full nodes are split on the way down. A
node that falls below a quarter is merged with a neighbour if both together fill no more than three quarters;
then one of any two neighbours is at least three eighths full, and memory follows the number of entries.

Many small sorted bags (the values of each group) are one tree: the bag's number is the first of the three.

The whole tree is one array, a row per node, so that kernels have one thing to pass on: row 0 is about it, the
others have their length and then, per entry, the three integers, a count and a child (−1 in leaves).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sash.state.jit import kernel
from sash.state.keytable import grown

Ints = npt.NDArray[np.int64]
Tree = npt.NDArray[np.int64]

WIDTH = 32
"""Entries of a node."""
LEAST = int(np.iinfo(np.int64).min)
GREATEST = int(np.iinfo(np.int64).max)

ENTRY = 5
FIRST, SECOND, THIRD, SIZE, CHILD = 1, 2, 3, 4, 5
"""Where the parts of a node's first entry stand; those of the next one stand ENTRY places on."""
_LENGTH = 0
# Of row 0: the root, nodes ever used, the first free one, nodes to be had, entries; the way from the root.
_ROOT, _USED, _FREE, _SPARE, _ENTRIES, _PATH = 0, 1, 2, 3, 4, 5
# Enough nodes for one insertion: a split on every level, and a new root.
_RESERVE = 24


@kernel
def has_room(tree: Tree) -> bool:
    """Whether one more entry surely fits; a kernel stops where it does not, and the tree is made larger."""
    return bool(tree[0, _SPARE] >= _RESERVE)


@kernel
def root_of(tree: Tree) -> int:
    return int(tree[0, _ROOT])


@kernel
def length_of(tree: Tree, node: int) -> int:
    return int(tree[node, _LENGTH])


@kernel
def is_leaf(tree: Tree, node: int) -> bool:
    return bool(tree[node, CHILD] < 0)


@kernel
def _take_node(tree: Tree) -> int:
    node = tree[0, _FREE]
    if node >= 0:
        tree[0, _FREE] = tree[node, CHILD]
    else:
        node = tree[0, _USED]
        tree[0, _USED] += 1
    tree[0, _SPARE] -= 1
    tree[node, _LENGTH] = 0
    return int(node)


@kernel
def _give_node(tree: Tree, node: int) -> None:
    tree[node, CHILD] = tree[0, _FREE]
    tree[0, _FREE] = node
    tree[0, _SPARE] += 1


@kernel
def _copy(tree: Tree, source: int, at: int, target: int, to: int) -> None:
    for k in range(ENTRY):
        tree[target, FIRST + ENTRY * to + k] = tree[source, FIRST + ENTRY * at + k]


@kernel
def _open_gap(tree: Tree, node: int, at: int) -> None:
    begin, end = FIRST + ENTRY * at, FIRST + ENTRY * tree[node, _LENGTH]
    for k in range(end - 1, begin - 1, -1):
        tree[node, k + ENTRY] = tree[node, k]
    tree[node, _LENGTH] += 1


@kernel
def _close_gap(tree: Tree, node: int, at: int) -> None:
    begin, end = FIRST + ENTRY * at, FIRST + ENTRY * (tree[node, _LENGTH] - 1)
    for k in range(begin, end):
        tree[node, k] = tree[node, k + ENTRY]
    tree[node, _LENGTH] -= 1


@kernel
def _put(tree: Tree, node: int, at: int, a: int, b: int, c: int) -> None:
    place = ENTRY * at
    tree[node, FIRST + place] = a
    tree[node, SECOND + place] = b
    tree[node, THIRD + place] = c


@kernel
def _place(tree: Tree, node: int, a: int, b: int, c: int) -> int:
    """How many entries of a node are less than (a, b, c)."""
    low, high = 0, tree[node, _LENGTH]
    while low < high:
        middle = (low + high) >> 1
        at = ENTRY * middle
        x, y = tree[node, FIRST + at], tree[node, SECOND + at]
        if x < a or (x == a and (y < b or (y == b and tree[node, THIRD + at] < c))):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _is_at(tree: Tree, node: int, at: int, a: int, b: int, c: int) -> bool:
    place = ENTRY * at
    return bool(
        at < tree[node, _LENGTH]
        and tree[node, SECOND + place] == b
        and tree[node, FIRST + place] == a
        and tree[node, THIRD + place] == c
    )


@kernel
def _branch(tree: Tree, node: int, a: int, b: int, c: int) -> int:
    """The child under which (a, b, c) belongs."""
    at = _place(tree, node, a, b, c)
    if at > 0 and not _is_at(tree, node, at, a, b, c):
        at -= 1
    return at


@kernel
def _split(tree: Tree, parent: int, at: int) -> None:
    """Give the upper half of a full child to a new one after it."""
    left = tree[parent, CHILD + ENTRY * at]
    right = _take_node(tree)
    half = WIDTH // 2
    moved = 0
    for i in range(half, WIDTH):
        _copy(tree, left, i, right, i - half)
        moved += tree[left, SIZE + ENTRY * i]
    tree[left, _LENGTH] = half
    tree[right, _LENGTH] = WIDTH - half
    _open_gap(tree, parent, at + 1)
    _copy(tree, right, 0, parent, at + 1)
    tree[parent, SIZE + ENTRY * (at + 1)] = moved
    tree[parent, CHILD + ENTRY * (at + 1)] = right
    tree[parent, SIZE + ENTRY * at] -= moved


@kernel
def _raise_root(tree: Tree) -> None:
    """A new root over the old one."""
    old, root = tree[0, _ROOT], _take_node(tree)
    _copy(tree, old, 0, root, 0)
    total = 0
    for i in range(tree[old, _LENGTH]):
        total += tree[old, SIZE + ENTRY * i]
    tree[root, SIZE] = total
    tree[root, CHILD] = old
    tree[root, _LENGTH] = 1
    tree[0, _ROOT] = root


@kernel
def insert(tree: Tree, a: int, b: int, c: int, count: int) -> int:
    """Add (a, b, c) so many times; gives how often it is there now."""
    if tree[tree[0, _ROOT], _LENGTH] == WIDTH:
        _raise_root(tree)
    node = tree[0, _ROOT]
    while tree[node, CHILD] >= 0:
        at = _branch(tree, node, a, b, c)
        if tree[tree[node, CHILD + ENTRY * at], _LENGTH] == WIDTH:
            _split(tree, node, at)
            at = _branch(tree, node, a, b, c)
        if at == 0 and _place(tree, node, a, b, c) == 0:
            _put(tree, node, 0, a, b, c)
        tree[node, SIZE + ENTRY * at] += count
        node = tree[node, CHILD + ENTRY * at]
    at = _place(tree, node, a, b, c)
    if _is_at(tree, node, at, a, b, c):
        tree[node, SIZE + ENTRY * at] += count
        return int(tree[node, SIZE + ENTRY * at])
    _open_gap(tree, node, at)
    _put(tree, node, at, a, b, c)
    tree[node, SIZE + ENTRY * at] = count
    tree[node, CHILD + ENTRY * at] = -1
    tree[0, _ENTRIES] += 1
    return count


@kernel
def _merge(tree: Tree, parent: int, at: int) -> None:
    """Put the child after `at` into the one at `at`."""
    left, right = tree[parent, CHILD + ENTRY * at], tree[parent, CHILD + ENTRY * (at + 1)]
    count = tree[left, _LENGTH]
    for i in range(tree[right, _LENGTH]):
        _copy(tree, right, i, left, count + i)
    tree[left, _LENGTH] = count + tree[right, _LENGTH]
    tree[parent, SIZE + ENTRY * at] += tree[parent, SIZE + ENTRY * (at + 1)]
    _close_gap(tree, parent, at + 1)
    _give_node(tree, right)


@kernel
def _mend(tree: Tree, parent: int, at: int) -> None:
    """After a child lost an entry: its least entry, and whether it should go or be merged."""
    node = tree[parent, CHILD + ENTRY * at]
    count = tree[node, _LENGTH]
    if count == 0:
        _close_gap(tree, parent, at)
        _give_node(tree, node)
        return
    _put(tree, parent, at, tree[node, FIRST], tree[node, SECOND], tree[node, THIRD])
    if count >= WIDTH // 4:
        return
    limit = 3 * WIDTH // 4
    if (
        at + 1 < tree[parent, _LENGTH]
        and count + tree[tree[parent, CHILD + ENTRY * (at + 1)], _LENGTH] <= limit
    ):
        _merge(tree, parent, at)
    elif at > 0 and count + tree[tree[parent, CHILD + ENTRY * (at - 1)], _LENGTH] <= limit:
        _merge(tree, parent, at - 1)


@kernel
def remove(tree: Tree, a: int, b: int, c: int) -> int:
    """Take one (a, b, c) out; gives how often it is still there, −1 if it was not there at all."""
    node = tree[0, _ROOT]
    depth = 0
    while tree[node, CHILD] >= 0:
        at = _branch(tree, node, a, b, c)
        tree[0, _PATH + 2 * depth] = node
        tree[0, _PATH + 2 * depth + 1] = at
        depth += 1
        node = tree[node, CHILD + ENTRY * at]
    at = _place(tree, node, a, b, c)
    if not _is_at(tree, node, at, a, b, c):
        return -1
    for level in range(depth):
        tree[tree[0, _PATH + 2 * level], SIZE + ENTRY * tree[0, _PATH + 2 * level + 1]] -= 1
    tree[node, SIZE + ENTRY * at] -= 1
    left = tree[node, SIZE + ENTRY * at]
    if left > 0:
        return int(left)
    _close_gap(tree, node, at)
    tree[0, _ENTRIES] -= 1
    for level in range(depth - 1, -1, -1):
        _mend(tree, tree[0, _PATH + 2 * level], tree[0, _PATH + 2 * level + 1])
    root = tree[0, _ROOT]
    while tree[root, _LENGTH] == 1 and tree[root, CHILD] >= 0:
        tree[0, _ROOT] = tree[root, CHILD]
        _give_node(tree, root)
        root = tree[0, _ROOT]
    if tree[root, _LENGTH] == 0:
        tree[root, CHILD] = -1
    return 0


@kernel
def rank(tree: Tree, a: int, b: int, c: int) -> int:
    """How many values are less than (a, b, c)."""
    node = tree[0, _ROOT]
    before = 0
    while tree[node, CHILD] >= 0:
        at = _branch(tree, node, a, b, c)
        for i in range(at):
            before += tree[node, SIZE + ENTRY * i]
        node = tree[node, CHILD + ENTRY * at]
    for i in range(_place(tree, node, a, b, c)):
        before += tree[node, SIZE + ENTRY * i]
    return before


@kernel
def select(tree: Tree, number: int) -> tuple[int, int]:
    """Node and place of the value with `number` values before it; it must exist."""
    node = tree[0, _ROOT]
    while True:
        at = 0
        while number >= tree[node, SIZE + ENTRY * at]:
            number -= tree[node, SIZE + ENTRY * at]
            at += 1
        if tree[node, CHILD] < 0:
            return node, at
        node = tree[node, CHILD + ENTRY * at]


@kernel
def at_or_after(tree: Tree, a: int, b: int, c: int) -> tuple[int, int]:
    """Node and place of the least entry that is not less than (a, b, c); it must exist."""
    node = tree[0, _ROOT]
    other = -1
    while tree[node, CHILD] >= 0:
        at = _branch(tree, node, a, b, c)
        if at + 1 < tree[node, _LENGTH]:
            other = tree[node, CHILD + ENTRY * (at + 1)]
        node = tree[node, CHILD + ENTRY * at]
    at = _place(tree, node, a, b, c)
    if at < tree[node, _LENGTH]:
        return node, at
    while tree[other, CHILD] >= 0:
        other = tree[other, CHILD]
    return other, 0


@kernel
def before(tree: Tree, a: int, b: int, c: int) -> tuple[int, int]:
    """Node and place of the greatest entry less than (a, b, c); it must exist."""
    node = tree[0, _ROOT]
    # The least entry of a child is known above it, so the child that holds the answer is, too.
    while True:
        at = _place(tree, node, a, b, c) - 1
        if tree[node, CHILD] < 0:
            return node, at
        node = tree[node, CHILD + ENTRY * at]


@kernel
def _add_all(tree: Tree, a: Ints, b: Ints, c: Ints, counts: Ints, begin: int) -> int:
    for i in range(begin, len(a)):
        if not has_room(tree):
            return i
        insert(tree, a[i], b[i], c[i], counts[i])
    return len(a)


@kernel
def _remove_all(tree: Tree, a: Ints, b: Ints, c: Ints) -> int:
    missing = 0
    for i in range(len(a)):
        if remove(tree, a[i], b[i], c[i]) < 0:
            missing += 1
    return missing


@kernel
def _write_entries(tree: Tree, out: Tree) -> None:
    passed = 0
    count = 0
    while count < tree[0, _ENTRIES]:
        node, _ = select(tree, passed)
        for i in range(tree[node, _LENGTH]):
            for k in range(4):
                out[k, count] = tree[node, FIRST + ENTRY * i + k]
            count += 1
            passed += tree[node, SIZE + ENTRY * i]


class CountedTree:
    """`tree` is the array; it is another one after `grow`."""

    def __init__(self) -> None:
        nodes = 2 * _RESERVE
        self.tree: Tree = np.zeros((nodes, FIRST + ENTRY * WIDTH), dtype=np.int64)
        self.tree[1, CHILD] = -1
        self.tree[0, :_PATH] = 1, 2, -1, nodes - 2, 0

    def __len__(self) -> int:
        """The number of different entries."""
        return int(self.tree[0, _ENTRIES])

    @property
    def nbytes(self) -> int:
        return self.tree.nbytes

    def grow(self) -> None:
        """Make room for more entries."""
        old = len(self.tree)
        self.tree = grown(self.tree, old + old // 2, 0)
        self.tree[0, _SPARE] += len(self.tree) - old

    def add(self, a: Ints, b: Ints, c: Ints, counts: Ints) -> None:
        """Add entries, each so many times."""
        done = 0
        while True:
            done = _add_all(self.tree, a, b, c, counts, done)
            if done == len(a):
                return
            self.grow()

    def remove(self, a: Ints, b: Ints, c: Ints) -> bool:
        """Take entries out, each once; whether they were all there."""
        return _remove_all(self.tree, a, b, c) == 0

    def entries(self) -> tuple[Ints, Ints, Ints, Ints]:
        """All entries in order, and how often each is there."""
        out = np.empty((4, len(self)), dtype=np.int64)
        _write_entries(self.tree, out)
        return out[0], out[1], out[2], out[3]

    def recode(self, part: int, old: Ints, new: Ints) -> None:
        """Replace the values `old` (sorted) of a part of all entries by `new`, in the same order."""
        column = self.tree[1:, part::ENTRY]
        column[:] = recoded(column, old, new)


def recoded(column: Ints, old: Ints, new: Ints) -> Ints:
    """A column in which the values `old` (sorted) are `new`; what is none of them becomes anything."""
    place: Ints = np.searchsorted(old, column)
    return np.append(new, 0)[place]
