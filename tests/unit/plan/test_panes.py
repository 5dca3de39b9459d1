"""Panes: every instant lies in one, and every window of every query is a whole number of them."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sash.lang.bound import Window
from sash.plan.panes import MAX_EDGES, Panes, first_boundary, last_boundary

slides = st.sampled_from((1, 2, 3, 4, 5, 6, 7, 8, 10, 12))
windows = st.builds(Window, st.integers(1, 60), slides)
instants = st.integers(-500, 500)


def panes_of(*given: Window) -> Panes:
    panes = Panes.covering(given)
    assert panes is not None
    return panes


@given(st.lists(windows, min_size=1, max_size=4), instants)
def test_an_instant_lies_between_the_edges_of_its_pane_the_right_one_included(given_windows, instant):
    panes = panes_of(*given_windows)
    number = panes.number_at(instant)
    assert panes.right_edge(number - 1) < instant <= panes.right_edge(number)


@given(st.lists(windows, min_size=1, max_size=4), st.lists(instants, min_size=1))
def test_many_instants_are_numbered_like_one(given_windows, many):
    panes = panes_of(*given_windows)
    assert panes.number_of(np.array(many)).tolist() == [panes.number_at(instant) for instant in many]


@given(st.lists(windows, min_size=1, max_size=4), st.integers(-40, 40))
def test_every_window_begins_and_ends_on_an_edge(given_windows, turn):
    panes = panes_of(*given_windows)
    for window in given_windows:
        boundary = turn * window.slide
        for edge in (boundary, boundary - window.range):
            assert panes.right_edge(panes.number_at(edge)) == edge


@given(st.lists(windows, min_size=1, max_size=3))
def test_there_is_no_edge_that_no_window_needs(given_windows):
    panes = panes_of(*given_windows)
    for number in range(-3, 60):
        edge = panes.right_edge(number)
        assert any(edge % w.slide == 0 or (edge + w.range) % w.slide == 0 for w in given_windows)


@given(st.lists(windows, min_size=1, max_size=4), instants)
def test_the_last_closed_pane_ends_by_the_instant_and_the_next_one_after_it(given_windows, instant):
    panes = panes_of(*given_windows)
    closed = panes.last_closed(instant)
    assert panes.right_edge(closed) <= instant < panes.right_edge(closed + 1)


@given(st.lists(windows, min_size=1, max_size=4), st.integers(1, 200), instants)
def test_no_span_holds_more_panes_than_count_in_says(given_windows, span, end):
    panes = panes_of(*given_windows)
    assert panes.number_at(end) - panes.number_at(end - span) <= panes.count_in(span)


def test_a_slide_that_divides_the_range_needs_one_pane_a_slide():
    assert panes_of(Window(60, 10)) == Panes(10, (10,))


def test_a_range_that_is_no_multiple_of_the_slide_needs_two_panes_a_slide():
    #  edges:  … 0     3          10    13         20 …     (10p, and 10p − 27 = 10(p − 3) + 3)
    assert panes_of(Window(27, 10)) == Panes(10, (3, 10))


def test_windows_of_slides_2_and_3_share_panes_at_every_multiple_of_either():
    assert panes_of(Window(6, 2), Window(9, 3)) == Panes(6, (2, 3, 4, 6))


def test_the_same_window_twice_asks_for_nothing_more():
    assert panes_of(Window(27, 10), Window(27, 10)) == panes_of(Window(27, 10))


def test_a_finer_slide_that_divides_the_coarser_one_gives_its_own_panes():
    assert panes_of(Window(60, 60), Window(60, 1)) == panes_of(Window(5, 1)) == Panes(1, (1,))


def test_slides_without_a_small_common_multiple_have_no_common_panes():
    assert Panes.covering([Window(10_007, 10_007), Window(10_009, 10_009)]) is None


def test_as_many_edges_as_allowed_are_shared_and_one_more_is_not():
    def covering(turns: int) -> Panes | None:
        # 1 and an offset of one half: two edges a turn, so 2·turns edges.
        return Panes.covering([Window(3, 2), Window(2 * turns, 2 * turns)])

    assert covering(MAX_EDGES // 2) is not None
    assert covering(MAX_EDGES // 2 + 1) is None


def test_one_window_always_has_panes_however_long_it_is():
    assert panes_of(Window(2**53 - 1, 2**53 - 3)).period == 2**53 - 3


@given(instants, st.integers(1, 30))
def test_boundaries_are_the_nearest_multiples_of_the_slide_on_either_side(instant, slide):
    first, last = first_boundary(instant, slide), last_boundary(instant, slide)
    assert first % slide == last % slide == 0
    assert last <= instant < last + slide
    assert first - slide < instant <= first


@given(st.lists(windows, min_size=1, max_size=2), st.lists(windows, min_size=1, max_size=2), instants)
def test_panes_refine_others_whose_edges_are_all_among_theirs(given_windows, others, first):
    panes, coarser = panes_of(*given_windows), panes_of(*others)
    cycle = math.lcm(panes.period, coarser.period)
    theirs = (coarser.right_edge(n) for n in range(coarser.number_at(1), coarser.number_at(cycle) + 1))
    assert panes.refine(coarser) == all(panes.right_edge(panes.number_at(edge)) == edge for edge in theirs)
    numbers = np.arange(first, first + 5)
    assert panes.right_edges(numbers).tolist() == [panes.right_edge(number) for number in numbers.tolist()]
