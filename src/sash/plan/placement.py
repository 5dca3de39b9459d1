"""Where the synopsis of a query is kept: with the driver, or divided among partitions by its groups.

The driver has synopses as long as their groups are few enough (`--max-driver-groups`); WITH (state = …) says
it for the synopsis of a query, and for those that share rows with it.
"""

from __future__ import annotations

from sash.errors import BindError
from sash.lang.bound import QueryDefinition
from sash.plan.periodic import is_periodic
from sash.plan.refresh import refresh_of

MAX_DRIVER_GROUPS = 1_000_000
AT_DRIVER, PARTITIONED = "driver", "partitioned"
STATES = (AT_DRIVER, PARTITIONED)
OPTIONS = ("state",)


def state_of(query: QueryDefinition) -> str | None:
    """Where the query asks to have its synopsis, None: wherever it fits; BindError if that is not known."""
    state = dict(query.options).get("state")
    if state is None:
        return None
    if str(state).lower() not in STATES:
        raise BindError(
            f"state = '{state}' is not known",
            expected=f"one of: {', '.join(STATES)}",
            got=f"'{state}'",
            place=query.place,
            id="query-option",
        )
    return str(state).lower()


def check_state(query: QueryDefinition) -> None:
    """Raise BindError if the query asks for something that it cannot have."""
    state = state_of(query)
    if state is None:
        return
    if not is_periodic(query):
        raise BindError(
            f"{query.name}: state is not for a query that is kept up row by row",
            place=query.place,
            hint="its operators are divided by key in any case; periodic aggregates have it",
            id="query-option",
        )
    if query.select is not None and not query.select.keys:
        raise BindError(
            f"{query.name}: a query without GROUP BY has one group, which cannot be divided",
            place=query.place,
            hint="leave state out: it is small, and always with the driver",
            id="query-option",
        )
    if state == PARTITIONED and refresh_of(query).is_elastic:
        raise BindError(
            f"{query.name}: state = '{PARTITIONED}' is not for a query that is refreshed elastically",
            place=query.place,
            hint="its groups are with the driver, which decides after each batch whom there is time for",
            id="query-option",
        )
