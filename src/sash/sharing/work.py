"""What an execution costs, in combinations of two values (002, section 8.4.4).

A query scans things: the youngest intervals of a basic interval synopsis up to its length, or the few
intervals that make up one length in the others. Queries that are executed together scan each thing once, as
far as the farthest of them; what each does afterwards on its own (`post`) is added up. Maintenance of
synopses is not counted: it is the same under every schedule.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from sash.plan.kinds import Kind
from sash.sharing.request import Request
from sash.sharing.synopsis import SharedSynopsis, panes_in
from sash.sharing.workload import Workload


@dataclass(frozen=True, slots=True)
class Work:
    """`scans`: what is looked at, and at what cost; `post`: the query's own work with the result."""

    scans: Mapping[Hashable, float] = field(default_factory=dict)
    post: float = 0.0


def joint_cost(works: Iterable[Work]) -> float:
    """The cost of executing them together."""
    scans: dict[Hashable, float] = {}
    post = 0.0
    for work in works:
        post += work.post
        for key, cost in work.scans.items():
            scans[key] = max(cost, scans.get(key, 0.0))
    return sum(scans.values()) + post


def work_of(query: str, workload: Workload, post: float = 0.0) -> Work:
    """`post` is what finishing the answer costs, besides putting the parts together."""
    request, reading = workload.requests[query], workload.readings[query]
    scans: dict[Hashable, float] = {}
    for part in reading.parts:
        synopsis = workload.synopses[part.synopsis]
        key: Hashable = part.synopsis if synopsis.kind.is_basic else (part.synopsis, request.windows)
        scans[key] = _scan_cost(synopsis, request)
    return Work(scans, post + len(reading.parts) - 1)


def _scan_cost(synopsis: SharedSynopsis, request: Request) -> float:
    intervals = panes_in(synopsis.panes, request.longest)
    match synopsis.kind:
        case Kind.RUNNING | Kind.RJ:
            return 1.0
        case Kind.INTERVAL | Kind.IJ:
            return max(0.0, 2 * math.ceil(math.log2(max(intervals, 1))) - 1.0)
        case Kind.BASIC_INTERVAL | Kind.BIJ:
            return intervals - 1.0
