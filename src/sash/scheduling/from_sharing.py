"""The queries of a sharing as a scheduler takes them: groups, periods and what an execution costs."""

from __future__ import annotations

from collections.abc import Mapping

from sash.scheduling.policy import Standing
from sash.sharing.sharing import Sharing
from sash.sharing.work import work_of


def standings_of(
    sharing: Sharing, priorities: Mapping[str, int] | None = None, posts: Mapping[str, float] | None = None
) -> list[Standing]:
    """One for each query; `posts` is what finishing an answer costs. For `Scheduler.put` and `regroup`.

    A group is named after the first of its queries that came, so that it keeps its name while others come
    and go.
    """
    place = {name: i for i, name in enumerate(sharing.workload.requests)}
    found = []
    for group in sharing.groups():
        label = min(group.queries, key=place.__getitem__)
        for name in group.queries:
            work = work_of(name, sharing.workload, (posts or {}).get(name, 0.0))
            slide = sharing.workload.requests[name].slide
            found.append(Standing(name, label, slide, (priorities or {}).get(name, 0), work))
    return found
