"""Reading the windows of a pipeline that runs in another process, at LWS or WS.

The pipeline commits *views*: of which parts (files) each sub-window of each ring is made. A reader takes a
lease, loads the newest view and reads its sub-windows in TTU order. Between two sub-windows, and once more at
the end, it looks for a newer view: the difference is a movement, and the scheduler decides as it does inside
the pipeline. Parts that were added to a sub-window that has been read are handed over. If one has lost a
part, as by compaction, the attempt starts again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from sash.errors import RunError
from sash.transactions.events import (
    Aborted,
    Committed,
    Event,
    Handed,
    Isolation,
    Moved,
    Query,
    Read,
    Ring,
    SubWindow,
    Undone,
)
from sash.transactions.fold import ATTEMPTS, Answer, Fold, UndoableFold, overtaken
from sash.transactions.history import History
from sash.transactions.leases import Lease
from sash.transactions.schedulers import TTU, WS, Scheduler

P = TypeVar("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class RingView(Generic[P]):
    """A ring with the parts of its panes; a pane without parts is empty."""

    ring: Ring
    parts: Mapping[int, tuple[P, ...]]


@dataclass(frozen=True, slots=True)
class View(Generic[P]):
    """What a manifest names: `number` is that of its batch."""

    number: int
    instant: int
    rings: Mapping[str, RingView[P]]


Load = Callable[[int | None], View[P] | None]
"""Gives the committed view if it is newer than the one of that number."""


def ask_manifest(
    query: Query,
    fold: Callable[[], Fold[tuple[P, ...], R]],
    load: Load[P],
    leases: Path,
    *,
    attempts: int = ATTEMPTS,
    witness: Callable[[History], None] | None = None,
) -> Answer[R]:
    """The answer of a query over the committed windows; `witness` gets the history of every attempt.

    RunError if there is no view, or after `attempts`: the windows slide faster than they are read.
    """
    for attempt in range(1, attempts + 1):
        with Lease(leases) as lease:
            view = load(None)
            if view is None:
                raise RunError("nothing has been committed yet", hint="try again in a moment", id="no-state")
            lease.hold(view.number)
            reading = _Reading(query, fold(), view, load)
            committed = reading.run()
            if witness is not None:
                witness(History.of(reading.rings, reading.events, start=view.number, instant=view.instant))
            if committed is not None:
                value = reading.fold.finish()
                found = committed.instant, committed.state
                return Answer(value, *found, query.isolation, attempt, reading.rescans)
    raise overtaken(query.name, attempts, "newer states were committed meanwhile")


class _Reading(Generic[P, R]):
    """One attempt, from a view on."""

    def __init__(self, query: Query, fold: Fold[tuple[P, ...], R], view: View[P], load: Load[P]) -> None:
        self.fold = fold
        self.rings = tuple(view.rings[name].ring for name in query.windows)
        self.events: list[Event] = []
        self.rescans = 0
        self._view = view
        self._load = load
        self._parts = dict(_parts(view, query))
        self._is_latest = query.isolation is Isolation.LWS
        self._scheduler = Scheduler(
            self.rings,
            TTU(rescans=isinstance(fold, UndoableFold)) if self._is_latest else WS(),
            restarts=False,
            start=view.number,
            instant=view.instant,
        )
        self._number = self._scheduler.arrive(query)
        self._query = query

    def run(self) -> Committed | None:
        """The commit; None if the attempt was aborted."""
        while True:
            events = self._scheduler.next(self._number)
            self.events.extend(events)
            self._perform(events)
            if self._is_latest and not self._follow():
                return None
            ended = self._scheduler.done(self._number)
            self.events.extend(ended)
            for event in ended:
                if isinstance(event, Committed):
                    return event

    def _perform(self, events: list[Event]) -> None:
        for event in events:
            match event:
                case Read(_, sub_window, version):
                    self.fold.add(sub_window, self._parts[sub_window, version])
                case Undone(_, sub_window, version):
                    assert isinstance(self.fold, UndoableFold)
                    self.fold.remove(sub_window, self._parts[sub_window, version])
                    self.rescans += 1
                case _:
                    pass

    def _follow(self) -> bool:
        """Go to the newest view; False if that is the end of the attempt."""
        while (newer := self._load(self._view.number)) is not None:
            if not self._go_to(newer):
                return False
        return True

    def _go_to(self, newer: View[P]) -> bool:
        changes, added = [], dict[SubWindow, tuple[P, ...] | None]()
        for ring in self.rings:
            now = newer.rings[ring.name]
            if (now.ring.size, now.ring.period) != (ring.size, ring.period):
                return self._give_up(f"ring '{ring.name}' is another one")
            if now.ring.head is None:
                continue
            before = self._view.rings[ring.name].parts
            live = self._scheduler.windows.panes(ring.name, ring.size)
            for pane in live:
                old, new = before.get(pane, ()), now.parts.get(pane, ())
                if pane > now.ring.head - ring.size and old != new:
                    more = tuple(part for part in new if part not in old)
                    added[SubWindow(ring.name, pane)] = more if set(old) <= set(new) else None
            inserted = sorted(pane for name, pane in added if name == ring.name)
            changes.append(self._scheduler.windows.change(ring.name, now.ring.head, inserted, now.ring.first))
        self._parts.update(_parts(newer, self._query))
        events = self._scheduler.move(Moved(newer.number, newer.instant, tuple(changes)))
        self._view = newer
        self.events.extend(events)
        for event in events:
            if isinstance(event, Aborted):
                return False
            if isinstance(event, Handed):
                more_parts = added[event.sub_window]
                if more_parts is None:
                    return self._give_up(f"sub-window {event.sub_window.pane} has lost a part")
                self.fold.insert(event.sub_window, more_parts)
        return True

    def _give_up(self, why: str) -> bool:
        self.events.extend(self._scheduler.withdraw(self._number, why))
        return False


def _parts(view: View[P], query: Query) -> Mapping[tuple[SubWindow, int], tuple[P, ...]]:
    """What each live sub-window is made of, as of this view."""
    found = {}
    for name in query.windows:
        shown = view.rings[name]
        if shown.ring.first is not None and shown.ring.head is not None:
            for pane in range(shown.ring.first, shown.ring.head + 1):
                found[SubWindow(name, pane), view.number] = shown.parts.get(pane, ())
    return found
