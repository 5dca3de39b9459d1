"""Readers and one writer of windows in one process.

Sub-windows are immutable values (arrays, tables, names of files). The writer moves the windows at once; it
waits for no reader, only for decisions of some microseconds under a lock. Readers run in threads of their
own: each asks which sub-window to read next, and reads it outside the lock. A value that has left the windows
is kept as long as somebody who read it is still at work, then given to `release`, outside the lock.

Isolation is chosen per query: LWS reads in TTU order and is aborted or re-scans when it has read what a
movement replaced; WS reads the windows as they were at its start. While a reader of higher priority is at
work, others wait between two sub-windows.

Invariant: every value in the windows is held, and so is every one that an open reader has read or, under
WS, is going to read.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from sash.errors import InternalError, RunError
from sash.transactions.events import (
    Aborted,
    Began,
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
from sash.transactions.recorder import Recorder
from sash.transactions.schedulers import TTU, WS, Scheduler

V = TypeVar("V")
R = TypeVar("R")
Version = tuple[SubWindow, int]


@dataclass(frozen=True, slots=True)
class Insertion(Generic[V]):
    """Rows for a live sub-window: its whole new value, and what is new in it."""

    value: V
    added: V


@dataclass(frozen=True, slots=True)
class Slide(Generic[V]):
    """What a movement does to a ring. New panes that are not given are empty.

    `first` is the oldest pane of a ring that was empty.
    """

    head: int
    panes: Mapping[int, V] = field(default_factory=dict)
    inserts: Mapping[int, Insertion[V]] = field(default_factory=dict)
    first: int | None = None


@dataclass(slots=True)
class _Copy(Generic[V]):
    value: V
    pins: int = 0
    is_live: bool = True


@dataclass(frozen=True, slots=True)
class Step(Generic[V]):
    """What a reader has to do next: `operation` is Read (add), Handed (insert) or Undone (remove)."""

    operation: Read | Handed | Undone
    value: V


class Coordinator(Generic[V]):
    """`empty` is the value of a pane in which nothing happened; `release` gets values that nobody needs.

    Versions of a sub-window may share parts, such as files to which an insert adds one: then `parts` tells
    those of a value, and `release` gets each part when no version has it any more.
    """

    def __init__(
        self,
        rings: Iterable[Ring],
        *,
        empty: V,
        recorder: Recorder | None = None,
        release: Callable[[Any], None] | None = None,
        parts: Callable[[V], Iterable[Hashable]] | None = None,
        start: int = 0,
        instant: int = 0,
    ) -> None:
        self._scheduler = Scheduler(
            rings, TTU(), restarts=False, start=start, instant=instant, retire=self._retired
        )
        if any(ring.head is not None for ring in self._scheduler.windows.rings.values()):
            raise InternalError("rings are empty at first; what they hold comes by a movement")
        self._empty = empty
        self._recorder = recorder
        self._release = release
        self._parts = parts
        self._sharers: Counter[Hashable] = Counter()
        self._lock = threading.Lock()
        self._turn = threading.Condition(self._lock)
        self._copies: dict[Version, _Copy[V]] = {}
        self._readers: dict[int, Reader[V]] = {}
        self._dead: list[Any] = []

    # ------------------------------------------------------------------------------------- the writer

    @property
    def state(self) -> tuple[int, int]:
        """The number of the newest movement and its instant."""
        with self._lock:
            return self._scheduler.windows.number, self._scheduler.windows.instant

    def open_ring(self, ring: Ring) -> None:
        with self._lock:
            self._note(self._scheduler.open(ring))

    def grow_ring(self, name: str, size: int) -> None:
        """Keep more sub-windows from now on, for a query over a longer window."""
        with self._lock:
            self._note(self._scheduler.grow(name, size))

    def close_ring(self, name: str) -> None:
        """A ring goes, and its name with it; whoever reads it is aborted, and keeps what it has read."""
        with self._lock:
            self._note(self._scheduler.close(name))
            for reader in self._readers.values():
                if name in reader.query.windows:
                    reader._why = f"ring '{name}' is gone"
            self._turn.notify_all()
            dead = self._take_dead()
        self._let_go(dead)

    def move(self, instant: int, slides: Mapping[str, Slide[V]], number: int | None = None) -> int:
        """Slide rings, all at once; gives the number of the movement."""
        with self._lock:
            windows = self._scheduler.windows
            number = windows.number + 1 if number is None else number
            if number <= windows.number:
                raise InternalError(f"movement {number} after {windows.number}")
            changes = [
                windows.change(ring, slide.head, sorted(slide.inserts), slide.first)
                for ring, slide in slides.items()
            ]
            for change, (ring, slide) in zip(changes, slides.items(), strict=True):
                for pane in range(change.first, change.head + 1):
                    self._hold(SubWindow(ring, pane), number, slide.panes.get(pane, self._empty))
                for pane, insertion in slide.inserts.items():
                    self._hold(SubWindow(ring, pane), number, insertion.value)
            events = self._scheduler.move(Moved(number, instant, tuple(changes)))
            self._note(events)
            for event in events:
                if isinstance(event, Handed):
                    ring, pane = event.sub_window
                    self._readers[event.transaction]._hand(event, slides[ring].inserts[pane].added)
                elif isinstance(event, Aborted):
                    self._readers[event.transaction]._why = event.why
            # Who waits for its turn may have been aborted.
            self._turn.notify_all()
            dead = self._take_dead()
        self._let_go(dead)
        return number

    def _hold(self, sub_window: SubWindow, version: int, value: V) -> None:
        self._copies[sub_window, version] = _Copy(value)
        if self._parts is not None:
            self._sharers.update(self._parts(value))

    def _retired(self, sub_window: SubWindow, version: int) -> None:
        copy = self._copies[sub_window, version]
        copy.is_live = False
        if copy.pins == 0:
            self._forget((sub_window, version))

    def _forget(self, version: Version) -> None:
        value = self._copies.pop(version).value
        if self._parts is None:
            self._dead.append(value)
            return
        for part in self._parts(value):
            self._sharers[part] -= 1
            if not self._sharers[part]:
                del self._sharers[part]
                self._dead.append(part)

    def _take_dead(self) -> list[Any]:
        dead, self._dead = self._dead, []
        return dead

    def _let_go(self, dead: list[Any]) -> None:
        if self._release is not None:
            for value in dead:
                self._release(value)

    def _note(self, events: list[Event]) -> None:
        if self._recorder is not None:
            self._recorder.record(events)

    @property
    def held(self) -> int:
        """How many values are kept, in the windows and for readers."""
        with self._lock:
            return len(self._copies)

    # ------------------------------------------------------------------------------------ the readers

    def open(self, query: Query, *, rescans: bool = False) -> Reader[V]:
        """A reader for one attempt of a query; to be closed, best as a context manager."""
        policy = WS() if query.isolation is Isolation.WS else TTU(rescans=rescans)
        with self._lock:
            for ring in query.windows:
                if ring not in self._scheduler.windows.rings:
                    hint = "its stream was dropped, or has not come into being"
                    raise RunError(f"there is no window over '{ring}'", hint=hint, id="no-window")
            number = self._scheduler.arrive(query, policy)
            reader = self._readers[number] = Reader(self, number, query)
        return reader

    def ask(self, query: Query, fold: Callable[[], Fold[V, R]], attempts: int = ATTEMPTS) -> Answer[R]:
        """The answer of a query, which starts again when it is aborted.

        RunError after `attempts`: the window slides faster than it can be read.
        """
        why = ""
        for attempt in range(1, attempts + 1):
            work = fold()
            with self.open(query, rescans=isinstance(work, UndoableFold)) as reader:
                rescans = _run(reader, work)
                if reader.committed is not None:
                    state, instant = reader.committed.state, reader.committed.instant
                    return Answer(work.finish(), instant, state, query.isolation, attempt, rescans)
                why = reader.why
        raise overtaken(query.name, attempts, why)


class Reader(Generic[V]):
    """Iterates over the steps of one attempt, in one thread. `committed` tells that there were no more."""

    def __init__(self, coordinator: Coordinator[V], number: int, query: Query) -> None:
        self.query = query
        self.committed: Committed | None = None
        self._coordinator = coordinator
        self._number = number
        self._why: str | None = None
        self._mail: deque[Step[V]] = deque()
        self._pins: set[Version] = set()
        self._is_open = True

    @property
    def why(self) -> str:
        """Why it was aborted."""
        return self._why or ""

    def __iter__(self) -> Iterator[Step[V]]:
        while (step := self._next()) is not None:
            yield step

    def _next(self) -> Step[V] | None:
        home = self._coordinator
        with home._lock:
            while self._why is None and self._is_suspended():
                home._turn.wait()
            if self._why is not None or self.committed is not None:
                return None
            if self._mail:
                return self._mail.popleft()
            events = home._scheduler.next(self._number)
            step = None
            for event in events:
                if isinstance(event, Began):
                    self._pin_snapshot()
                elif isinstance(event, Read | Undone):
                    self._pin((event.sub_window, event.version))
                    step = Step(event, home._copies[event.sub_window, event.version].value)
            if step is None:
                ended = home._scheduler.done(self._number)
                (self.committed,) = (event for event in ended if isinstance(event, Committed))
                events.extend(ended)
                self._end()
            home._note(events)
        return step

    def _is_suspended(self) -> bool:
        return any(
            other.query.priority > self.query.priority for other in self._coordinator._readers.values()
        )

    def _pin_snapshot(self) -> None:
        if self.query.isolation is Isolation.WS:
            for _, sub_window, version in self._coordinator._scheduler.transaction(self._number).waiting:
                self._pin((sub_window, version))

    def _pin(self, version: Version) -> None:
        if version not in self._pins:
            self._pins.add(version)
            self._coordinator._copies[version].pins += 1

    def _hand(self, handed: Handed, added: V) -> None:
        self._pin((handed.sub_window, handed.version))
        self._mail.append(Step(handed, added))

    def _end(self) -> None:
        """It takes no turns any more."""
        self._coordinator._readers.pop(self._number, None)
        self._coordinator._turn.notify_all()

    def close(self) -> None:
        """Let go of what it has read. An attempt that has not ended is given up."""
        home = self._coordinator
        with home._lock:
            if not self._is_open:
                return
            self._is_open = False
            if self.committed is None and self._why is None:
                home._note(home._scheduler.withdraw(self._number, "given up"))
            self._end()
            for version in self._pins:  # any order: each is let go of alone
                copy = home._copies[version]
                copy.pins -= 1
                if copy.pins == 0 and not copy.is_live:
                    home._forget(version)
            dead = home._take_dead()
        home._let_go(dead)

    def __enter__(self) -> Reader[V]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _run(reader: Reader[V], fold: Fold[V, R]) -> int:
    rescans = 0
    for step in reader:
        match step.operation:
            case Read(_, sub_window):
                fold.add(sub_window, step.value)
            case Handed(_, sub_window):
                fold.insert(sub_window, step.value)
            case Undone(_, sub_window):
                assert isinstance(fold, UndoableFold)
                fold.remove(sub_window, step.value)
                rescans += 1
    return rescans
