"""CS8: a query that is another one but for a longer period takes its answers from that one.

A sink is given only the boundaries that its query asked for (multiples of its SLIDE), so the longer period
must be a multiple of the shorter one.
"""

from __future__ import annotations

from collections.abc import Iterator

from sash.sharing.request import Request
from sash.sharing.rules.rule import ComputationRule, Together
from sash.sharing.workload import Workload


def find(workload: Workload) -> Iterator[Together]:
    same: dict[object, list[Request]] = {}
    for request in workload.requests.values():
        asked = (request.source, request.where, request.keys, request.windows, request.answer)
        same.setdefault(asked, []).append(request)
    for requests in same.values():
        requests.sort(key=lambda request: request.slide)
        leaders: list[Request] = []
        for request in requests:
            leader = next((each for each in leaders if request.slide % each.slide == 0), None)
            if leader is None:
                leaders.append(request)
            else:
                yield Together(CS8.name, (leader.name, request.name))


CS8 = ComputationRule("CS8", "the same query with a longer period takes the answers of the shorter one", find)
