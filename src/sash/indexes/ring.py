"""RING: rings in order of arrival, the index points to the oldest tuple (003, section 6.1).

Needs: short rings, that is few tuples of equal value. Time: a tuple that comes finds its value in the
index and follows its ring to the end; a tuple that goes follows it to the end, too. Space: a link a tuple,
a head a value.
"""

from __future__ import annotations

import numpy as np

from sash.indexes.domain import Ints, Read
from sash.indexes.rings import Rings, back_to, find_nodes_forward, gather_forward
from sash.indexes.storage import Nodes, in_order
from sash.indexes.value_index import ValueIndex
from sash.state.jit import kernel


@kernel
def _append(nodes: Nodes, begin: int, links: Ints, heads: Ints) -> None:
    mask = len(links) - 1
    for i in range(len(nodes)):
        node, position = nodes[i], begin + i
        at = heads[node]
        if at < 0:
            heads[node] = position
        else:
            while links[at & mask] >= 0:
                at = links[at & mask]
            links[at & mask] = position
        links[position & mask] = back_to(node)


@kernel
def append_by_tails(nodes: Nodes, begin: int, links: Ints, heads: Ints, tails: Ints) -> None:
    """A ring is followed for the first of its new tuples; then its tail is known."""
    mask = len(links) - 1
    for i in range(len(nodes)):
        node, position = nodes[i], begin + i
        if heads[node] < 0:
            heads[node] = position
        else:
            at = tails[node]
            if at < 0:
                at = heads[node]
                while links[at & mask] >= 0:
                    at = links[at & mask]
            links[at & mask] = position
        tails[node] = position
        links[position & mask] = back_to(node)
    for i in range(len(nodes)):
        tails[nodes[i]] = -1


class Ring(Rings):
    name = "RING"

    def _look_up(self, read: Read, index: ValueIndex) -> Nodes:
        return in_order(read, index.enter(read.ordinals, read.holders))

    def _link(self, nodes: Nodes) -> None:
        _append(nodes, self.end, self.links, self.heads)

    def _unlink(self, end: int, nodes: Nodes) -> None:
        find_nodes_forward(self.begin, end, self.links, self.heads, nodes)

    def _gather(self, nodes: Ints, ends: Ints, out: Ints) -> None:
        gather_forward(nodes, ends, self.links, self.heads, out)

    def _link_all(self, nodes: Nodes) -> None:
        tails = np.full(len(self.heads), -1, dtype=np.int64)
        append_by_tails(nodes, self.end, self.links, self.heads, tails)
