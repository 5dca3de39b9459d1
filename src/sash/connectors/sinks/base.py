"""What every sink can do: check itself, take rows, and go on exactly where it was committed.

The life of a sink: `check()`, `lock()`, `open(committed)`, then `write(table)` any number of times with a
`commit()` after each batch, and `close()`. What was written after the last commit is taken back by `close()`
where that is possible, and what was written after the last commit that the caller kept by the next
`open(committed)`, so a run that was killed anywhere gives every row once.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from sash.disk import reason, remedy
from sash.errors import OutputClosed, SinkError

Committed = dict[str, Any]
"""What a sink had been given at a commit: JSON-able, opaque to everyone but the sink that made it."""


def _keep_on() -> None:
    """Nobody wants to give up."""


class Sink(ABC):
    """Where the answers of one query go.

    Without `durable` a commit does not wait for the disk: nobody will go on from it after a crash.
    """

    durable = True
    # Whether what was written cannot be taken back.
    is_stream = False
    # Whether rows of progress come between those of answers, and whether rows of both can have other columns.
    tells_progress = False
    names_columns = False
    # Called while rows are written, and while the sink waits for a reader; may raise to give the batch up.
    look: Callable[[], None] = staticmethod(_keep_on)

    def __init__(self, uri: str, schema: pa.Schema) -> None:
        self.uri = uri
        self.schema = schema

    def check_definition(self) -> None:  # noqa: B027
        """Raise for what is wrong with the definition, whatever there is at its place."""

    @abstractmethod
    def check(self) -> None:
        """Raise SinkError if writing is bound to fail; changes nothing on disk."""

    def lock(self) -> None:  # noqa: B027
        """Raise SinkError if another run writes there; changes nothing that others see."""

    @abstractmethod
    def open(self, committed: Committed | None) -> None:
        """Start anew (None), replacing what is there, or go on exactly at a committed position."""

    def verify(self, committed: Committed) -> None:  # noqa: B027
        """Raise SinkError unless what was committed is there; for who does not go on from it."""

    @abstractmethod
    def write(self, table: pa.Table) -> None:
        """Append rows; they need not be durable, or even visible, before the next commit."""

    def reach(self, through: int | None) -> None:  # noqa: B027
        """All answers up to `through` are written; told before each commit."""

    @abstractmethod
    def commit(self) -> Committed:
        """Make all rows durable; gives what `open` needs to go on from here."""

    def revert(self) -> None:  # noqa: B027
        """The last commit does not count: another sink of the batch could not commit."""

    def leave(self) -> None:  # noqa: B027
        """Take back rows after the last commit and write no more, also while another thread writes."""

    def check_unchanged(self) -> None:  # noqa: B027
        """Raise SinkError if somebody else has changed what this sink has written, as far as can be seen."""

    @abstractmethod
    def close(self) -> None:
        """Let go of everything, and take back rows after the last commit where that can be done."""

    def closed(self) -> OutputClosed:
        return OutputClosed(
            f"'{self.uri}': whoever read the output has left",
            is_quiet=False,
            hint="start again with a reader that stays",
        )

    def check_reader(self) -> None:  # noqa: B027
        """Raise OutputClosed if whoever read the output has left; asked while there are no rows."""

    def error(self, message: str, **details: str | None) -> SinkError:
        return SinkError(f"'{self.uri}': {message}", **details)  # type: ignore[arg-type]

    @contextmanager
    def disk(self, doing: str) -> Iterator[None]:
        """Tell a failure of the disk as SinkError, a reader that has left as OutputClosed."""
        try:
            yield
        except BrokenPipeError as failure:
            raise self.closed() from failure
        except OSError as failure:
            raise self.error(
                f"cannot {doing}",
                got=reason(failure),
                hint=f"{remedy(failure)}, then start again: with --checkpoint no row is lost or doubled",
            ) from failure

    def check_directory(self, directory: Path) -> None:
        """Raise SinkError unless the directory is there, or can be made, and can be written."""
        standing = directory
        while not os.path.lexists(standing) and standing != standing.parent:
            standing = standing.parent
        if not standing.is_dir():
            raise self.error(f"'{standing}' is not a directory", hint="name another path for the output")
        if not os.access(standing, os.W_OK | os.X_OK):
            raise self.error(f"'{standing}' cannot be written", hint="check the permissions of the directory")
