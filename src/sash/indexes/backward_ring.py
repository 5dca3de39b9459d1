"""BW: rings against the order of arrival, the index points to the newest tuple (003, section 6.3).

All tuples of a value that go with a basic window are the end of their ring, so they go together: the ring
is followed back to its node from the youngest of them, and from the node to the oldest tuple that stays.
Needs: values that repeat within a basic window. Time: a tuple that comes is linked in O(1) after its value
was found; the ring is followed once a value that goes. Space: as AUX.
"""

from __future__ import annotations

import numpy as np

from sash.indexes.domain import Ints
from sash.indexes.rings import Rings, back_to
from sash.indexes.storage import Nodes
from sash.state.jit import kernel

_UNLINKED = int(np.iinfo(np.int64).min)


@kernel
def prepend(nodes: Nodes, begin: int, links: Ints, heads: Ints) -> None:
    """New tuples come before those that their nodes point to."""
    mask = len(links) - 1
    for i in range(len(nodes)):
        node, position = nodes[i], begin + i
        links[position & mask] = heads[node] if heads[node] >= 0 else back_to(node)
        heads[node] = position


@kernel
def _unlink_all(begin: int, end: int, links: Ints, heads: Ints, out: Nodes) -> None:
    mask = len(links) - 1
    for position in range(end - 1, begin - 1, -1):
        if links[position & mask] == _UNLINKED:
            continue
        at = position
        while links[at & mask] >= 0:
            at = links[at & mask]
        node = back_to(links[at & mask])
        at = position
        while at >= 0:
            out[at - begin] = node
            then = links[at & mask]
            links[at & mask] = _UNLINKED
            at = then
        if heads[node] == position:
            heads[node] = -1
            continue
        at = heads[node]
        while links[at & mask] != position:
            at = links[at & mask]
        links[at & mask] = back_to(node)


@kernel
def _gather_all(nodes: Ints, ends: Ints, links: Ints, heads: Ints, out: Ints) -> None:
    mask = len(links) - 1
    for i in range(len(nodes)):
        place = ends[i]
        at = heads[nodes[i]]
        while at >= 0:
            place -= 1
            out[place] = at
            at = links[at & mask]


class BackwardRing(Rings):
    name = "BW"

    def _link(self, nodes: Nodes) -> None:
        prepend(nodes, self.end, self.links, self.heads)

    def _unlink(self, end: int, nodes: Nodes) -> None:
        _unlink_all(self.begin, end, self.links, self.heads, nodes)

    def _gather(self, nodes: Ints, ends: Ints, out: Ints) -> None:
        _gather_all(nodes, ends, self.links, self.heads, out)
