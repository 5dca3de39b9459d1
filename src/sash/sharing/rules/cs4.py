"""CS4: running and interval join synopses, queries over windows of the same lengths.

CS1 for joins: both lengths must be the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from sash.sharing.rules.readers import by_windows, direct_readers, several
from sash.sharing.rules.rule import ComputationRule, Together
from sash.sharing.workload import Workload


def find(workload: Workload) -> Iterator[Together]:
    for synopsis in workload.synopses.values():
        if synopsis.is_join and not synopsis.kind.is_basic:
            for queries in by_windows(direct_readers(synopsis, workload), workload):
                yield from several(CS4.name, queries)


CS4 = ComputationRule(
    "CS4", "running and interval join synopses, queries over windows of the same lengths", find
)
