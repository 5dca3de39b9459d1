"""Histories for tests: the meaning of isolation by enumeration, random histories, random runs of schedulers.

The oracle knows no versions: the content of a sub-window is a bag of tokens, one for each movement that wrote
into it. An answer is the bag of what was read, and a state of a window is the bag of what is in it.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from random import Random

from sash.transactions.events import (
    Aborted,
    Began,
    Change,
    Committed,
    Event,
    Grown,
    Handed,
    Isolation,
    Moved,
    Query,
    Read,
    Ring,
    Settled,
    SubWindow,
    Undone,
)
from sash.transactions.history import History
from sash.transactions.schedulers import Policy, Scheduler
from sash.transactions.windows import Windows

Bag = Counter[tuple[SubWindow, int]]


class Replay:
    """The windows of a history after each movement, as bags of tokens."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.sizes = {ring.name: ring.size for ring in history.all_rings()}
        self.panes: dict[str, range] = {}
        self.tokens: dict[SubWindow, list[int]] = {}
        for ring in history.all_rings():
            self.panes[ring.name] = range(0)
            if ring.first is not None and ring.head is not None:
                self.panes[ring.name] = range(ring.first, ring.head + 1)
                for pane in self.panes[ring.name]:
                    self.tokens[SubWindow(ring.name, pane)] = [history.start]
        self.states: list[tuple[int, dict[str, range]]] = [(history.start, dict(self.panes))]
        self.committed: list[tuple[int, Query, Bag, int]] = []
        self._follow()

    def _follow(self):
        running: dict[int, tuple[Query, Bag]] = {}
        for event in self.history.events:
            match event:
                case Moved(number, _, changes):
                    for change in changes:
                        self._change(change, number)
                    self.states.append((number, dict(self.panes)))
                case Grown(name, size):
                    self.sizes[name] = size
                case Began(transaction, query):
                    running[transaction] = query, Counter()
                case Read(transaction, sub_window, version):
                    running[transaction][1].update(self._content(sub_window, version))
                case Handed(transaction, sub_window, version):
                    running[transaction][1][sub_window, version] += 1
                case Undone(transaction, sub_window, version):
                    running[transaction][1].subtract(self._content(sub_window, version))
                case Committed(transaction):
                    query, bag = running.pop(transaction)
                    self.committed.append((transaction, query, bag, self.states[-1][0]))
                case _:
                    pass

    def _change(self, change: Change, number: int):
        size, before = self.sizes[change.ring], self.panes[change.ring]
        for pane in (*range(change.first, change.head + 1), *change.inserted):
            self.tokens.setdefault(SubWindow(change.ring, pane), []).append(number)
        if change.head >= change.first:
            first = max(before.start if before else change.first, change.head - size + 1)
            self.panes[change.ring] = range(first, change.head + 1)

    def _content(self, sub_window: SubWindow, through: int) -> Bag:
        found = self.tokens[sub_window]
        return Counter((sub_window, token) for token in found if token <= max(through, self.history.start))

    def window(self, query: Query, state: int) -> Bag:
        """What the query would read after a movement."""
        (panes,) = (panes for number, panes in self.states if number == state)
        bag: Bag = Counter()
        for ring, length in query.windows.items():
            for pane in panes[ring][-length:]:
                bag.update(self._content(SubWindow(ring, pane), state))
        return bag

    def true_states(self, query: Query, answer: Bag, latest: int) -> list[int]:
        """The movements before the commit after which the windows were like the answer."""
        kept = {key: count for key, count in answer.items() if count}
        return [n for n, _ in self.states if n <= latest and dict(self.window(query, n)) == kept]


