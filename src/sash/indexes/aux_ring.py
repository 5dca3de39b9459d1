"""AUX: rings in order of arrival, and an auxiliary index of the newest basic window (003, section 6.2).

Needs: values that repeat within a basic window. Time: a value that comes finds its node in the index and
follows its ring once a basic window, its other tuples are linked in O(1); a tuple that goes follows its
whole ring. Space: as RING, and three pointers a value of a basic window.
"""

from __future__ import annotations

import numpy as np

from sash.indexes.domain import Ints
from sash.indexes.ring import append_by_tails
from sash.indexes.rings import Rings, find_nodes_forward, gather_forward
from sash.indexes.storage import Nodes
from sash.state.keytable import grown


class AuxRing(Rings):
    name = "AUX"

    def __init__(self) -> None:
        super().__init__()
        self._tails: Ints = np.full(len(self.heads), -1, dtype=np.int64)

    def _link(self, nodes: Nodes) -> None:
        self._tails = grown(self._tails, len(self.heads), -1)
        append_by_tails(nodes, self.end, self.links, self.heads, self._tails)

    def _unlink(self, end: int, nodes: Nodes) -> None:
        find_nodes_forward(self.begin, end, self.links, self.heads, nodes)

    def _gather(self, nodes: Ints, ends: Ints, out: Ints) -> None:
        gather_forward(nodes, ends, self.links, self.heads, out)

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._tails.nbytes
