"""GROUP: a count for each range of values in a basic window (003, sections 3.2 and 5.4).

Needs: a G-INDEX, which knows the ranges; answers are ranges, too. Time: O(log g) a tuple, O(g) a basic
window. Space: O(g) a basic window. There is no domain storage: entries are the groups that occur.
"""

from __future__ import annotations

import numpy as np

from sash.indexes.domain import Read
from sash.indexes.storage import BasicWindowStorage, Folded


class GroupStorage(BasicWindowStorage):
    """`Read.ordinals` are numbers of groups here."""

    name = "GROUP"

    def fold(self, read: Read) -> Folded:
        counts = np.bincount(read.ordinals)
        groups = np.flatnonzero(counts)
        return Folded(groups, groups, counts[groups])
