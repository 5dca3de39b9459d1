"""What every source can do: check itself, plan the next chunks, and say how far it is.

A source lives on the driver and never sees a row. Planning is a pure function of the position and of
what lies on disk (for a paced generator: and of the clock), so a new process that plans from a saved
position goes on exactly where the old one stopped.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

from sash.connectors.sources.chunk import DEFAULT_TARGET_ROWS, Plan, Position
from sash.connectors.sources.options import Options
from sash.errors import SourceError
from sash.lang.bound import StreamDefinition


class Source(ABC):
    """The input of one stream, as the driver sees it."""

    def __init__(self, stream: StreamDefinition) -> None:
        self.stream = stream

    @property
    @abstractmethod
    def bounded(self) -> bool:
        """Whether the input has an end."""

    @property
    def paced(self) -> bool:
        """Whether rows come as time passes, so that a batch may wait for more of them."""
        return not self.bounded

    @property
    def has_wall_time(self) -> bool:
        """Whether rows are of the time at which they come, so that none can be far ahead of it."""
        return not self.bounded

    def check_definition(self) -> None:
        """Raise SourceError for what is wrong with the definition, whatever there is to read."""
        _ = self.heartbeat

    @abstractmethod
    def check(self) -> None:
        """Raise SourceError for what can be seen to be wrong without reading rows; the definition, too."""

    @abstractmethod
    def plan(self, position: Position, max_rows: int, target_rows: int = DEFAULT_TARGET_ROWS) -> Plan:
        """The chunks after `position`: at most `max_rows` rows in all, about `target_rows` each."""

    @abstractmethod
    def progress(self, position: Position) -> float | None:
        """The share of bounded input that is planned at `position`; None where there is no end."""

    @property
    def heartbeat(self) -> float:
        """After so many seconds without rows nobody waits for a live stream; infinite: for ever."""
        options = Options.of(self.stream)
        if "heartbeat" not in options.values:
            return math.inf
        if self.bounded:
            raise self.error(
                "option 'heartbeat' is for live input, and this input ends",
                hint="take the option away: at its end, input that ends holds nobody back",
            )
        return options.number("heartbeat", 1.0, 0.001)

    def reads(self, place: str) -> bool:
        """Whether what is written to `place`, a real path, is or becomes input of this source."""
        return False

    def error(self, message: str, **details: str | None) -> SourceError:
        # A relation that is read once has no timestamps.
        kind = "stream" if self.stream.timestamp else "relation"
        return SourceError(f"{kind} '{self.stream.name}': {message}", **details)  # type: ignore[arg-type]