def all_edges(history: History, reads: dict[int, dict[SubWindow, int]]) -> set[tuple[str, str]]:
    """Every pair in conflict, by definition: two operations on one slot of which one writes."""
    writers: dict[tuple[str, int], set[int]] = {}
    sizes = {ring.name: ring.size for ring in history.all_rings()}
    for event in history.events:
        if isinstance(event, Moved):
            for change in event.changes:
                for pane in (*range(change.first, change.head + 1), *change.inserted):
                    writers.setdefault((change.ring, pane % sizes[change.ring]), set()).add(event.number)
    found = set[tuple[str, str]]()
    for numbers in writers.values():
        found.update((f"T{a}", f"T{b}") for a, b in itertools.permutations(numbers, 2) if a < b)
    committed = {event.transaction for event in history.events if isinstance(event, Committed)}
    for transaction in committed:
        for (ring, pane), version in reads.get(transaction, {}).items():
            for number in writers.get((ring, pane % sizes[ring]), ()):
                pair = (f"T{number}", f"Q{transaction}")
                found.add(pair if number <= version else pair[::-1])
    return found


def has_cycle(found: set[tuple[str, str]]) -> bool:
    later: dict[str, set[str]] = {}
    for a, b in found:
        later.setdefault(a, set()).add(b)
    while True:
        ends = {b for _, b in found} - later.keys()
        found = {(a, b) for a, b in found if b not in ends}
        fewer: dict[str, set[str]] = {}
        for a, b in found:
            fewer.setdefault(a, set()).add(b)
        if fewer == later:
            return bool(found)
        later = fewer


def random_rings(random: Random, most: int = 2) -> list[Ring]:
    rings = []
    for name in ("a", "b")[: random.randint(1, most)]:
        size, filled = random.randint(1, 5), random.randint(0, 5)
        span = (10, 9 + min(filled, size)) if filled else (None, None)
        rings.append(Ring(name, size, random.choice((1, 2, 5)), *span))
    return rings


def random_query(random: Random, rings: list[Ring], name: str = "q") -> Query:
    chosen = random.sample(rings, random.randint(1, len(rings)))
    windows = {ring.name: random.randint(1, ring.size) for ring in chosen}
    return Query(name, windows, random.choice(list(Isolation)), random.randint(0, 2))


def random_change(random: Random, ring: Ring, windows: Windows, *, inserts: bool) -> Change:
    head = windows.head(ring.name)
    by = random.choice((0, 1, 1, 1, 2, ring.size + 2)) if head is not None else random.randint(1, 3)
    start = 100 if head is None else head
    live = windows.panes(ring.name, ring.size)
    some = [pane for pane in live if inserts and pane > start + by - ring.size and random.random() < 0.4]
    return windows.change(ring.name, start + by, some, None if head is not None else start + 1)


def random_movement(random: Random, windows: Windows, *, inserts: bool) -> Moved:
    chosen = [ring for ring in windows.rings.values() if random.random() < 0.8]
    changes = tuple(random_change(random, ring, windows, inserts=inserts) for ring in chosen)
    changes = tuple(change for change in changes if change.head >= change.first or change.inserted)
    return Moved(windows.number + random.randint(1, 2), windows.instant + 10, changes)


