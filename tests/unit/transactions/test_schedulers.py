"""Schedulers keep their promise in every interleaving, and TTU aborts least."""

from __future__ import annotations

import itertools
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.transactions.kit import Replay, random_run

from sash.errors import InternalError
from sash.transactions.check import classify
from sash.transactions.events import (
    Aborted,
    Began,
    Change,
    Committed,
    Handed,
    Isolation,
    Moved,
    Query,
    Read,
    Ring,
    SubWindow,
    Undone,
)
from sash.transactions.history import History
from sash.transactions.notation import RING, write_history
from sash.transactions.schedulers import LWS, TTU, WS, Scheduler, Serial

# Seeds instead of st.randoms(): a history has hundreds of draws.
RANDOM = st.integers(0, 2**32).map(Random)
POLICIES = {
    "Serial": Serial,
    "WS": WS,
    "LWS": LWS,
    "TTU": TTU,
    "LWS, re-scanning": lambda: LWS(rescans=True),
    "TTU, re-scanning": lambda: TTU(rescans=True),
}


@pytest.mark.parametrize("atomic", [True, False])
@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=80)
@given(RANDOM, st.booleans())
def test_every_committed_query_has_the_level_that_its_scheduler_promises(name, atomic, random, inserts):
    # A query that reads while something else happens is not serial.
    atomic = atomic or name == "Serial"
    history = random_run(random, POLICIES[name], inserts=inserts, atomic=atomic)
    found = classify(history)
    assert found.violation is None, write_history(history) if len(history.rings) == 1 else found.violation
    if POLICIES[name]().isolation is Isolation.LWS:
        assert found.is_latest_window_serializable
    assert found.is_window_serializable
    replay = Replay(history)
    for _, query, answer, latest in replay.committed:
        assert replay.true_states(query, answer, latest)
    if "re-scanning" in name or name in ("Serial", "WS"):
        assert not any(isinstance(event, Aborted) for event in history.events)
    else:
        assert not any(isinstance(event, Undone) for event in history.events)


class Ranked(LWS):
    """Reads in a given order of panes: every order in which reads can come is one of these."""

    def __init__(self, ranks, *, rescans=False):
        super().__init__(rescans=rescans)
        self._ranks = ranks

    def key(self, sub_window, transaction, windows):
        return (self._ranks[sub_window.pane],)


def run_one(policy, size, length, interleaving):
    """One query; R lets it do an operation, M slides the window, and in the end it finishes."""
    scheduler = Scheduler([Ring(RING, size, 1, 0, size - 1)], policy, restarts=False, start=size - 1)
    number = scheduler.arrive(Query("q", {RING: length}, Isolation.LWS))
    head = size - 1
    events = []
    for token in itertools.chain(interleaving, itertools.repeat("R")):
        if token == "M":
            head += 1
            events.extend(scheduler.move(Moved(head, head, (Change(RING, head, head),))))
        elif scheduler.running:
            events.extend(scheduler.next(number))
            events.extend(scheduler.done(number))
        if not scheduler.running:
            return events
    raise AssertionError


@pytest.mark.parametrize(("size", "movements"), [(1, 2), (2, 3), (3, 3), (4, 2)])
@pytest.mark.parametrize("rescans", [False, True])
def test_theorem_7_4_no_order_of_reading_has_fewer_aborts_or_rescans_than_ttu(size, movements, rescans):
    kind = Undone if rescans else Aborted
    for length in range(1, size + 1):
        for moves in range(1, movements + 1):
            panes = range(size - length, size + moves)
            interleavings = set(itertools.permutations("R" * (length - 1) + "M" * moves))
            for interleaving in sorted(interleavings):
                interleaving = ("R", *interleaving)
                ttu = run_one(TTU(rescans=rescans), size, length, interleaving)
                fewest = min(
                    sum(
                        isinstance(event, kind)
                        for event in run_one(Ranked(ranks, rescans=rescans), size, length, interleaving)
                    )
                    for order in itertools.permutations(panes)
                    for ranks in [dict(zip(panes, order, strict=True))]
                )
                assert sum(isinstance(event, kind) for event in ttu) == fewest


def test_ttu_reads_as_in_history_he():
    interleaving = "RMRRRMR"
    events = run_one(TTU(), 5, 5, interleaving)
    ring = Ring(RING, 5, 1, 0, 4)
    assert write_history(History.of([ring], events, start=4, instant=4)) == (
        "rQ1[4] w5[0] c5 rQ1[0] rQ1[3] rQ1[2] w6[1] c6 rQ1[1] cQ1"
    )


def test_lws_aborts_where_ttu_does_not():
    assert any(isinstance(event, Aborted) for event in run_one(LWS(), 5, 5, "RMRRRMR"))


def slide(head):
    return Moved(head, head, (Change("w", head, head),))


def make(policy, size=3, **options):
    return Scheduler([Ring("w", size, 1, 0, size - 1)], policy, start=size - 1, **options)


