"""What goes wrong with an archive, in words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sash.disk import reason, remedy
from sash.errors import ArchiveError


@contextmanager
def told(path: Path, doing: str = "write") -> Iterator[None]:
    """Tell a refusal of the disk as ArchiveError."""
    try:
        yield
    except OSError as failure:
        raise ArchiveError(
            f"cannot {doing} '{path}'",
            got=reason(failure),
            hint=f"{remedy(failure)}; the last version that was committed can still be read",
            id="archive-disk",
        ) from failure


def damaged(path: Path, expected: str, got: str) -> ArchiveError:
    return ArchiveError(
        f"the file '{path}' of the archive is damaged",
        expected=expected,
        got=got,
        hint="put the file back from a copy, read an earlier version (--version N), or make the archive anew",
        id="archive-damaged",
    )


def missing(path: Path) -> ArchiveError:
    return ArchiveError(
        f"the file '{path}' of the archive is missing",
        hint="put it back, or read an earlier version (--version N): only the archive may remove its files",
        id="archive-missing",
    )
