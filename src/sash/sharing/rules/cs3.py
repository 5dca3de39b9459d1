"""CS3: a query that puts synopses of the same rows together, after those that read each, over one length.

AVG divides what SUM and COUNT have answered already.
"""

from __future__ import annotations

from collections.abc import Iterator

from sash.sharing.rules.readers import direct_readers, several
from sash.sharing.rules.rule import ComputationRule, Together
from sash.sharing.rules.ss2 import SS2
from sash.sharing.workload import Workload


def find(workload: Workload) -> Iterator[Together]:
    for name, reading in workload.readings.items():
        if reading.rule != SS2.name:
            continue
        windows = workload.requests[name].windows
        before = dict.fromkeys(
            query
            for part in reading.parts
            for query in direct_readers(workload.synopses[part.synopsis], workload)
            if workload.requests[query].windows == windows
        )
        yield from several(CS3.name, [*before, name])


CS3 = ComputationRule("CS3", "SUM, COUNT and AVG over the same length of window", find)