def test_a_shorter_window_is_aborted_by_what_leaves_it_and_not_by_what_leaves_the_ring():
    scheduler = make(LWS(), 5)
    short = scheduler.arrive(Query("short", {"w": 2}))
    assert scheduler.next(short)[1] == Read(short, SubWindow("w", 3), 4)
    (moved, aborted) = scheduler.move(slide(5))
    assert moved == slide(5)
    assert aborted == Aborted(
        short, "it had read sub-window 3 of w, which movement 5 replaced", again=short + 1
    )
    again = scheduler.next(short + 1)
    assert again[1] == Read(short + 1, SubWindow("w", 5), 5)


def test_an_aborted_query_starts_again_behind_the_others():
    scheduler = make(LWS())
    first, second = scheduler.arrive(Query("first", {"w": 3})), scheduler.arrive(Query("second", {"w": 3}))
    scheduler.next(first)
    scheduler.move(slide(3))
    assert scheduler.choose() == second
    assert scheduler.running == (second, second + 1)


def test_a_one_time_query_suspends_a_periodic_one_but_not_under_serial():
    for policy, suspended in ((TTU(), True), (Serial(), False)):
        scheduler = make(policy)
        periodic = scheduler.arrive(Query("periodic", {"w": 3}))
        scheduler.next(periodic)
        once = scheduler.arrive(Query("once", {"w": 3}, priority=1))
        assert scheduler.choose() == (once if suspended else periodic)
        while (chosen := scheduler.choose()) is not None:
            scheduler.next(chosen)
            scheduler.done(chosen)


def test_serial_lets_movements_wait_for_the_query_that_reads():
    scheduler = make(Serial(), 2)
    query = scheduler.arrive(Query("q", {"w": 2}))
    assert scheduler.move(slide(2)) == [slide(2)]
    scheduler.next(query)
    assert scheduler.move(slide(3)) == []
    assert scheduler.done(query) == []
    scheduler.next(query)
    assert scheduler.done(query) == [Committed(query, 2, 2), slide(3)]


def test_a_rescan_reads_the_old_copy_and_then_the_new_one():
    scheduler = make(LWS(rescans=True), 2)
    query = scheduler.arrive(Query("q", {"w": 2}))
    assert scheduler.next(query)[-1] == Read(query, SubWindow("w", 0), 1)
    assert scheduler.move(slide(2)) == [slide(2)]
    assert scheduler.next(query) == [Undone(query, SubWindow("w", 0), 1)]
    assert scheduler.next(query) == [Read(query, SubWindow("w", 2), 2)]
    assert scheduler.next(query) == [Read(query, SubWindow("w", 1), 1)]
    assert scheduler.done(query) == [Committed(query, 2, 2)]


def test_inserts_into_what_was_read_are_handed_over_and_others_are_read_in_place():
    scheduler = make(TTU())
    query = scheduler.arrive(Query("q", {"w": 3}))
    assert scheduler.next(query)[-1] == Read(query, SubWindow("w", 2), 2)
    moved = Moved(3, 3, (Change("w", 3, 3, (1, 2)),))
    assert scheduler.move(moved) == [moved, Handed(query, SubWindow("w", 2), 3)]
    assert scheduler.next(query) == [Read(query, SubWindow("w", 3), 3)]
    assert scheduler.next(query) == [Read(query, SubWindow("w", 1), 3)]
    assert scheduler.done(query) == [Committed(query, 3, 3)]


def test_rings_of_different_periods_are_read_by_the_time_at_which_they_slide():
    # Sub-windows of a leave its window at 3, 4, 5; those of b at 2 · 2 and 3 · 2.
    rings = [Ring("a", 3, 1, 0, 2), Ring("b", 2, 2, 0, 1)]
    scheduler = Scheduler(rings, TTU(), start=1)
    query = scheduler.arrive(Query("q", {"a": 3, "b": 2}))
    read = [event for _ in range(5) for event in scheduler.next(query) if isinstance(event, Read)]
    order = [tuple(event.sub_window) for event in read]
    assert order[:2] == [("b", 1), ("a", 2)]
    assert order[-1] == ("a", 0)


def test_an_empty_window_has_an_answer_and_a_ring_may_open_later():
    scheduler = Scheduler([], TTU())
    assert scheduler.open(Ring("w", 3))
    query = scheduler.arrive(Query("q", {"w": 3}))
    assert scheduler.next(query) == [Began(query, Query("q", {"w": 3}))]
    assert scheduler.done(query) == [Committed(query, 0, 0)]


def test_what_does_not_fit_the_rings_is_a_bug():
    scheduler = make(TTU())
    with pytest.raises(InternalError):
        scheduler.arrive(Query("q", {"w": 4}))
    with pytest.raises(InternalError):
        scheduler.move(Moved(9, 9, (Change("w", 7, 7),)))
    with pytest.raises(InternalError):
        scheduler.move(Moved(9, 9, (Change("w", 3, 3, (0,)),)))
