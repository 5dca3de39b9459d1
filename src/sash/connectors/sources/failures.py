"""A file of a source that cannot be read."""

from __future__ import annotations

from sash.disk import reason, remedy
from sash.errors import SourceError


def unreadable(path: str, failure: Exception, kind: str = "") -> SourceError:
    """`kind` is what it was to be read as."""
    got, hint = (str(failure).splitlines() or ["no reason given"])[0], None
    if isinstance(failure, OSError) and failure.errno is not None:
        got = reason(failure)
        hint = f"{remedy(failure)}, then start again: with --checkpoint the run goes on where it was"
    return SourceError(f"cannot read '{path}'{f' as {kind}' if kind else ''}", got=got, hint=hint)