def random_history(
    random: Random, *, old_versions: bool, late_commits: bool = False, grows: bool = False
) -> History:
    """Movements and reads that nobody schedules."""
    rings = random_rings(random)
    windows = Windows(rings, 5, 50)
    versions: dict[SubWindow, list[int]] = {
        SubWindow(ring.name, pane): [5] for ring in rings for pane in windows.panes(ring.name, ring.size)
    }
    held: dict[int, dict[SubWindow, int]] = {}
    queries: dict[int, Query] = {}
    unsettled: list[int] = []
    events: list[Event] = []
    for step in range(random.randint(1, 40)):
        kind = random.choice("mbrrrrrrrueacsg")
        running = sorted(held)
        if kind == "m":
            moved = random_movement(random, windows, inserts=True)
            is_settled = not late_commits or random.random() < 0.5
            moved = Moved(moved.number, moved.instant, moved.changes, is_settled)
            unsettled.extend([] if is_settled else [moved.number])
            windows.apply(moved)
            events.append(moved)
            for change in moved.changes:
                for pane in (*range(change.first, change.head + 1), *change.inserted):
                    versions.setdefault(SubWindow(change.ring, pane), []).append(moved.number)
        elif kind == "g" and grows:
            ring = random.choice(rings)
            windows.grow(ring.name, windows.rings[ring.name].size + random.randint(0, 2))
            events.append(Grown(ring.name, windows.rings[ring.name].size))
        elif kind == "s" and unsettled:
            events.append(Settled(unsettled.pop(random.randrange(len(unsettled)))))
        elif kind == "b" or not running:
            queries[step] = random_query(random, list(windows.rings.values()))
            held[step] = {}
            events.append(Began(step, queries[step]))
        elif kind == "r":
            k = random.choice(running)
            wanted = [
                SubWindow(ring, pane)
                for ring, length in queries[k].windows.items()
                for pane in windows.panes(ring, length)
            ]
            if old_versions:
                wanted.extend(each for each in versions if each.ring in queries[k].windows)
            wanted = [each for each in wanted if each not in held[k]]
            # Reads come in bursts, so that some queries do get what they want.
            for sub_window in wanted if random.random() < 0.5 else wanted[:1]:
                if sub_window not in held[k]:
                    version = (
                        random.choice(versions[sub_window]) if old_versions else versions[sub_window][-1]
                    )
                    held[k][sub_window] = version
                    events.append(Read(k, sub_window, version))
        elif kind == "u":
            k = random.choice(running)
            for sub_window, version in list(held[k].items()):
                following = [each for each in versions[sub_window] if each > version]
                if following and random.random() < 0.7:
                    held[k][sub_window] = following[0]
                    events.append(Handed(k, sub_window, following[0]))
                elif random.random() < 0.3:
                    del held[k][sub_window]
                    events.append(Undone(k, sub_window, version))
        else:
            k = random.choice(running)
            if kind == "a" and random.random() < 0.3:
                events.append(Aborted(k))
            elif kind == "a":
                continue
            else:
                events.append(Committed(k, windows.number, windows.instant))
            del held[k]
    return History.of(rings, events, start=5, instant=50)


def random_run(
    random: Random,
    policy: Callable[[], Policy],
    *,
    inserts: bool,
    atomic: bool,
    rings: list[Ring] | None = None,
    steps: int = 120,
) -> History:
    """Queries and movements in a random order under a scheduler.

    With `atomic` nothing happens while a sub-window is read, as in Algorithm 7; else movements do, as with
    threads.
    """
    rings = rings or random_rings(random)
    scheduler = Scheduler(rings, policy(), start=5, instant=50)
    # What is given to the scheduler may wait there: a movement is numbered after those that wait.
    ahead = Windows(rings, 5, 50)
    events: list[Event] = []
    busy = set[int]()
    eager = random.random()
    for step in range(steps):
        kind = random.choices("mansg", (eager, 0.3, 2, 2, 0.03))[0]
        if kind == "m":
            moved = random_movement(random, ahead, inserts=inserts)
            ahead.apply(moved)
            events.extend(scheduler.move(moved))
        elif kind == "g":
            ring = random.choice(list(ahead.rings.values()))
            # Serial may have movements waiting, which were made for the smaller ring.
            if ahead.number == scheduler.windows.number:
                ahead.grow(ring.name, ring.size + 1)
                events.extend(scheduler.grow(ring.name, ring.size + 1))
        elif kind == "a":
            query = random_query(random, list(ahead.rings.values()), f"q{step}")
            scheduler.arrive(Query(query.name, query.windows, policy().isolation, query.priority))
        elif kind == "n" and scheduler.running:
            chosen = (
                scheduler.choose() if atomic or random.random() < 0.5 else random.choice(scheduler.running)
            )
            assert chosen is not None
            events.extend(scheduler.next(chosen))
            busy.add(chosen)
            if atomic:
                events.extend(scheduler.done(chosen))
        elif busy:
            events.extend(scheduler.done(busy.pop()))
        scheduler.validate_state()
    return History.of(rings, events, start=5, instant=50)
