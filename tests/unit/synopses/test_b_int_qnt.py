"""Quantiles, tallies, the most frequent values and variances of windows, against recomputation."""

from __future__ import annotations

import collections
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.errors import NotCovered
from sash.state.ordering import double_to_ordinal
from sash.synopses.b_int_qnt import BIntQnt, ValueRows

FRACTIONS = [Fraction(1, 100), Fraction(1, 2), Fraction(95, 100), Fraction(1)]
Row = tuple[int, int, int]


@given(st.integers(0, 2**32))
def test_answers_are_those_of_the_values_in_the_window_whatever_comes_between(seed):
    rng = np.random.default_rng(seed)
    span = int(rng.integers(1, 20))
    synopsis, past = BIntQnt(span), list[Row]()
    pane = int(rng.integers(-40, 40))
    for _ in range(int(rng.integers(1, 6))):
        begin = pane + int(rng.choice([0, 0, 1, 3, 40, 1000]))
        end = begin + int(rng.integers(1, 30))
        count = int(rng.integers(0, 60))
        panes, slots = np.sort(rng.integers(begin, end, count)), rng.integers(0, 4, count)
        values = rng.integers(-6, 6, count) * int(rng.choice([1, 2**50]))
        pane = end + int(rng.integers(0, 3))
        synopsis.update(ValueRows.of(slots, panes, values), pane - 1)
        past.extend(zip(panes.tolist(), slots.tolist(), values.tolist(), strict=True))
        if rng.random() < 0.3:
            fresh = BIntQnt(span)
            fresh.restore(synopsis.snapshot())
            synopsis = fresh
        if rng.random() < 0.2 and synopsis.slots:
            kept = np.arange(synopsis.slots)[::-1]
            synopsis.renumber(kept)
            place = {int(old): new for new, old in enumerate(kept)}
            past = [(p, place[slot], value) for p, slot, value in past]
        for _ in range(3):
            near, far = sorted(rng.integers(0, span + 1, 2).tolist())
            left, right = synopsis.newest - far, synopsis.newest - near
            check(synopsis, left, right, [row for row in past if left < row[0] <= right])


def check(synopsis: BIntQnt, left: int, right: int, live: list[Row]) -> None:
    found, totals = synopsis.quantiles(left, right, FRACTIONS)
    tallies = synopsis.tallies(left, right)
    top, variances = tallies.top(2), tallies.variances(is_double=False)
    for slot in range(synopsis.slots):
        values = sorted(value for _, owner, value in live if owner == slot)
        counts = collections.Counter(values)
        assert totals[slot] == tallies.totals[slot] == len(values)
        assert tallies.distinct[slot] == len(counts)
        assert pairs(tallies, slot) == sorted(counts.items())
        assert pairs(top, slot) == sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:2]
        if values:
            assert found[slot].tolist() == [values[math.ceil(f * len(values)) - 1] for f in FRACTIONS]
            some, _ = synopsis.quantiles(left, right, FRACTIONS[:1], np.array([slot]))
            assert some.tolist() == [[found[slot, 0]]]
            assert pairs(synopsis.tallies(left, right, np.array([slot])), 0) == sorted(counts.items())
        if len(values) > 1:
            n = len(values)
            exact = Fraction(n * sum(v * v for v in values) - sum(values) ** 2, n * (n - 1))
            assert variances[slot, 0] == pytest.approx(float(exact), rel=1e-15)


def pairs(tallies, slot):
    part = slice(tallies.offsets[slot], tallies.offsets[slot + 1])
    return list(zip(tallies.values[part].tolist(), tallies.counts[part].tolist(), strict=True))


def test_variances_of_doubles_are_those_of_the_doubles():
    values = np.array([1e9, 1e9 + 1, 1e9 + 2, -0.5])
    synopsis = BIntQnt(4)
    synopsis.update(ValueRows.of(np.array([0, 0, 0, 1]), np.zeros(4, np.int64), double_to_ordinal(values)), 0)
    assert synopsis.tallies(-1, 0).variances(is_double=True).tolist() == [[1.0, 2 / 3], [0.0, 0.0]]


def test_a_window_that_is_not_held_is_refused_and_an_empty_one_has_nothing():
    synopsis = BIntQnt(4)
    assert synopsis.quantiles(0, 4, FRACTIONS)[1].tolist() == []
    synopsis.update(ValueRows.of(np.array([0]), np.array([0]), np.array([7])), 9)
    assert synopsis.quantiles(5, 9, FRACTIONS)[1].tolist() == [0]
    assert synopsis.tallies(5, 9).distinct.tolist() == [0]
    with pytest.raises(NotCovered):
        synopsis.tallies(4, 9)


def test_words_get_new_codes():
    synopsis = BIntQnt(4)
    synopsis.update(ValueRows.of(np.zeros(6, np.int64), np.arange(6), np.arange(6) % 3), 5)
    synopsis.recode(np.array([1, 3, 5]))
    assert pairs(synopsis.tallies(1, 5), 0) == [(1, 1), (3, 1), (5, 2)]


def test_memory_is_what_the_card_says():
    """24 bytes an entry, level and pane, in a ring for up to twice the entries, and 16 a base interval."""
    span, values = 64, 32
    synopsis = BIntQnt(span)
    for pane in range(4 * span):
        slots, panes = np.zeros(values, np.int64), np.full(values, pane)
        synopsis.update(ValueRows.of(slots, panes, pane * values + np.arange(values)), pane)
    entries = span * values
    levels = 7
    assert 24 * levels * entries <= synopsis.nbytes <= 2 * 24 * levels * entries + 16 * 2 * span + 8 * levels
