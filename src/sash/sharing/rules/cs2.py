"""CS2: one basic interval synopsis, all of its queries.

Answers over shorter windows come along the way as the intervals are read from the youngest to the oldest.
"""

from __future__ import annotations

from collections.abc import Iterator

from sash.sharing.rules.readers import direct_readers, several
from sash.sharing.rules.rule import ComputationRule, Together
from sash.sharing.workload import Workload


def find(workload: Workload) -> Iterator[Together]:
    for synopsis in workload.synopses.values():
        if not synopsis.is_join and synopsis.kind.is_basic:
            yield from several(CS2.name, direct_readers(synopsis, workload))


CS2 = ComputationRule("CS2", "one basic interval synopsis, all of its queries", find)
