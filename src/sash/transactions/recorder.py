"""Writing down a history while it happens.

`record` only remembers, so that nobody who holds a lock waits for the disk; `flush` writes what it remembers.
Events get into the file in the order in which they were recorded, whoever flushes.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from sash.transactions.events import Event, Opened, Ring
from sash.transactions.json_lines import encode, header


class Recorder(Protocol):
    def record(self, events: Iterable[Event]) -> None:
        """Called in the order of events, under a lock: it must not wait."""


class Memory:
    """Keeps events for tests and simulations."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def record(self, events: Iterable[Event]) -> None:
        self.events.extend(events)


class HistoryFile:
    """Appends to a file that `sash verify-history` reads. Use as a context manager, or close it."""

    def __init__(self, path: Path, rings: Sequence[Ring], *, start: int = 0, instant: int = 0) -> None:
        self.path = path
        self._places = {ring.name: place for place, ring in enumerate(rings)}
        self._waiting: deque[Event] = deque()
        self._writing = threading.Lock()
        # A line that a crash cut off would swallow the header.
        _end_line(path)
        self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115
        self._file.write(header(rings, start, instant))
        self._file.flush()

    def record(self, events: Iterable[Event]) -> None:
        self._waiting.extend(events)

    def flush(self) -> None:
        """Write what was recorded so far; OSError if the disk refuses, and then nothing is lost."""
        with self._writing:
            while self._waiting:
                event = self._waiting[0]
                if isinstance(event, Opened):
                    self._places.setdefault(event.ring.name, len(self._places))
                self._file.write(encode(event, self._places))
                self._waiting.popleft()
            self._file.flush()

    def close(self) -> None:
        try:
            self.flush()
        finally:
            self._file.close()

    def __enter__(self) -> HistoryFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _end_line(path: Path) -> None:
    """Cut off half a line at the end of a file."""
    if not path.exists():
        return
    with open(path, "rb+") as file:
        content_end = file.seek(0, 2)
        # Lines are short: the last complete one ends within these bytes.
        file.seek(max(0, content_end - 1_000_000))
        tail = file.read()
        if tail and not tail.endswith(b"\n"):
            file.truncate(content_end - len(tail) + tail.rfind(b"\n") + 1)
