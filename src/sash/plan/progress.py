"""Whether a query tells its progress, with WITH (progress = true).

Its output then has rows of their own that say up to which instant it is answered (`runtime/progress.py`).
"""

from __future__ import annotations

from sash.errors import BindError, DuplicateName
from sash.lang.bound import QueryDefinition

OPTIONS = ("progress",)
COLUMN = "progress"
"""The column that such an output has more, the last one."""

_ALLOWED = {"true": True, "false": False}


def tells_progress(query: QueryDefinition) -> bool:
    """What the query asks for; BindError if it is not known."""
    said = dict(query.options).get("progress", False)
    if str(said).lower() not in _ALLOWED:
        raise BindError(
            f"progress = '{said}' is not known",
            expected=f"one of: {', '.join(_ALLOWED)}",
            got=f"'{said}'",
            place=query.place,
            id="query-option",
        )
    return _ALLOWED[str(said).lower()]


def check_progress(query: QueryDefinition) -> None:
    """Raise BindError if the query cannot tell its progress as it asks to."""
    if tells_progress(query) and query.archive is not None:
        raise BindError(
            f"{query.name}: progress is not for an archive",
            place=query.place,
            hint="SHOW ARCHIVES tells through which instant it has everything",
            id="query-option",
        )
    if tells_progress(query) and any(field.name.casefold() == COLUMN for field in query.plan.fields):
        raise DuplicateName(
            f"query {query.name}: no column can be called '{COLUMN}', which is what it says of itself",
            place=query.place,
            hint=f"rename it: {COLUMN} AS my_{COLUMN}",
        )
