"""How a query that comes into a run begins, with WITH (warm_up = …, start = …).

Without either it begins at the first instant at which its windows are whole. `warm_up = 'partial'` answers
before, too, and says so; `start = 'now'` takes the rows that are known when the query comes for the whole
stream.
"""

from __future__ import annotations

from dataclasses import dataclass

from sash.errors import BindError
from sash.lang.bound import QueryDefinition

WHOLE, PARTIAL, NOW = "whole", "partial", "now"
OPTIONS = ("warm_up", "start")
_ALLOWED = {"warm_up": (WHOLE, PARTIAL), "start": (NOW,)}


@dataclass(frozen=True, slots=True)
class WarmUp:
    is_partial: bool = False
    starts_now: bool = False


def warm_up_of(query: QueryDefinition) -> WarmUp:
    """What the query asks for; BindError if it is not known."""
    options = dict(query.options)
    given = {name: str(options[name]).lower() for name in OPTIONS if name in options}
    for name, value in given.items():
        if value not in _ALLOWED[name]:
            raise BindError(
                f"{name} = '{options[name]}' is not known",
                expected=f"one of: {', '.join(_ALLOWED[name])}",
                got=f"'{options[name]}'",
                place=query.place,
                id="query-option",
            )
    return WarmUp(given.get("warm_up") == PARTIAL, given.get("start") == NOW)


def check_warm_up(query: QueryDefinition) -> None:
    """Raise BindError if the query asks for a beginning that it cannot have."""
    asked = warm_up_of(query)
    given = [name for name, _ in query.options if name in OPTIONS]
    if given and query.archive is not None:
        raise BindError(
            f"{query.name}: {given[0]} is not for an archive",
            hint="it holds what its windows hold, from the first update on",
            place=query.place,
            id="query-option",
        )
    if asked.is_partial and asked.starts_now:
        raise BindError(
            f"{query.name}: warm_up = '{PARTIAL}' is not for a query with start = '{NOW}'",
            hint=f"with start = '{NOW}' its windows are whole at once: there is nothing to warm up",
            place=query.place,
            id="query-option",
        )
