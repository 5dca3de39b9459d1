"""H-INDEX: a hash table of values with their counts; the values of a bucket are in order (003, section 5.3).

Needs: answers that do not depend on order, or few of them: an answer in order merges all buckets. Time:
O(D/h) to find a value, O(1) where the number of buckets follows the number of values (the default); O(D log
D) to put an answer in order. Space: O(D + h).
"""

from __future__ import annotations

import pyarrow as pa

from sash.indexes.buckets import BucketIndex


class HIndex(BucketIndex):
    name = "H-INDEX"

    def __init__(self, type_: pa.DataType, *, buckets: int | None = None, sides: int = 1) -> None:
        super().__init__(type_, buckets=buckets, is_sorted=True, sides=sides)
