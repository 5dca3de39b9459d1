"""How a query asks to be refreshed, with WITH (refresh = …, priority = …).

Exact refresh answers every multiple of SLIDE. Elastic refresh (002, section 8.4.1) answers the newest one
when its turn comes: under load the period becomes longer. Of two that are due the greater priority is first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sash.errors import BindError
from sash.lang.bound import QueryDefinition
from sash.plan.measures import frequent_of
from sash.plan.periodic import is_periodic

EXACT, ELASTIC = "exact", "elastic"
MODES = (EXACT, ELASTIC)
OPTIONS = ("refresh", "priority")


@dataclass(frozen=True, slots=True)
class Refresh:
    """`is_elastic` None: as the run has it."""

    is_elastic: bool | None = None
    priority: int = 0


def refresh_of(query: QueryDefinition) -> Refresh:
    """What the query asks for; BindError if it is not known."""
    options = dict(query.options)
    mode, priority = options.get("refresh"), options.get("priority", 0)
    if mode is not None and str(mode).lower() not in MODES:
        raise BindError(
            f"refresh = '{mode}' is not known",
            expected=f"one of: {', '.join(MODES)}",
            got=f"'{mode}'",
            place=query.place,
            id="query-option",
        )
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise BindError(
            "a priority is a whole number", got=f"'{priority}'", place=query.place, id="query-option"
        )
    return Refresh(None if mode is None else str(mode).lower() == ELASTIC, priority)


def is_elastic_in(query: QueryDefinition, usual: str) -> bool:
    """Whether a query is refreshed elastically in a run that has a usual kind of refresh."""
    chosen = refresh_of(query).is_elastic
    return usual == ELASTIC if chosen is None else chosen


def refreshed_as(query: QueryDefinition, asked: QueryDefinition) -> QueryDefinition:
    """The query with what another definition asks for; it becomes that one where nothing else differs."""
    own, others = (tuple(o for o in each.options if o[0] not in OPTIONS) for each in (query, asked))
    if own == others:
        return replace(query, options=asked.options)
    return replace(query, options=(*own, *(option for option in asked.options if option[0] in OPTIONS)))


def check_refresh(query: QueryDefinition) -> None:
    """Raise BindError if the query asks to be refreshed in a way that it cannot be."""
    refresh_of(query)
    given = [name for name, _ in query.options if name in OPTIONS]
    if given and not is_periodic(query):
        raise _not_for(query, given[0], "a query that is kept up row by row", "periodic aggregates have it")
    if "refresh" in given and query.select is not None and frequent_of(query.select.aggregates):
        raise _not_for(query, "refresh", "FREQUENT", "--refresh says it for the whole run")


def _not_for(query: QueryDefinition, option: str, what: str, hint: str) -> BindError:
    return BindError(
        f"{query.name}: {option} is not for {what}", place=query.place, hint=hint, id="query-option"
    )
