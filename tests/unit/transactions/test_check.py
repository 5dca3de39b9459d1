"""The checkers agree with the definitions, enumerated, on histories that nobody scheduled."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.transactions.kit import Replay, all_edges, has_cycle, random_history

from sash.errors import HistoryError
from sash.transactions.check import classify
from sash.transactions.events import (
    Began,
    Change,
    Committed,
    Covered,
    Event,
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
from sash.transactions.graph import reads_of
from sash.transactions.history import History
from sash.transactions.json_lines import read_history_file, write_history_file
from sash.transactions.notation import parse_history
from sash.transactions.timeline import Timeline
from sash.transactions.verify import verify_file

# Seeds instead of st.randoms(): a history has hundreds of draws.
RANDOM = st.integers(0, 2**32).map(Random)


@settings(max_examples=150)
@given(RANDOM, st.booleans())
def test_a_query_has_the_states_that_enumeration_finds(random, old_versions):
    history = random_history(random, old_versions=old_versions, grows=True)
    replay = Replay(history)
    verdicts = classify(history).verdicts
    assert len(verdicts) == len(replay.committed)
    for verdict, (transaction, query, answer, latest) in zip(verdicts, replay.committed, strict=True):
        states = replay.true_states(query, answer, latest)
        assert verdict.transaction == transaction
        assert verdict.latest == latest
        assert verdict.state == max(states, default=None), verdict.why
        assert verdict.since == min(states, default=None)
        assert bool(verdict.why) == (verdict.state != latest)


@settings(max_examples=150)
@given(RANDOM, st.booleans())
def test_the_graph_and_the_order_of_commits_are_those_of_all_pairs_in_conflict(random, old_versions):
    history = random_history(random, old_versions=old_versions, late_commits=True)
    reads = reads_of(history, Timeline(history))
    pairs = all_edges(history, {k: found.versions for k, found in reads.items()})
    found = classify(history)
    assert found.is_conflict_serializable == (not has_cycle(pairs))
    commits = {}
    for position, event in enumerate(history.events):
        if isinstance(event, Committed):
            commits[f"Q{event.transaction}"] = position
        elif (isinstance(event, Moved) and event.is_settled) or isinstance(event, Settled):
            commits[f"T{event.number}"] = position
    never = len(history.events)
    in_order = all(commits.get(a, never) <= commits.get(b, never) for a, b in pairs)
    assert found.is_commit_order_preserving == in_order


def random_single(random: Random) -> History:
    """The publication's model: one ring, whole windows, movements that commit at once, one version."""
    size = random.randint(1, 4)
    head, words = size - 1, []
    left = {k: random.sample(range(size), size) for k in range(1, random.randint(2, 4))}
    for _ in range(40):
        if random.random() < 0.3:
            head += 1
            words.append(f"w{head}[{head % size}] c{head}")
        elif left:
            k = random.choice(sorted(left))
            words.append(f"rQ{k}[{left[k].pop()}]" + (f" cQ{k}" if not left[k] else ""))
            left = {k: slots for k, slots in left.items() if slots}
    return parse_history(" ".join(words), size)


@settings(max_examples=120)
@given(RANDOM)
def test_theorems_7_1_7_2_and_7_5(random):
    history = random_single(random)
    pairs = all_edges(history, {k: r.versions for k, r in reads_of(history, Timeline(history)).items()})
    found = classify(history)
    for verdict in found.verdicts:
        query = f"Q{verdict.transaction}"
        before = [int(a[1:]) for a, b in pairs if b == query]
        after = [int(b[1:]) for a, b in pairs if a == query]
        # 7.1: all movements before it have lower numbers than those after it.
        assert verdict.is_window == (max(before, default=-1) < min(after, default=10**9))
        # 7.2: no movement that happened before its commit comes after it.
        assert verdict.is_latest == all(number > verdict.latest for number in after)
    # 7.5: where movements commit at once, LWS is the same as preserving the order of commits.
    assert found.is_latest_window_serializable == found.is_commit_order_preserving
    # What is LWS is WS, and what is WS is conflict-serializable.
    assert found.is_window_serializable or not found.is_latest_window_serializable
    assert found.is_conflict_serializable or not found.is_window_serializable


def test_a_long_history_is_checked_in_one_go():
    size, ring = 50, Ring("w", 50, 1, 0, 49)
    events: list[Event] = []
    for k in range(4_000):
        head = size + k
        events.append(Moved(head, head, (Change("w", head, head),)))
        events.append(Began(k, Query(f"q{k % 100}", {"w": size})))
        events.extend(Read(k, SubWindow("w", pane), pane) for pane in range(head - size + 1, head + 1))
        events.append(Committed(k, head, head))
    found = classify(History.of([ring], events, start=49, instant=49))
    assert len(events) > 200_000
    assert found.is_latest_window_serializable
    assert found.violation is None


