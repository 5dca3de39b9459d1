"""CS1: running and interval synopses, queries over windows of the same length.

The intervals that make up a window are read once, and each query finishes the result on its own. Other
lengths of window are other intervals.
"""

from __future__ import annotations

from collections.abc import Iterator

from sash.sharing.rules.readers import by_windows, direct_readers, several
from sash.sharing.rules.rule import ComputationRule, Together
from sash.sharing.workload import Workload


def find(workload: Workload) -> Iterator[Together]:
    for synopsis in workload.synopses.values():
        if not synopsis.is_join and not synopsis.kind.is_basic:
            for queries in by_windows(direct_readers(synopsis, workload), workload):
                yield from several(CS1.name, queries)


CS1 = ComputationRule("CS1", "running and interval synopses, queries over windows of the same length", find)
