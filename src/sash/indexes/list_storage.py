"""LIST: an entry for each tuple of a basic window (003, section 3.2).

Needs: nothing; the only one that keeps tuples apart, so tuple indexes need it. Time: O(1) a tuple, and an
access to the index for each. Space: a pointer a tuple.
"""

from __future__ import annotations

from sash.indexes.domain import Read
from sash.indexes.storage import BasicWindowStorage, Folded


class ListStorage(BasicWindowStorage):
    name = "LIST"

    def fold(self, read: Read) -> Folded:
        return Folded(read.ordinals, read.holders, None)
