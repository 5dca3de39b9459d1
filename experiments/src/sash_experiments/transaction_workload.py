"""What the experiments with window transactions share: a simulated query manager (002, section 7.5.1).

One processor runs read-only transactions and window movements, one operation at a time, under the schedulers
of `sash.transactions`. Five periodic queries each share a transaction: they read as far as the longest of
their windows, whose lengths are drawn between one and all sub-windows. All of them are re-executed
round-robin, without a pause. One-time queries come at random times and have the higher priority. The rate of
the stream, one packet a millisecond, deviates from sub-window to sub-window by up to ten times.

The publication states no costs. `Costs` has ours: what a sub-window costs to read was chosen such that a
query over 100 sub-windows of one second takes somewhat longer than a second, because nearly every transaction
is said to meet a window movement there. A sub-window costs something whatever is in it; else the ratio of
scans to slides would not depend on the length of sub-windows, as it does in the published results. Time is
simulated, so results depend on no machine.
"""

from __future__ import annotations

import heapq
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sash.errors import InternalError
from sash.transactions.check import Classification, classify
from sash.transactions.events import (
    Aborted,
    Change,
    Committed,
    Event,
    Moved,
    Query,
    Read,
    Ring,
)
from sash.transactions.history import History
from sash.transactions.schedulers import LWS, TTU, WS, Policy, Scheduler, Serial
from sash_experiments.result import Note

SECOND = 1_000_000
RING = "packets"
SCHEDULERS: Mapping[str, Callable[[], Policy]] = {"Serial": Serial, "WS": WS, "LWS": LWS, "TTU": TTU}
SHARED = 5
ONCE = 1


@dataclass(frozen=True, slots=True)
class Costs:
    """Microseconds: to read a sub-window, beside that each tuple (of a one-time query, less), to write one.

    `decision` is what a scheduler other than Serial takes to decide about a read.
    """

    sub_window: float = 9_000
    tuple: float = 4
    one_time: float = 0.15
    movement: float = 1
    decision: float = 20


@dataclass(frozen=True, slots=True)
class Load:
    """A workload: `sub_windows` of `seconds` each, periodic queries, one-time queries a second."""

    sub_windows: int
    seconds: int
    periodic: int
    one_time: float = 0.0
    windows: int = 1
    costs: Costs = Costs()

    @property
    def duration(self) -> int:
        return self.windows * self.sub_windows * self.seconds * SECOND


@dataclass(frozen=True, slots=True)
class Commit:
    """When a transaction arrived and reported, and the instant that its answer reflects."""

    query: str
    is_once: bool
    arrived: int
    reported: int
    reflects: int


