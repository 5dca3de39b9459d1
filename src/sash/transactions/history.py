"""A history: the operations of window movements and queries in the order in which they took effect."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sash.transactions.events import Began, Event, Opened, Query, Ring


@dataclass(frozen=True, slots=True)
class History:
    """Rings as they are before the first event; `start` is the number of the movement that left them so."""

    rings: tuple[Ring, ...]
    start: int
    instant: int
    events: tuple[Event, ...]

    @staticmethod
    def of(rings: Iterable[Ring], events: Iterable[Event], *, start: int = 0, instant: int = 0) -> History:
        return History(tuple(rings), start, instant, tuple(events))

    def all_rings(self) -> tuple[Ring, ...]:
        """Those at the start, and those that were opened later."""
        return (*self.rings, *(event.ring for event in self.events if isinstance(event, Opened)))

    def queries(self) -> dict[int, Query]:
        """The queries by transaction."""
        return {event.transaction: event.query for event in self.events if isinstance(event, Began)}
