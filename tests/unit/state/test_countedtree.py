"""The counted tree against a sorted list."""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.state import countedtree
from sash.state.countedtree import CountedTree

Entry = tuple[int, int, int]


def check(tree: CountedTree, values: list[Entry]) -> None:
    """The tree holds the values, and its nodes what they should."""
    a, b, c, counts = tree.entries()
    entries = sorted(set(values))
    assert list(zip(a.tolist(), b.tolist(), c.tolist(), strict=True)) == entries
    assert counts.tolist() == [values.count(entry) for entry in entries]
    check_node(tree.tree, int(countedtree.root_of(tree.tree)))


def check_node(tree: countedtree.Tree, node: int) -> tuple[int, list[int]]:
    """The number of values under a node, and its least entry, which its parent must know."""
    total = 0
    for at in range(int(countedtree.length_of(tree, node))):
        place = countedtree.ENTRY * at
        size, child = tree[node, countedtree.SIZE + place], tree[node, countedtree.CHILD + place]
        if child >= 0:
            under, least = check_node(tree, int(child))
            assert under == size
            assert least == tree[node, countedtree.FIRST + place : countedtree.SIZE + place].tolist()
        total += int(size)
    return total, tree[node, countedtree.FIRST : countedtree.SIZE].tolist()


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.integers(0, 9), st.integers(0, 1)), max_size=200)
)
def test_it_is_a_sorted_bag(steps: list[tuple[bool, int, int, int]]) -> None:
    tree, values = CountedTree(), list[Entry]()
    for is_entering, *numbers in steps:
        a, b, c = numbers
        if is_entering:
            insort(values, (a, b, c))
            assert countedtree.insert(tree.tree, a, b, c, 1) == values.count((a, b, c))
        else:
            expected = values.count((a, b, c)) - 1
            assert countedtree.remove(tree.tree, a, b, c) == expected
            if expected >= 0:
                values.remove((a, b, c))
    check(tree, values)


@pytest.mark.parametrize("order", ["ascending", "descending", "random"])
def test_many_entries_come_and_go(order: str) -> None:
    rng = np.random.default_rng(3)
    numbers = {
        "ascending": np.arange(5000),
        "descending": np.arange(5000)[::-1],
        "random": rng.permutation(5000),
    }
    b = np.ascontiguousarray(numbers[order])
    a, c, once = b % 3, np.zeros(5000, dtype=np.int64), np.ones(5000, dtype=np.int64)
    tree = CountedTree()
    tree.add(a, b, c, once)
    values = sorted(zip(a.tolist(), b.tolist(), c.tolist(), strict=True))
    check(tree, values)
    for number in (0, 1, 2499, 4999):
        node, at = countedtree.select(tree.tree, number)
        place = countedtree.ENTRY * at
        assert (
            tuple(tree.tree[node, countedtree.FIRST + place : countedtree.SIZE + place].tolist())
            == values[number]
        )
    for entry in [(0, 0, 0), (1, -5, 0), (1, 2500, 1), (2, 10**6, 0)]:
        assert countedtree.rank(tree.tree, *entry) == bisect_left(values, entry)
        node, at = countedtree.before(tree.tree, entry[0], entry[1] + 1, 0)
        assert (
            tree.tree[node, countedtree.SECOND + countedtree.ENTRY * at]
            == values[bisect_left(values, (entry[0], entry[1] + 1, 0)) - 1][1]
        )
    largest = tree.nbytes
    for _ in range(5):
        gone = rng.permutation(5000)[:4900]
        assert tree.remove(a[gone], b[gone], c[gone])
        check(
            tree,
            sorted(
                set(values)
                - {
                    values_of
                    for values_of in zip(a[gone].tolist(), b[gone].tolist(), c[gone].tolist(), strict=True)
                }
            ),
        )
        tree.add(a[gone], b[gone], c[gone], once[gone])
    assert tree.nbytes <= 1.5 * largest
    assert tree.remove(a, b, c)
    check(tree, [])
    assert not tree.remove(a[:1], b[:1], c[:1])
