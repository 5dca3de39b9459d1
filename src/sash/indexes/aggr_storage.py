"""AGGR: an entry for each value of a basic window, in order of values (003, section 3.2).

Published as a sorted list that a tuple is inserted into; here the tuples of a basic window come together, so
they are sorted. Needs: repetition within a basic window, else it is a LIST that costs more. Time: O(log b) a
tuple, an access to the index for each value. Space: O(d) a basic window.
"""

from __future__ import annotations

import numpy as np

from sash.indexes.domain import Ints, Read
from sash.indexes.storage import BasicWindowStorage, Folded


class AggrStorage(BasicWindowStorage):
    name = "AGGR"

    def fold(self, read: Read) -> Folded:
        if read.holders is read.ordinals:
            values, amounts = runs(np.sort(read.ordinals))
            return Folded(values, values, amounts)
        order = np.argsort(read.ordinals)
        values, amounts = runs(read.ordinals[order])
        ends = np.cumsum(amounts)
        return Folded(values, read.holders[order][ends - 1], amounts)


def runs(ordered: Ints) -> tuple[Ints, Ints]:
    """Each number of a sorted array once, and how often it stands there."""
    begins = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1)) if len(ordered) else ordered
    return ordered[begins], np.diff(np.append(begins, len(ordered)))