@dataclass(slots=True)
class Outcome:
    """What a scheduler made of a workload; `deciding` are the seconds that the processor really took."""

    load: Load
    commits: list[Commit] = field(default_factory=list)
    aborts: int = 0
    reads: int = 0
    deciding: float = 0.0
    events: list[Event] = field(default_factory=list)

    @property
    def aborted(self) -> float:
        """The share of read-only transactions that were aborted."""
        return self.aborts / max(1, self.aborts + len(self.commits))

    def staleness(self, *, is_once: bool) -> float:
        """Seconds from the window movement that an answer reflects to its report."""
        return _mean([(c.reported - c.reflects) / SECOND for c in self.commits if c.is_once == is_once])

    @property
    def response(self) -> float:
        """Seconds from the arrival of a one-time query to its report."""
        return _mean([(c.reported - c.arrived) / SECOND for c in self.commits if c.is_once])

    @property
    def between(self) -> float:
        """Seconds between two reports of a periodic query, on average over the queries.

        The time before the first and after the last report counts, too: else queries that hardly ever get
        through would not.
        """
        reports = Counter(commit.query for commit in self.commits if not commit.is_once)
        names = [f"p{i}" for i in range(self.load.periodic // SHARED)]
        return _mean([self.load.duration / SECOND / (reports[name] + 1) for name in names])

    @property
    def throughput(self) -> float:
        """Read-only transactions a second."""
        return len(self.commits) / (self.load.duration / SECOND)

    def history(self) -> History:
        ring = Ring(RING, self.load.sub_windows, self.load.seconds * SECOND, 0, self.load.sub_windows - 1)
        return History.of([ring], self.events, start=self.load.sub_windows - 1)

    def classified(self) -> Classification:
        return classify(self.history())


def _mean(values: Sequence[float]) -> float:
    return statistics.fmean(values) if values else 0.0


def simulate(load: Load, policy: Policy, seed: int) -> Outcome:
    """Run a workload under one scheduler; the same seed is the same workload."""
    return _Simulation(load, policy, seed).run()


class _Simulation:
    def __init__(self, load: Load, policy: Policy, seed: int) -> None:
        random = np.random.default_rng(seed)
        n = load.sub_windows
        self._load = load
        self._policy = policy
        self._outcome = Outcome(load)
        self._scheduler = Scheduler([Ring(RING, n, load.seconds * SECOND, 0, n - 1)], policy, start=n - 1)
        self._tuples = _tuples(random, load)
        lengths = random.integers(1, n + 1, (load.periodic // SHARED, SHARED)).max(axis=1)
        self._periodic = [self._query(f"p{i}", int(length)) for i, length in enumerate(lengths)]
        self._due = list(self._arrivals(random))
        heapq.heapify(self._due)
        self._arrived: dict[int, tuple[Query, int]] = {}
        self._now = 0

    def _query(self, name: str, length: int, priority: int = 0) -> Query:
        return Query(name, {RING: length}, self._policy.isolation, priority)

    def _arrivals(self, random: np.random.Generator) -> Iterator[tuple[int, int, Moved | Query]]:
        """When movements and one-time queries are due; movements first."""
        load, n = self._load, self._load.sub_windows
        for i in range(1, load.windows * n + 1):
            pane, instant = n - 1 + i, i * load.seconds * SECOND
            yield instant, -pane, Moved(pane, instant, (Change(RING, pane, pane),))
        instant, number = 0, 0
        while load.one_time:
            instant += int(random.exponential(SECOND / load.one_time))
            if instant >= load.duration:
                return
            number += 1
            yield instant, number, self._query(f"o{number}", int(random.integers(1, n + 1)), ONCE)

    def run(self) -> Outcome:
        started = time.process_time()
        for query in self._periodic:
            self._arrive(query, 0)
        while self._now < self._load.duration:
            self._deliver()
            chosen = self._scheduler.choose()
            if chosen is None:
                self._now = self._due[0][0] if self._due else self._load.duration
                continue
            for event in self._scheduler.next(chosen):
                self._outcome.events.append(event)
                if isinstance(event, Read):
                    self._now += self._cost(event)
                    self._outcome.reads += 1
            self._happen(self._scheduler.done(chosen))
        self._outcome.deciding = time.process_time() - started
        return self._outcome

    def _arrive(self, query: Query, instant: int) -> None:
        self._arrived[self._scheduler.arrive(query)] = query, instant

    def _deliver(self) -> None:
        """What has become due while an operation was under way."""
        while self._due and self._due[0][0] <= self._now:
            instant, _, due = heapq.heappop(self._due)
            if isinstance(due, Query):
                self._arrive(due, instant)
            else:
                self._happen(self._scheduler.move(due))

    def _happen(self, events: list[Event]) -> None:
        self._outcome.events.extend(events)
        for event in events:
            if isinstance(event, Moved):
                self._now += int(self._load.costs.movement * self._tuples[event.number])
            elif isinstance(event, Aborted):
                self._outcome.aborts += 1
                assert event.again is not None
                self._arrived[event.again] = self._arrived.pop(event.transaction)
            elif isinstance(event, Committed):
                query, arrived = self._arrived.pop(event.transaction)
                is_once = query.priority == ONCE
                self._outcome.commits.append(Commit(query.name, is_once, arrived, self._now, event.instant))
                if not is_once:
                    self._arrive(query, self._now)

    def _cost(self, read: Read) -> int:
        costs = self._load.costs
        query, _ = self._arrived[read.transaction]
        share = costs.one_time if query.priority == ONCE else 1.0
        deciding = 0.0 if self._policy.delays_movements else costs.decision
        work = costs.sub_window + costs.tuple * self._tuples[read.sub_window.pane]
        return int(share * work + deciding)


def _tuples(random: np.random.Generator, load: Load) -> list[float]:
    """Packets by pane: a thousand a second on average, more or less by a factor of up to ten."""
    drawn = 10 ** random.uniform(-1, 1, (load.windows + 1) * load.sub_windows + 1)
    steady = 9.9 / (2 * np.log(10))
    return [float(each) for each in 1_000 * load.seconds * drawn / steady]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Numbers of sub-windows, how often workloads are drawn anew, and how many window lengths runs last."""

    sub_windows: tuple[int, ...]
    trials: int
    windows: int = 1


SCALES = {
    "small": Sizes((10, 25, 50, 100), 3),
    "paper": Sizes((10, 20, 30, 40, 50, 60, 70, 80, 90, 100), 5),
}

Seen = dict[tuple[int, int, str], list[Outcome]]
"""The trials by seconds of a sub-window, number of sub-windows, and scheduler."""

# Seconds of a sub-window and periodic queries, as published.
FREQUENT, RARE = (1, 40), (5, 100)


def sweep(
    cases: Sequence[tuple[int, int]],
    sizes: Sizes,
    note: Note,
    *,
    one_time: float = 0.0,
    costs: Costs | None = None,
) -> Seen:
    """Every scheduler on the same workloads; histories are checked and let go."""
    seen: Seen = {}
    whole = sum(sizes.sub_windows) * len(cases)
    done = 0
    for seconds, periodic in cases:
        for n in sizes.sub_windows:
            note(f"{periodic} periodic queries, {n} sub-windows of {seconds} s", done / whole)
            load = Load(n, seconds, periodic, one_time, sizes.windows, costs or Costs())
            for name, policy in SCHEDULERS.items():
                outcomes = [simulate(load, policy(), seed) for seed in range(sizes.trials)]
                for outcome in outcomes:
                    check(outcome, name)
                seen[seconds, n, name] = outcomes
            done += n
    return seen


def check(outcome: Outcome, scheduler: str) -> None:
    """A scheduler that breaks its promise makes the measurement void."""
    found = outcome.classified()
    if found.violation is not None:
        raise InternalError(f"{scheduler}: {found.violation.broken}")
    outcome.events.clear()


def mean(outcomes: Sequence[Outcome], measure: Callable[[Outcome], float]) -> float:
    return statistics.fmean(measure(outcome) for outcome in outcomes)
