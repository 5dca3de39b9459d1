"""SS2: what no synopsis has alone is taken from several of the same rows, updated at the same times.

The thesis has AVG from a synopsis of sums and one of counts. Here a query may ask for any measures.
"""

from __future__ import annotations

from sash.plan.duplicates import is_coded
from sash.plan.measures import ROWS, Measure
from sash.sharing.request import Request
from sash.sharing.rules.rule import StateRule
from sash.sharing.rules.same_rows import same_rows
from sash.sharing.synopsis import SharedSynopsis
from sash.sharing.workload import Offer, Part, Reading, Workload


def find(request: Request, workload: Workload) -> Offer | None:
    if any(map(is_coded, request.measures)):
        return None
    missing = list(request.measures)
    parts: list[Part] = []
    changed: list[SharedSynopsis] = []
    for synopsis in same_rows(request, workload):
        has = tuple(measure for measure in missing if measure in synopsis.measures)
        if not has:
            continue
        adapted = workload.adapted(synopsis, request, has)
        if adapted is None:
            continue
        # The number of rows decides which groups there are, so every part gives it.
        parts.append(Part(synopsis.name, _with_rows(has)))
        missing = [measure for measure in missing if measure not in has]
        if adapted != synopsis:
            changed.append(adapted)
        if not missing:
            names = ", ".join(f"{', '.join(map(str, part.measures))} of {part.synopsis}" for part in parts)
            reading = Reading(request.name, SS2.name, tuple(parts), f"puts together {names}", beside=True)
            return Offer(reading, tuple(changed))
    return None


def _with_rows(measures: tuple[Measure, ...]) -> tuple[Measure, ...]:
    return measures if ROWS in measures else (ROWS, *measures)


SS2 = StateRule("SS2", "sums of one synopsis and counts of another, updated at the same times", find)
