"""LWS: movements happen at once, and abort queries that have read what they replace (002, Algorithm 7).

Sub-windows are read in the order in which they are stored. A query over a window shorter than the ring is
aborted when it has read a sub-window that has left *its* window (line 5 of the algorithm); what it has not
read yet it need not read any more, and it reads the new one instead.

With `rescans` nothing is aborted: the query reads the old copy again, takes its contribution back, and goes
on with the new one (section 7.4.2). Rows that a movement inserts into a sub-window that was already read, as
in a materialised weak non-monotonic result, are handed to the query (section 7.4.3).
"""

from __future__ import annotations

from typing import ClassVar

from sash.transactions.events import Aborted, Change, Event, Handed, Isolation, Moved, SubWindow
from sash.transactions.schedulers.policy import Key, Policy, Transaction
from sash.transactions.windows import Windows


class LWS(Policy):
    isolation: ClassVar[Isolation] = Isolation.LWS

    def __init__(self, *, rescans: bool = False) -> None:
        self.rescans = rescans

    def key(self, sub_window: SubWindow, transaction: Transaction, windows: Windows) -> Key:
        ring, pane = sub_window
        return windows.order[ring], pane % windows.rings[ring].size

    def is_wanted(self, sub_window: SubWindow, transaction: Transaction, windows: Windows) -> bool:
        ring, pane = sub_window
        return pane in windows.panes(ring, transaction.query.windows[ring])

    def version(self, sub_window: SubWindow, found: int, windows: Windows) -> int:
        return windows.version(sub_window)

    def moved(self, transaction: Transaction, moved: Moved, windows: Windows) -> list[Event]:
        transaction.state, transaction.instant = moved.number, moved.instant
        events: list[Event] = []
        for change in moved.changes:
            length = transaction.query.windows.get(change.ring)
            if length is None:
                continue
            window = windows.panes(change.ring, length)
            for sub_window in self._expired(transaction, change, length):
                if not self.rescans:
                    why = f"it had read sub-window {sub_window.pane} of {change.ring}"
                    return [Aborted(transaction.number, f"{why}, which movement {moved.number} replaced")]
                transaction.owed.append((sub_window, transaction.reads.pop(sub_window)))
            for pane in range(max(change.first, window.start), change.head + 1):
                self.await_read(SubWindow(change.ring, pane), transaction, windows)
            for pane in change.inserted:
                sub_window = SubWindow(change.ring, pane)
                if sub_window in transaction.reads:
                    transaction.reads[sub_window] = moved.number
                    events.append(Handed(transaction.number, sub_window, moved.number))
        return events

    def _expired(self, transaction: Transaction, change: Change, length: int) -> list[SubWindow]:
        """What was read and has left the query's window by this slide."""
        stop = change.head - length + 1
        if change.head - change.first + 1 < length:
            slid = (SubWindow(change.ring, pane) for pane in range(change.first - length, stop))
            return [each for each in slid if each in transaction.reads]
        # It slid by the whole window or further: nothing is left of what was read.
        return [each for each in transaction.reads if each.ring == change.ring and each.pane < stop]
