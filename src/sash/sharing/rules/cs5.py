"""CS5: one basic interval join synopsis, all of its queries.

CS2 for joins, whatever their two lengths.
"""

from __future__ import annotations

from collections.abc import Iterator

from sash.sharing.rules.readers import direct_readers, several
from sash.sharing.rules.rule import ComputationRule, Together
from sash.sharing.workload import Workload


def find(workload: Workload) -> Iterator[Together]:
    for synopsis in workload.synopses.values():
        if synopsis.is_join and synopsis.kind.is_basic:
            yield from several(CS5.name, direct_readers(synopsis, workload))


CS5 = ComputationRule("CS5", "one basic interval join synopsis, all of its queries", find)
