"""SS3: one generalised join synopsis serves joins of windows up to b·s long, equal or up to g·s apart.

The thesis stores three values in the g oldest intervals and asks both lengths to be among the g + 1 greatest.
`sash.synopses.joined` keeps what differs in every interval, so it is only the difference that g bounds.
"""

from __future__ import annotations

from sash.sharing.request import Request
from sash.sharing.rules.rule import StateRule
from sash.sharing.rules.same_rows import same_rows
from sash.sharing.workload import Offer, Part, Reading, Workload


def find(request: Request, workload: Workload) -> Offer | None:
    if not request.is_join:
        return None
    for synopsis in same_rows(request, workload):
        adapted = workload.adapted(synopsis, request, request.measures)
        if adapted is not None:
            text = f"reads the join synopsis {synopsis} with b = {adapted.intervals}, g = {adapted.g}"
            reading = Reading(request.name, SS3.name, (Part(synopsis.name, request.measures),), text)
            return Offer(reading, (adapted,) if adapted != synopsis else ())
    return None


SS3 = StateRule(
    "SS3", "one join synopsis for windows of equal lengths, or lengths that differ by up to g·s", find
)
