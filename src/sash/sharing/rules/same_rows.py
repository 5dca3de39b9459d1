"""Synopses of exactly the rows that a query asks for."""

from __future__ import annotations

from collections.abc import Iterator

from sash.sharing.request import Request
from sash.sharing.synopsis import SharedSynopsis
from sash.sharing.workload import Workload


def same_rows(request: Request, workload: Workload) -> Iterator[SharedSynopsis]:
    """Those with a condition that is written like that of the request, then those that mean the same."""
    related = list(workload.related(request))
    yield from (synopsis for synopsis in related if synopsis.where == request.where)
    predicate = request.predicate
    for synopsis in related:
        if synopsis.where != request.where and synopsis.predicate.equals(predicate):
            yield synopsis
