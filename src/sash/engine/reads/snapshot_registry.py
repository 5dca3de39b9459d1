"""The snapshot registry of a run: its committed states in their order, and who reads them (002, chapter 7).

A stream that keeps rows is a ring of sub-windows: RETAIN is cut into `SUB_WINDOWS` of equal length, and the
newest one is that of the instant up to which all is known. No row comes before that instant any more, so a
commit is a window movement: it adds to the newest sub-window, begins others, and lets old ones go. A question
is a read-only transaction of the scheduler: LWS in TTU order, where what left meanwhile is taken back, or WS.

Invariant: `latest` is the state after the scheduler's last movement. All of it happens under one lock, which
is held for decisions only; files are read outside. So what is recorded is in the order in which it happened.

Files of a state that somebody reads are not removed: a reading holds the state that it is at. What synopses
keep in memory is read in a turn, between two batches (`Turns`), when it is that of the latest state.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from sash.engine.ingest.retained_files import FIRST, Snapshot
from sash.engine.reads.index_probe import OpenFile
from sash.engine.reads.synopsis_read import KeptPanes
from sash.errors import UserError
from sash.plan.cost.indexes import SUB_WINDOWS
from sash.transactions.events import (
    Change,
    Committed,
    Covered,
    Event,
    Isolation,
    Moved,
    Query,
    Read,
    Ring,
    Undone,
)
from sash.transactions.recorder import Recorder
from sash.transactions.schedulers import TTU, WS, Scheduler

# How long the end of a run waits for those who still read its files, in seconds.
_PATIENCE = 10.0


class Turns:
    """A lock that is given to those who wait for it in the order in which they came."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_taken = False
        self._waiting: deque[threading.Event] = deque()

    def __enter__(self) -> None:
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return
            turn = threading.Event()
            self._waiting.append(turn)
        try:
            turn.wait()
        except BaseException:
            # Ctrl-C: the turn may have come meanwhile.
            with self._lock:
                if turn in self._waiting:
                    self._waiting.remove(turn)
                    raise
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._is_taken = False


