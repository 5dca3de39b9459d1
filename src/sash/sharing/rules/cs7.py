"""CS7: a query from covering basic interval synopses, after the queries whose answers it puts together.

Their windows may be longer than its own: what it needs is saved as they pass its length.
"""

from __future__ import annotations

from collections.abc import Iterator

from sash.sharing.rules.readers import predecessors, several
from sash.sharing.rules.rule import ComputationRule, Together
from sash.sharing.rules.ss4 import SS4
from sash.sharing.workload import Workload


def find(workload: Workload) -> Iterator[Together]:
    for name, reading in workload.readings.items():
        if reading.rule == SS4.name:
            yield from several(CS7.name, [*predecessors(name, workload, is_basic=True), name])


CS7 = ComputationRule("CS7", "covers of basic interval synopses, windows of any lengths", find)
