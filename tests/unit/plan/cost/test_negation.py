"""Results of negation and their premature expirations, against formulas' limits and a simulation."""

import heapq
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.plan.cost.negation import (
    Side,
    difference,
    intersection,
    negation,
    representative_lifetime,
    semi_join,
)

sides = st.builds(Side, st.floats(0.01, 1000), st.floats(0.1, 1e5), st.floats(1, 1e4))


@given(sides, sides)
def test_every_operator_has_a_possible_number_of_results(left, right):
    for operator in (negation, semi_join, difference, intersection):
        results = operator(left, right)
        assert -1e-6 <= results.live <= left.live * (1 + 1e-6)
        assert results.rate >= 0
        assert 0 <= results.premature_share <= 1


@given(sides, sides)
def test_a_left_tuple_has_a_match_or_has_none(left, right):
    assert negation(left, right).live + semi_join(left, right).live == pytest.approx(left.live)


@given(sides, sides)
def test_copies_are_either_in_the_difference_or_in_the_intersection(left, right):
    together = difference(left, right).live + intersection(left, right).live
    assert together == pytest.approx(left.live, rel=0.02)


def test_without_common_values_nothing_expires_prematurely():
    results = negation(Side(1, 100, 10), Side(0, 0, 10))
    assert results.premature_share == 0
    assert results.live == 100


def test_rare_and_constant_values_on_the_right_make_few_premature_expirations():
    """Few if the right side hardly ever has a value, few if it has every value always."""
    left = Side(10, 1000, 100)
    premature = [negation(left, Side(rate, rate * 100, 100)).premature for rate in (0.001, 1, 100)]
    assert premature[1] > 10 * premature[0]
    assert premature[1] > 10 * premature[2]


@pytest.mark.parametrize(
    ("rate", "other_rate", "values", "other_values"),
    [(10, 1, 50, 50), (10, 3, 100, 50), (5, 0.5, 20, 40), (10, 0.3, 40, 20)],
)
def test_premature_expirations_are_as_frequent_as_in_a_simulation(rate, other_rate, values, other_values):
    length = 20.0
    live, in_time, premature = simulate(rate, values, other_rate, other_values, length, seconds=8000)
    expected = negation(
        Side(rate, rate * length, values), Side(other_rate, other_rate * length, other_values)
    )
    assert expected.live == pytest.approx(live, rel=0.08)
    assert expected.in_time == pytest.approx(in_time, rel=0.08)
    assert expected.premature == pytest.approx(premature, rel=0.08)


def test_a_representative_lives_a_window_or_a_little_less():
    assert representative_lifetime(Side(1, 100, 1e6)) == pytest.approx(100, rel=1e-3)
    assert representative_lifetime(Side(100, 10_000, 10)) == pytest.approx(100 - 0.1)
    assert representative_lifetime(Side(0, 100, 10)) == float("inf")


def test_few_and_many_copies_are_counted_alike():
    """The normal law takes over above 60 copies; there is no step there."""
    below, above = (difference(Side(1, n, 1), Side(1, n, 1)).live for n in (29.9, 30.1))
    assert below == pytest.approx(above, rel=0.02)


def simulate(rate, values, other_rate, other_values, length, seconds):
    """Windows of one length over Poisson streams: live rows of left NOT EXISTS right, deaths per second."""
    generator = random.Random(7)
    events = []
    for side, (speed, domain) in enumerate(((rate, values), (other_rate, other_values))):
        now = generator.expovariate(speed)
        while now < seconds:
            value = generator.randrange(domain)
            events += [(now, side, +1, value), (now + length, side, -1, value)]
            now += generator.expovariate(speed)
    heapq.heapify(events)
    left, right = [0] * max(values, other_values), [0] * max(values, other_values)
    live, area, in_time, premature, last = 0, 0.0, 0, 0, 0.0
    warm = 2 * length
    while events:
        now, side, change, value = heapq.heappop(events)
        if now > seconds:
            break
        if now > warm:
            area += live * (now - max(last, warm))
        last = now
        if side == 0:
            left[value] += change
            if right[value] == 0:
                live += change
                in_time += change < 0 and now > warm
        else:
            was = right[value]
            right[value] += change
            if was == 0:
                live -= left[value]
                premature += left[value] if now > warm else 0
            elif right[value] == 0:
                live += left[value]
    return area / (seconds - warm), in_time / (seconds - warm), premature / (seconds - warm)