RING = Ring("w", 3, 1, 0, 2)
SLID = Moved(3, 30, (Change("w", 3, 3),))


def verdict_of(*events, isolation=Isolation.LWS, windows=None):
    begun = Began(1, Query("q", windows or {"w": 3}, isolation))
    (found,) = classify(History.of([RING], [begun, *events], start=2, instant=20)).verdicts
    return found


def reads(*panes):
    return [Read(1, SubWindow("w", pane), max(pane, 2)) for pane in panes]


def test_a_promise_of_ws_is_kept_by_an_older_state_and_one_of_lws_is_not():
    events = (*reads(0, 1, 2), SLID, Committed(1, 2, 20))
    assert verdict_of(*events, isolation=Isolation.WS).broken == ""
    assert "movement 3 came before its commit" in verdict_of(*events).broken


def test_an_answer_that_names_another_instant_than_it_reflects_breaks_its_promise():
    assert verdict_of(*reads(0, 1, 2), Committed(1, 2, 20)).broken == ""
    assert "the instant of movement 2" in verdict_of(*reads(0, 1, 2), Committed(1, 2, 21)).broken
    assert "names movement 2" in verdict_of(SLID, *reads(1, 2, 3), Committed(1, 2, 20)).broken


def test_what_is_missing_from_a_window_is_named():
    assert "did not read sub-window 1" in verdict_of(*reads(0, 2), Committed(1, 2, 20)).broken
    assert "did not read sub-windows 0, 1" in verdict_of(*reads(2), Committed(1, 2, 20)).broken
    assert (
        "also read sub-window 0" in verdict_of(*reads(0, 1, 2), Committed(1, 2, 20), windows={"w": 2}).broken
    )
    torn = verdict_of(*reads(0), SLID, *reads(2, 3), Committed(1, 3, 30), windows={"w": 2})
    assert "also read sub-window 0" in torn.broken


def test_reading_twice_and_taking_back_or_handing_over_what_was_not_read_is_no_state():
    zero = SubWindow("w", 0)
    assert "twice" in verdict_of(*reads(0, 0, 1, 2), Committed(1, 2, 20)).broken
    assert "took back" in verdict_of(Undone(1, zero, 2), *reads(0, 1, 2), Committed(1, 2, 20)).broken
    inserted = Moved(3, 30, (Change("w", 3, 2, (0,)),))
    handed = (inserted, Handed(1, zero, 3), Committed(1, 3, 30))
    assert verdict_of(*reads(0, 1, 2), *handed).is_latest
    assert "was handed" in verdict_of(*reads(1, 2), *handed).broken


@pytest.mark.parametrize(
    "events",
    [
        [Read(1, SubWindow("w", 0), 2)],
        [Began(1, Query("q", {"x": 1}))],
        [Began(1, Query("q", {"w": 4}))],
        [Began(1, Query("q", {"w": 1})), Began(1, Query("q", {"w": 1}))],
        [Began(1, Query("q", {"w": 1})), Read(1, SubWindow("w", 3), 3)],
        [Began(1, Query("q", {"w": 1})), Read(1, SubWindow("w", 1), 3)],
        [Began(1, Query("q", {"w": 1})), Committed(1, 7, 20)],
        [Committed(1, 2, 20)],
        [Moved(2, 30, ())],
        [Moved(3, 30, (Change("w", 4, 4),))],
        [Moved(3, 30, (Change("x", 3, 3),))],
        [Moved(3, 30, (Change("w", 3, 3, (0,)),))],
        [Settled(3)],
    ],
)
def test_what_cannot_have_happened_is_refused_with_its_place(events):
    with pytest.raises(HistoryError, match=f"event {len(events)} "):
        classify(History.of([RING], events, start=2, instant=20))


def test_a_query_that_reads_a_part_of_its_window_does_not_get_what_it_was_promised(tmp_path):
    """
    since      |--------------------->
    window  |--------------|
            4    6         10
    """
    ring = Ring("p", 10)
    for since, is_complete in ((None, True), (4, True), (6, False)):
        events: list[Event] = [
            Moved(1, 10, (Change("p", 0, 9),)),
            Began(1, Query("q", {"p": 1})),
            Read(1, SubWindow("p", 9), 1),
            Covered(1, "s0", 4, 10, since),
            Committed(1, 1, 10),
        ]
        history = History.of((ring,), events)
        path = tmp_path / f"{since}.jsonl"
        write_history_file(path, history)
        assert read_history_file(path).histories == (history,)
        found = classify(history)
        assert found.is_complete is is_complete
        assert (found.violation is None) is is_complete
        said = verify_file(path)
        assert ("complete only since 6" in (said.violation or "")) is not is_complete
