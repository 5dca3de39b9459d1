"""UH-INDEX: a hash table of values with their counts; a bucket has its newest value first (003, section 5.3).

Needs: values that come together and do not come back, and answers that do not depend on order. Time:
O(D/h) to find a value, less for one that came just before; O(D log D) to put an answer in order. Space: O(D
+ h).
"""

from __future__ import annotations

import pyarrow as pa

from sash.indexes.buckets import BucketIndex


class UHIndex(BucketIndex):
    name = "UH-INDEX"

    def __init__(self, type_: pa.DataType, *, buckets: int | None = None, sides: int = 1) -> None:
        super().__init__(type_, buckets=buckets, is_sorted=False, sides=sides)
