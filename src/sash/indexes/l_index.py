"""L-INDEX: a list of values in order, with their counts (003, section 5.1).

Needs: few values; it is the slowest index to maintain. Time: O(D) to find a value, nothing to put an
answer in order. Space: O(D): value, count and two links a node.
"""

from __future__ import annotations

import pyarrow as pa

from sash.indexes.buckets import BucketIndex


class LIndex(BucketIndex):
    name = "L-INDEX"

    def __init__(self, type_: pa.DataType, *, sides: int = 1) -> None:
        super().__init__(type_, buckets=1, is_sorted=True, sides=sides)