class SnapshotRegistry:
    """`start` is the last batch of which it knows nothing, `follow` looks for newer commits elsewhere."""

    def __init__(
        self, start: int = -1, recorder: Recorder | None = None, follow: Callable[[], None] | None = None
    ) -> None:
        self.latest: Snapshot | None = None
        # Files of kept rows that questions have opened, by name, as long as the newest state has them.
        self.opened: dict[str, OpenFile] = {}
        self.follow = follow or (lambda: None)
        # Whose turn it is to use the synopses in memory: the run's, or a question's.
        self.turns = Turns()
        self._recorder = recorder
        self._lock = threading.Lock()
        # How many read each state, and the states.
        self._readers: Counter[int] = Counter()
        self._read: dict[int, Snapshot] = {}
        self._questions = 0
        self._has_ended = False
        self._scheduler = Scheduler((), TTU(), restarts=False, start=start, instant=FIRST)
        # By stream, and how often a stream of that name has come.
        self._rings: dict[str, Ring] = {}
        self._came: dict[str, int] = {}
        # By stream, the instant that its ring has come to.
        self._passed: dict[str, int] = {}

    def commit(self, snapshot: Snapshot, retains: Mapping[str, int]) -> None:
        """The windows move to a newly committed state; `retains` says how long streams keep their rows."""
        with self._lock:
            windows = self._scheduler.windows
            if snapshot.batch <= windows.number:
                return
            events = self._fit(retains)
            slid = []
            for stream, ring in self._rings.items():
                before, now = self._passed.get(stream, FIRST), snapshot.passed.get(stream, FIRST)
                self._passed[stream] = now
                if now != before:
                    slid.append(self._slide(ring, before, now))
            instant = max(self._passed.values(), default=FIRST)
            events += self._scheduler.move(Moved(snapshot.batch, instant, tuple(slid)))
            self._note(events)
            self.latest = snapshot
            for gone in sorted(self.opened.keys() - {file.name for file in snapshot.kept}):
                del self.opened[gone]

    def replan(self, panes: KeptPanes | None) -> None:
        """The synopses of the latest state are others: queries have come or gone."""
        with self._lock:
            if self.latest is not None:
                self.latest = replace(self.latest, panes=panes)

    @property
    def read(self) -> list[Snapshot]:
        """The states that are being read: their files must stay."""
        with self._lock:
            return list(self._read.values())

    def close(self) -> None:
        """The run has ended, and takes its files along: no more questions, and those at work may finish."""
        deadline = time.monotonic() + _PATIENCE
        with self._lock:
            self._has_ended = True
        while self._questions and time.monotonic() < deadline:
            time.sleep(0.01)

    def _hold(self, state: Snapshot) -> None:
        self._readers[id(state)] += 1
        self._read[id(state)] = state

    def _release(self, state: Snapshot) -> None:
        self._readers[id(state)] -= 1
        if not self._readers[id(state)]:
            del self._readers[id(state)], self._read[id(state)]

    def _fit(self, retains: Mapping[str, int]) -> list[Event]:
        """Rings for the streams that there are now; those at work on others are aborted."""
        events: list[Event] = []
        for stream, ring in list(self._rings.items()):
            if stream not in retains or _shape(retains[stream]) != (ring.size, ring.period):
                events += self._scheduler.close(self._rings.pop(stream).name)
                self._passed.pop(stream, None)
        for stream, retain in retains.items():
            if stream not in self._rings:
                again = self._came[stream] = self._came.get(stream, 0) + 1
                name = stream if again == 1 else f"{stream} ({again})"
                ring = self._rings[stream] = Ring(name, *_shape(retain))
                events += self._scheduler.open(ring)
        return events

    def _slide(self, ring: Ring, before: int, now: int) -> Change:
        """What it means for a ring that time has come so far."""
        windows = self._scheduler.windows
        head, newest = -(-now // ring.period), windows.head(ring.name)
        # A sub-window has its rows up to the instant that was reached, unless that was its end.
        is_open = newest is not None and before % ring.period != 0 and newest > head - ring.size
        added = (newest,) if is_open and newest is not None else ()
        return windows.change(ring.name, head, added, head - ring.size + 1)

    def _ring_named(self, name: str) -> tuple[str, Ring]:
        return next((stream, ring) for stream, ring in self._rings.items() if ring.name == name)

    def _note(self, events: list[Event]) -> None:
        if self._recorder is not None:
            self._recorder.record(events)

    @contextmanager
    def reading(self, name: str, spans: Mapping[str, int | None], isolation: Isolation) -> Iterator[Reading]:
        """A question over the last `span` microseconds of streams; None: over all that they keep."""
        with self._lock:
            if self._has_ended:
                raise UserError(
                    "the run has ended", hint="ask again: the answer is that of the end", id="run-ended"
                )
            self._questions += 1
            windows = {
                ring.name: ring.size if span is None else min(ring.size, -(-span // ring.period) + 1)
                for stream, span in spans.items()
                if (ring := self._rings.get(stream)) is not None
            }
            policy = WS() if isolation is Isolation.WS else TTU(rescans=True)
            number = self._scheduler.arrive(Query(name, windows, isolation, priority=1), policy)
        reading = Reading(self, number, isolation, tuple(spans))
        try:
            yield reading
        finally:
            with self._lock:
                self._questions -= 1
                reading._go_to(None)
                if number in self._scheduler.running:
                    self._note(self._scheduler.withdraw(number, "given up"))


@dataclass(frozen=True, slots=True)
class Step:
    """A sub-window to be read: the rows of a stream later than `after`, as they are in a state."""

    state: Snapshot
    stream: str
    after: int


class Reading:
    """One question: read its steps, evaluate the state, commit.

    Where the commit is refused there is a newer state, which has steps of its own.
    """

    def __init__(
        self, registry: SnapshotRegistry, number: int, isolation: Isolation, streams: tuple[str, ...]
    ) -> None:
        self._streams = streams
        self._registry = registry
        self._number = number
        self._isolation = isolation
        self._state: Snapshot | None = None

    @property
    def state(self) -> Snapshot:
        """The state whose sub-windows have been read, when there are no more steps."""
        assert self._state is not None
        return self._state

    def steps(self) -> Iterator[Step]:
        """What is to be read next, until there is nothing more."""
        while (step := self._next()) is not None:
            yield step

    def _next(self) -> Step | None:
        home = self._registry
        with home._lock:
            while True:
                self._check()
                events = home._scheduler.next(self._number)
                home._note(events)
                assert home.latest is not None
                if self._state is None or self._isolation is Isolation.LWS:
                    self._go_to(home.latest)
                    assert self._state is not None
                for event in events:
                    if isinstance(event, Read):
                        stream, ring = home._ring_named(event.sub_window.ring)
                        return Step(self._state, stream, (event.sub_window.pane - 1) * ring.period)
                # What is taken back needs no second reading: operators know when rows leave their windows.
                if not any(isinstance(event, Undone) for event in events):
                    return None

    def _go_to(self, state: Snapshot | None) -> None:
        """Hold the files of a state, and no longer those of the one before. The caller has the lock."""
        before, self._state = self._state, state
        if state is not None:
            self._registry._hold(state)
        if before is not None:
            self._registry._release(before)

    def covered(self, source: str, after: int, until: int, since: int | None) -> None:
        """The answer needs the window (after, until] of a source that is complete since an instant."""
        home = self._registry
        with home._lock:
            self._check()
            home._note([Covered(self._number, source, after, until, since)])

    def commit(self) -> bool:
        """The answer stands, unless it has to be that of the newest state and is not."""
        home = self._registry
        if self._isolation is Isolation.LWS:
            home.follow()
        with home._lock:
            self._check()
            assert home.latest is not None
            if self._isolation is Isolation.LWS and self._instant(home.latest) != self._instant(self.state):
                return False
            ended = home._scheduler.done(self._number)
            home._note(ended)
            return any(isinstance(event, Committed) for event in ended)

    def _instant(self, state: Snapshot) -> int | None:
        return state.through(self._streams)

    def _check(self) -> None:
        if self._number not in self._registry._scheduler.running:
            raise UserError(
                "a stream of the question was dropped meanwhile",
                hint="ask again if there is another one of its name",
                id="no-window",
            )


def _shape(retain: int) -> tuple[int, int]:
    """The size and period of a ring: the rows that are kept may begin in the midst of a sub-window."""
    period = max(1, -(-retain // SUB_WINDOWS))
    return -(-retain // period) + 1, period
