"""The histories of 002, sections 7.3.1, 7.4.2 and 7.6 have the isolation that is said of them.

Five sub-windows. Ha, for one, over time:

    slot      0     1     2     3     4
    before    T0    T1    T2    T3    T4
    rQ1[0]    read
    w5[0]     T5
    w6[1]     T5    T6
    the rest        read  read  read  read      an old 0 beside a new 1: no state of the window
"""

from __future__ import annotations

import pytest

from sash.transactions.check import classify
from sash.transactions.graph import edges, reads_of
from sash.transactions.notation import parse_history, write_history
from sash.transactions.timeline import Timeline

HISTORIES = {
    "Ha": "rQ1[0] w5[0] c5 w6[1] c6 rQ1[1] rQ1[2] rQ1[3] rQ1[4] cQ1",
    "Hb": "rQ1[0] w5[0] c5 rQ1[1] w6[1] c6 rQ1[2] rQ1[3] rQ1[4] cQ1",
    "Hc": "w5[0] c5 rQ1[0] rQ1[1] rQ1[2] rQ1[3] w6[1] c6 rQ1[4] cQ1",
    "Hd": "w5[0] c5 rQ1[0] w6[1] c6 rQ1[1] rQ1[2] rQ1[3] rQ1[4] cQ1",
    "He": "rQ1[4] w5[0] c5 rQ1[0] rQ1[3] rQ1[2] w6[1] c6 rQ1[1] cQ1",
    "Hf": "rQ1[0] w5[0] c5 rQ1[1] rQ1[2] rQ1[3] w6[1] c6 rQ1[4] cQ1",
    "Hg": "rQ1[0] w5[0] w6[1] c6 rQ1[1] rQ1[2] rQ1[3] rQ1[4] cQ1 c5",
    "Hh": "rQ1[0] rQ1[1] rQ1[2] rQ1[3] w9[4] rQ1[4] cQ1 c9",
}
# The state that Q1 reads, then: window-serializable, latest, commit-order preserving.
PUBLISHED = {
    "Ha": (None, False, False, False),
    "Hb": (4, True, False, False),
    "Hc": (5, True, False, False),
    "Hd": (6, True, True, True),
    "He": (6, True, True, True),
    "Hf": (4, True, False, False),
    "Hg": (None, False, False, True),
    "Hh": (9, True, True, False),
}


@pytest.mark.parametrize("name", HISTORIES)
def test_a_history_has_the_levels_that_are_published(name):
    found = classify(parse_history(HISTORIES[name], 5))
    (verdict,) = found.verdicts
    assert found.is_conflict_serializable
    assert (
        verdict.state,
        found.is_window_serializable,
        found.is_latest_window_serializable,
        found.is_commit_order_preserving,
    ) == PUBLISHED[name]


@pytest.mark.parametrize(
    ("name", "drawn"),
    [
        ("Ha", {("Q1", "T5"), ("T6", "Q1")}),
        ("Hb", {("Q1", "T5"), ("Q1", "T6")}),
        ("Hc", {("T5", "Q1"), ("Q1", "T6")}),
        ("Hd", {("T5", "Q1"), ("T6", "Q1")}),
    ],
)
def test_serialization_graphs_are_those_of_figure_7_4(name, drawn):
    history = parse_history(HISTORIES[name], 5)
    timeline = Timeline(history)
    found = edges(history, timeline, reads_of(history, timeline))
    assert {(edge.earlier, edge.later) for edge in found} == drawn


@pytest.mark.parametrize("name", HISTORIES)
def test_the_notation_is_read_and_written_alike(name):
    assert write_history(parse_history(HISTORIES[name], 5)) == HISTORIES[name]


def test_two_queries_that_see_two_movements_in_different_orders_are_not_serializable():
    found = classify(parse_history("rQ1[0] w2[0] c2 rQ2[0] rQ2[1] w3[1] c3 rQ1[1] cQ1 cQ2", 2))
    assert not found.is_conflict_serializable
    assert sorted(found.circle) == ["Q1", "Q2", "T2", "T3"]


def test_a_shorter_window_slides_without_a_conflict_in_the_graph():
    # Q1 reads two of five: T5 replaces a sub-window that it has nothing to do with, and yet moves its window.
    history = parse_history("rQ1[3] rQ1[4] w5[0] c5 cQ1 rQ2[0] rQ2[4] cQ2", 5, windows={1: 2, 2: 2})
    first, second = classify(history).verdicts
    assert (first.state, first.latest) == (4, 5)
    assert "slid the ring on" in first.why
    assert second.is_latest


@pytest.mark.parametrize("text", ["rQ1", "w5", "w5[1] c5", "x", "w5[0] w7[2]", "r1[0]"])
def test_what_is_no_history_is_refused(text):
    with pytest.raises(ValueError, match=r"is no operation|expected"):
        parse_history(text, 5)
