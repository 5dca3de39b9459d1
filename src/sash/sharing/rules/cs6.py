"""CS6: a query from covering synopses, after those whose answers it puts together, over the same lengths."""

from __future__ import annotations

from collections.abc import Iterator

from sash.sharing.rules.readers import predecessors, several
from sash.sharing.rules.rule import ComputationRule, Together
from sash.sharing.rules.ss4 import SS4
from sash.sharing.workload import Workload


def find(workload: Workload) -> Iterator[Together]:
    for name, reading in workload.readings.items():
        if reading.rule == SS4.name:
            windows = workload.requests[name].windows
            before = predecessors(name, workload, is_basic=False)
            same = [query for query in before if workload.requests[query].windows == windows]
            yield from several(CS6.name, [*same, name])


CS6 = ComputationRule("CS6", "covers of running and interval synopses, windows of the same lengths", find)
