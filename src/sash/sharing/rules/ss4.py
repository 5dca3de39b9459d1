"""SS4: synopses with other predicates that cover the query's, put together (`plan/covers.py`).

It trades time for space: fewer synopses are maintained, several are read for one answer. So it comes last.
"""

from __future__ import annotations

from sash.plan.covers import Cover, find_cover
from sash.plan.duplicates import Algebra, is_coded
from sash.sharing.request import Request
from sash.sharing.rules.rule import StateRule
from sash.sharing.synopsis import SharedSynopsis
from sash.sharing.workload import Offer, Part, Reading, Workload


def find(request: Request, workload: Workload) -> Offer | None:
    if any(map(is_coded, request.measures)):
        return None
    candidates = {
        synopsis.name: synopsis.predicate
        for synopsis in workload.related(request)
        if workload.may_adapt(synopsis, request)
    }
    relevant: dict[str, SharedSynopsis] = {}
    while candidates:
        cover = find_cover(request.predicate, candidates, request.algebra)
        if cover is None:
            return None
        # To cut a synopsis as the query needs it takes a while, so it is only tried for those of a cover.
        for name in (*cover.plus, *cover.minus):
            adapted = workload.adapted(workload.synopses[name], request, request.measures)
            if adapted is None:
                del candidates[name]
            else:
                relevant[name] = adapted
        if all(name in candidates for name in (*cover.plus, *cover.minus)):
            return _offer(request, workload, cover, relevant)
    return None


def _offer(request: Request, workload: Workload, cover: Cover, relevant: dict[str, SharedSynopsis]) -> Offer:
    plus = (Part(name, request.measures) for name in cover.plus)
    minus = (Part(name, request.measures, -1) for name in cover.minus)
    reading = Reading(request.name, SS4.name, (*plus, *minus), _text(cover, relevant, request.algebra))
    changed = (relevant[name] for name in (*cover.plus, *cover.minus))
    return Offer(reading, tuple(new for new in changed if new != workload.synopses[new.name]))


def _text(cover: Cover, relevant: dict[str, SharedSynopsis], algebra: Algebra) -> str:
    shown = " + ".join(str(relevant[name]) for name in cover.plus)
    if cover.minus:
        shown += "".join(f" − {relevant[name]}" for name in cover.minus)
        return f"supercover less the rest: {shown}"
    if algebra is Algebra.INSENSITIVE:
        return f"cover, by minimum or maximum: {shown}"
    return f"disjoint cover: {shown}"


SS4 = StateRule("SS4", "synopses whose predicates cover the query's, put together", find)
