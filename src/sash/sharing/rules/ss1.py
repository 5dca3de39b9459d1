"""SS1: one synopsis serves all queries over its input whose data it keeps, whatever their windows.

It is made longer where it is too short (002, section 8.2).
"""

from __future__ import annotations

from sash.sharing.request import Request
from sash.sharing.rules.rule import StateRule
from sash.sharing.rules.same_rows import same_rows
from sash.sharing.workload import Offer, Part, Reading, Workload


def find(request: Request, workload: Workload) -> Offer | None:
    if request.is_join:
        return None
    for synopsis in same_rows(request, workload):
        adapted = workload.adapted(synopsis, request, request.measures)
        if adapted is not None:
            text = f"reads {synopsis} over {adapted.intervals} panes or fewer"
            reading = Reading(request.name, SS1.name, (Part(synopsis.name, request.measures),), text)
            return Offer(reading, (adapted,) if adapted != synopsis else ())
    return None


SS1 = StateRule("SS1", "the same aggregate or data over other lengths of window", find)
