"""DB: rings against the order of arrival whose stale ends stay, marked by a dirty bit (003, section 6.4).

Nobody follows a ring when tuples go: the youngest of them stays its end, and a bit at the node says that
the end is stale. Published with room for such tuples, one a value; here a tuple's position says whether it
is in the window, so a stale end needs no room, but each tuple keeps the number of its node, by which the
nodes that become dirty are found.

Needs: tuples of equal value in the window. Time: O(1) a tuple that comes, after its value was found, and
that goes; a reader of a dirty ring compares positions. Space: as BW, a bit a value and four bytes a tuple.
"""

from __future__ import annotations

import numpy as np

from sash.indexes.backward_ring import prepend
from sash.indexes.domain import Bools, Ints
from sash.indexes.rings import Rings
from sash.indexes.storage import Nodes
from sash.state.jit import kernel
from sash.state.keytable import grown


@kernel
def _mark(begin: int, end: int, owners: Nodes, heads: Ints, is_dirty: Bools, out: Nodes) -> None:
    mask = len(owners) - 1
    for position in range(begin, end):
        node = owners[position & mask]
        out[position - begin] = node
        is_dirty[node] = heads[node] >= end
        if heads[node] < end:
            heads[node] = -1


@kernel
def _gather_all(
    nodes: Ints, ends: Ints, begin: int, links: Ints, heads: Ints, is_dirty: Bools, out: Ints
) -> None:
    mask = len(links) - 1
    for i in range(len(nodes)):
        place = ends[i]
        at = heads[nodes[i]]
        oldest = begin if is_dirty[nodes[i]] else 0
        while at >= oldest:
            place -= 1
            out[place] = at
            at = links[at & mask]


class DirtyRing(Rings):
    name = "DB"

    def __init__(self) -> None:
        super().__init__()
        self._owners: Nodes = np.zeros(len(self.links), dtype=np.int32)
        self._is_dirty: Bools = np.zeros(len(self.heads), dtype=np.bool_)

    def _link(self, nodes: Nodes) -> None:
        self._is_dirty = grown(self._is_dirty, len(self.heads), False)
        prepend(nodes, self.end, self.links, self.heads)
        self._owners[np.arange(self.end, self.end + len(nodes)) & (len(self._owners) - 1)] = nodes

    def _unlink(self, end: int, nodes: Nodes) -> None:
        _mark(self.begin, end, self._owners, self.heads, self._is_dirty, nodes)

    def _gather(self, nodes: Ints, ends: Ints, out: Ints) -> None:
        _gather_all(nodes, ends, self.begin, self.links, self.heads, self._is_dirty, out)

    def _enlarge(self, size: int) -> None:
        super()._enlarge(size)
        self._owners = self._spread(self._owners, size)

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._owners.nbytes + self._is_dirty.nbytes
