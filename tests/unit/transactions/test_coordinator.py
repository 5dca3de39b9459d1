"""Readers in threads beside a writer: true answers, no waiting, nothing lost, nothing kept for ever."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from functools import partial

import pytest

from sash.errors import InternalError, RunError
from sash.transactions.check import classify
from sash.transactions.coordinator import Coordinator, Insertion, Slide
from sash.transactions.events import Aborted, Isolation, Query, Ring, SubWindow, Undone
from sash.transactions.fold import Answer, Fold, UndoableFold
from sash.transactions.history import History
from sash.transactions.recorder import Memory

Rows = tuple[int, ...]
"""The value of a sub-window: numbers, none of them twice."""


class Gather(Fold[Rows, Counter[int]]):
    """Which numbers are in the window."""

    def __init__(self, pause: float = 0.0) -> None:
        self.found: Counter[int] = Counter()
        self._pause = pause

    def add(self, sub_window: SubWindow, value: Rows) -> None:
        if self._pause:
            time.sleep(self._pause)
        self.found.update(value)

    def finish(self) -> Counter[int]:
        return +self.found


class GatherAndUndo(Gather, UndoableFold[Rows, Counter[int]]):
    def remove(self, sub_window: SubWindow, value: Rows) -> None:
        self.found.subtract(value)


class World:
    """A writer of two rings and what it knows to be true after each movement."""

    def __init__(self) -> None:
        self.rings = [Ring("a", 6), Ring("b", 3, 2)]
        self.memory = Memory()
        self.released: list[Rows] = []
        self.coordinator: Coordinator[Rows] = Coordinator(
            self.rings, empty=(), recorder=self.memory, release=self.released.append
        )
        self.panes: dict[str, dict[int, Rows]] = {"a": {}, "b": {}}
        self.truth: dict[int, dict[str, dict[int, Rows]]] = {0: {"a": {}, "b": {}}}
        self.random = random.Random(7)
        self._next = 0
        self._heads = {"a": 9, "b": 9}

    def _rows(self, least: int = 0) -> Rows:
        count = self.random.randint(least, 3)
        self._next += count
        return tuple(range(self._next - count, self._next))

    def move(self) -> None:
        slides = {}
        for ring in self.rings:
            if self.random.random() < 0.2:
                continue
            by = self.random.choice((0, 1, 1, 1, 2))
            first = self._heads[ring.name] + 1
            if not self.panes[ring.name] and by == 0:
                continue
            head = self._heads[ring.name] = first + by - 1
            live = {pane: rows for pane, rows in self.panes[ring.name].items() if pane > head - ring.size}
            new = {pane: self._rows() for pane in range(first, head + 1) if self.random.random() < 0.9}
            inserts = {}
            for pane, rows in live.items():
                if self.random.random() < 0.3:
                    added = self._rows(1)
                    inserts[pane] = Insertion(rows + added, added)
                    live[pane] = rows + added
            self.panes[ring.name] = live | {pane: new.get(pane, ()) for pane in range(first, head + 1)}
            self.panes[ring.name] = {p: r for p, r in self.panes[ring.name].items() if p > head - ring.size}
            slides[ring.name] = Slide(head, new, inserts, first)
        number = max(self.truth) + 1
        # Known before readers can see it.
        self.truth[number] = {name: dict(panes) for name, panes in self.panes.items()}
        assert self.coordinator.move(10 * number, slides) == number

    def window(self, query: Query, state: int) -> Counter[int]:
        found: Counter[int] = Counter()
        for ring, length in query.windows.items():
            panes = self.truth[state][ring]
            for pane in sorted(panes)[-length:]:
                found.update(panes[pane])
        return found

    def history(self) -> History:
        return History.of(self.rings, self.memory.events)


QUERIES = [
    (Query("all", {"a": 6, "b": 3}), Gather),
    (Query("short", {"a": 2}), Gather),
    (Query("undo", {"a": 6, "b": 2}), GatherAndUndo),
    (Query("snapshot", {"a": 6, "b": 3}, Isolation.WS), Gather),
    (Query("once", {"a": 5}, priority=1), Gather),
    (Query("one pane", {"b": 1}, Isolation.WS, priority=2), Gather),
]


def test_every_answer_is_that_of_the_instant_it_names_while_the_window_slides():
    world = World()
    stop = threading.Event()
    answers: list[tuple[Query, Answer[Counter[int]]]] = []
    failures: list[BaseException] = []

    def read(query, fold, seed):
        pause = random.Random(seed)
        try:
            while not stop.is_set():
                make = partial(fold, pause.choice((0.0, 0.0002)))
                answers.append((query, world.coordinator.ask(query, make, attempts=1_000)))
                time.sleep(0.002)
        except BaseException as failure:
            failures.append(failure)

    threads = [
        threading.Thread(target=read, args=(query, fold, seed)) for seed, (query, fold) in enumerate(QUERIES)
    ]
    for thread in threads:
        thread.start()
    try:
        for _ in range(600):
            world.move()
            time.sleep(0.001)
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    assert not failures
    assert not any(thread.is_alive() for thread in threads)
    assert {query.name for query, _ in answers} == {query.name for query, _ in QUERIES}
    for query, answer in answers:
        assert answer.value == world.window(query, answer.state)
        assert answer.instant == 10 * answer.state
    found = classify(world.history())
    assert found.violation is None
    assert len(found.verdicts) == len(answers)
    # Nothing is kept but the windows, and what was let go was let go once.
    assert world.coordinator.held == sum(len(panes) for panes in world.panes.values())
    given = [rows for rows in world.released if rows]
    assert len(given) == len(set(given))


@pytest.fixture
def world() -> World:
    world = World()
    for _ in range(12):
        world.move()
    return world


def test_the_writer_does_not_wait_for_a_reader_that_is_stuck(world):
    release = threading.Event()
    reading = threading.Event()

    class Stuck(Gather):
        def add(self, sub_window, value):
            reading.set()
            assert release.wait(60)
            super().add(sub_window, value)

    answers = []
    query = Query("stuck", {"a": 6}, Isolation.WS)
    thread = threading.Thread(target=lambda: answers.append(world.coordinator.ask(query, Stuck)))
    thread.start()
    assert reading.wait(60)
    begun = world.coordinator.state[0]
    released, held = len(world.released), world.coordinator.held
    for _ in range(20):
        world.move()
    # All that it is going to read is kept beside the windows.
    assert world.coordinator.held > held
    assert len(world.released) > released
    release.set()
    thread.join(60)
    (answer,) = answers
    assert answer.state == begun
    assert answer.value == world.window(query, begun)
    assert world.coordinator.held == sum(len(panes) for panes in world.panes.values())


def test_a_latest_answer_is_newer_than_its_beginning(world):
    query = Query("q", {"a": 6})
    with world.coordinator.open(query) as reader:
        fold = Gather()
        for place, step in enumerate(reader):
            fold.add(SubWindow("a", 0), step.value)
            if place == 0:
                head = world._heads["a"] + 1
                world._heads["a"] = head
                world.panes["a"] = {p: r for p, r in world.panes["a"].items() if p > head - 6} | {head: (-1,)}
                number = max(world.truth) + 1
                world.truth[number] = {name: dict(panes) for name, panes in world.panes.items()}
                world.coordinator.move(10 * number, {"a": Slide(head, {head: (-1,)})})
    assert reader.committed is not None
    assert reader.committed.state == number
    assert fold.finish() == world.window(query, number)


def slide_far(world: World) -> None:
    """Every sub-window of ring a is replaced."""
    head = world._heads["a"] = world._heads["a"] + 6
    world.coordinator.move(0, {"a": Slide(head, {head: (-1,)})})


def test_who_can_take_back_reads_on_where_others_start_again(world):
    for fold, attempts, rescans in ((Gather, 2, 0), (GatherAndUndo, 1, 1)):
        slid: list[bool] = []

        class Slow(fold):  # type: ignore[misc, valid-type]
            def add(self, sub_window, value):
                super().add(sub_window, value)
                if not slid:  # noqa: B023
                    slid.append(True)  # noqa: B023
                    slide_far(world)

        answer = world.coordinator.ask(Query("q", {"a": 6}), Slow)
        assert answer.value == Counter((-1,))
        assert (answer.attempts, answer.rescans) == (attempts, rescans)
    assert classify(world.history()).violation is None
    assert sum(isinstance(event, Aborted) for event in world.memory.events) == 1
    assert sum(isinstance(event, Undone) for event in world.memory.events) == 1


def test_a_query_that_never_gets_through_is_told_how_it_would(world):
    class Hopeless(Gather):
        def add(self, sub_window, value):
            slide_far(world)

    with pytest.raises(RunError, match="aborted 3 times") as failed:
        world.coordinator.ask(Query("q", {"a": 6}), Hopeless, attempts=3)
    assert "isolation = 'ws'" in str(failed.value.hint)


def test_a_reader_that_fails_leaves_nothing_behind(world):
    class Broken(Gather):
        def add(self, sub_window, value):
            raise KeyError

    with pytest.raises(KeyError):
        world.coordinator.ask(Query("q", {"a": 6}, priority=9), Broken)
    slide_far(world)
    assert world.coordinator.held == 6 + len(world.panes["b"])
    # Nor does it hold up others of lower priority.
    assert world.coordinator.ask(Query("q", {"a": 1}), Gather).value == Counter((-1,))
    assert classify(world.history()).violation is None


def test_a_one_time_query_suspends_a_periodic_one(world):
    order: list[str] = []
    begun, goes_on = threading.Event(), threading.Event()

    class Periodic(Gather):
        def add(self, sub_window, value):
            order.append("periodic")
            begun.set()
            assert goes_on.wait(60)

    thread = threading.Thread(target=lambda: world.coordinator.ask(Query("periodic", {"a": 4}), Periodic))
    thread.start()
    assert begun.wait(60)
    with world.coordinator.open(Query("once", {"a": 4}, priority=1)) as reader:
        goes_on.set()
        for _ in reader:
            time.sleep(0.01)
            order.append("once")
    thread.join(60)
    assert order == ["periodic", "once", "once", "once", "once", "periodic", "periodic", "periodic"]


def test_rings_open_while_others_are_read(world):
    world.coordinator.open_ring(Ring("c", 2))
    query = Query("q", {"c": 2})
    assert world.coordinator.ask(query, Gather).value == Counter()
    world.coordinator.move(999, {"c": Slide(5, {4: (1,), 5: (2,)}, first=4)})
    answer = world.coordinator.ask(query, Gather)
    assert (answer.value, answer.instant) == (Counter((1, 2)), 999)
    assert classify(world.history()).violation is None


def test_parts_that_versions_share_are_let_go_with_the_last_of_them():
    released: list[str] = []
    coordinator: Coordinator[tuple[str, ...]] = Coordinator(
        [Ring("w", 2)], empty=(), release=released.append, parts=lambda files: files
    )
    coordinator.move(1, {"w": Slide(0, {0: ("f1",)})})
    with coordinator.open(Query("q", {"w": 2}, Isolation.WS)) as reader:
        (step,) = reader
        assert step.value == ("f1",)
        coordinator.move(2, {"w": Slide(0, {}, {0: Insertion(("f1", "f2"), ("f2",))})})
        coordinator.move(3, {"w": Slide(1, {1: ("f2", "f3")})})
        assert released == []
    # f1 is in the version that came after the one that was read.
    assert released == []
    coordinator.move(4, {"w": Slide(2)})
    assert released == ["f1"]
    coordinator.move(5, {"w": Slide(4)})
    assert sorted(released) == ["f1", "f2", "f3"]


def test_a_ring_that_grows_keeps_what_comes_from_now_on(world):
    world.coordinator.grow_ring("a", 9)
    query = Query("q", {"a": 9})
    for count in (6, 7, 8, 9, 9):
        assert sum(1 for _ in world.coordinator.open(query)) == count
        world._heads["a"] += 1
        world.coordinator.move(0, {"a": Slide(world._heads["a"])})
    with pytest.raises(InternalError):
        world.coordinator.grow_ring("a", 8)
    assert classify(world.history()).violation is None


def test_a_ring_that_goes_takes_its_queries_with_it(world):
    class Closing(Gather):
        def add(self, sub_window, value):
            super().add(sub_window, value)
            if "a" in world.coordinator._scheduler.windows.rings:
                world.coordinator.close_ring("a")

    with pytest.raises(RunError, match="no window over 'a'"):
        world.coordinator.ask(Query("q", {"a": 6, "b": 1}), Closing)
    assert world.coordinator.held == len(world.panes["b"])
    assert world.coordinator.ask(Query("q", {"b": 3}), Gather).value == world.window(
        Query("q", {"b": 3}), world.coordinator.state[0]
    )
    with pytest.raises(InternalError):
        world.coordinator.open_ring(Ring("a", 6))
    assert classify(world.history()).violation is None


def test_a_window_that_cannot_slide_like_that_is_a_bug_and_changes_nothing(world):
    before = world.coordinator.state
    slides: list[Slide[Rows]] = [Slide(-5), Slide(world._heads["a"], inserts={-9: Insertion((), ())})]
    for slide in slides:
        with pytest.raises(InternalError):
            world.coordinator.move(1, {"a": slide})
    assert world.coordinator.state == before
