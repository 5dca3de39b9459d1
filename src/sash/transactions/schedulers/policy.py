"""A read-only transaction, and how a policy lets it read.

A policy decides in which order a transaction reads its sub-windows, and what a window movement means for one
that is half done. It keeps no state of its own: transactions of several policies run side by side.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

from sash.transactions.events import Aborted, Event, Isolation, Moved, Query, Read, SubWindow, Undone
from sash.transactions.windows import Windows

Key = tuple[int, ...]


@dataclass(slots=True)
class Transaction:
    """`reads` is the bit array B of Algorithms 7 and 8, with the version that was read of each sub-window.

    `waiting` is a heap of what is still to be read; entries whose pane has left the query's window are
    dropped when they come up. `owed` are old copies that have to be read again, to be taken back.
    """

    number: int
    query: Query
    policy: Policy
    arrival: int
    state: int = 0
    instant: int = 0
    is_begun: bool = False
    reads: dict[SubWindow, int] = field(default_factory=dict)
    waiting: list[tuple[Key, SubWindow, int]] = field(default_factory=list)
    owed: list[tuple[SubWindow, int]] = field(default_factory=list)


class Policy(ABC):
    isolation: ClassVar[Isolation]
    delays_movements: ClassVar[bool] = False
    """Whether the window stands still while a transaction reads. Then nobody suspends it, either."""

    @abstractmethod
    def key(self, sub_window: SubWindow, transaction: Transaction, windows: Windows) -> Key:
        """The order of reading: the least comes first. It does not change while the window slides."""

    def begin(self, transaction: Transaction, windows: Windows) -> None:
        transaction.state, transaction.instant = windows.number, windows.instant
        transaction.waiting = [
            self._entry(SubWindow(ring, pane), transaction, windows)
            for ring, length in transaction.query.windows.items()
            for pane in windows.panes(ring, length)
        ]
        heapq.heapify(transaction.waiting)

    def await_read(self, sub_window: SubWindow, transaction: Transaction, windows: Windows) -> None:
        heapq.heappush(transaction.waiting, self._entry(sub_window, transaction, windows))

    def _entry(
        self, sub_window: SubWindow, transaction: Transaction, windows: Windows
    ) -> tuple[Key, SubWindow, int]:
        return self.key(sub_window, transaction, windows), sub_window, windows.version(sub_window)

    def moved(self, transaction: Transaction, moved: Moved, windows: Windows) -> list[Event]:
        """What a movement means for a transaction that has begun; `windows` are those after it."""
        return []

    @abstractmethod
    def is_wanted(self, sub_window: SubWindow, transaction: Transaction, windows: Windows) -> bool:
        """Whether a sub-window that waits still has to be read."""

    @abstractmethod
    def version(self, sub_window: SubWindow, found: int, windows: Windows) -> int:
        """Which version a transaction reads of a sub-window that had version `found` when it was noted."""

    def next(self, transaction: Transaction, windows: Windows) -> Read | Undone | None:
        """Its next operation, which counts as done from now on; None when there is nothing left to read."""
        if transaction.owed:
            sub_window, version = transaction.owed.pop()
            return Undone(transaction.number, sub_window, version)
        if not self.has_more(transaction, windows):
            return None
        _, sub_window, found = heapq.heappop(transaction.waiting)
        version = self.version(sub_window, found, windows)
        transaction.reads[sub_window] = version
        return Read(transaction.number, sub_window, version)

    def has_more(self, transaction: Transaction, windows: Windows) -> bool:
        if transaction.owed:
            return True
        waiting = transaction.waiting
        while waiting and not self.is_wanted(waiting[0][1], transaction, windows):
            heapq.heappop(waiting)
        return bool(waiting)


def is_abort(events: list[Event]) -> bool:
    return any(isinstance(event, Aborted) for event in events)


def expires(sub_window: SubWindow, query: Query, windows: Windows) -> int:
    """When the ring will have slid a sub-window out of the query's window, in microseconds.

    Among the sub-windows of one ring this is the order of their time-to-update (TTU).
    """
    ring, pane = sub_window
    return (pane + query.windows[ring]) * windows.rings[ring].period
