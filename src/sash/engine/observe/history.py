"""The recorded history of a run: a file that `sash verify-history` checks.

Worth less than the run that it is about: a file that cannot be opened is the user's to mend, one that fails
later ends with a warning, and the run goes on. What was written until then can be checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from sash.disk import reason
from sash.engine.ingest.retained_files import FIRST
from sash.errors import UserError
from sash.transactions.events import Event
from sash.transactions.json_lines import header
from sash.transactions.recorder import HistoryFile

_BEGINNING = header((), 0, 0)[:16].encode()


class RunHistory:
    """A recorder. `start` is the last batch before the history; histories that the file has stay in it."""

    def __init__(self, path: Path, start: int, warn: Callable[[str], None]) -> None:
        self._path = path
        self._warn = warn
        self._file: HistoryFile | None = None
        try:
            if path.exists() and not _is_history(path):
                raise UserError(
                    f"'{path}' is there and holds no history",
                    expected="a new file, or one that --record-history wrote",
                    id="record-history",
                )
            self._file = HistoryFile(path, (), start=start, instant=FIRST)
        except OSError as failure:
            raise UserError(
                f"cannot write a history to '{path}'",
                got=reason(failure),
                hint="name a file in a folder that is there and can be written",
                id="record-history",
            ) from failure

    def record(self, events: Iterable[Event]) -> None:
        if self._file is not None:
            self._file.record(events)

    def flush(self) -> None:
        """Write what happened so far."""
        self._attempt(HistoryFile.flush)

    def close(self) -> None:
        self._attempt(HistoryFile.close)
        self._file = None

    def _attempt(self, write: Callable[[HistoryFile], None]) -> None:
        file = self._file
        if file is None:
            return
        try:
            write(file)
        except OSError as failure:
            # A history with a gap would be none.
            self._file = None
            with suppress(OSError):
                file.close()
            told = f"cannot write the history to '{self._path}': {reason(failure)}"
            self._warn(f"{told}; it ends here, the run goes on")


def _is_history(path: Path) -> bool:
    with open(path, "rb") as file:
        found = file.read(len(_BEGINNING))
    return not found or found == _BEGINNING
