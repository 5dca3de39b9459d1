"""The compiled loops against plain recomputation in exact arithmetic."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.state import kernels

INT64 = st.integers(-(2**63), 2**63 - 1)
ENTRIES = 3


def as_rows(rows: list[tuple[int, object]], dtype: type) -> tuple[np.ndarray, np.ndarray]:
    entries = np.array([entry for entry, _ in rows], dtype=np.int64)
    return entries, np.array([value for _, value in rows], dtype=dtype)


# ---------------------------------------------------------------------- sums of integers


@given(st.lists(st.tuples(st.integers(0, ENTRIES - 1), INT64), max_size=40))
@example([(0, 2**63 - 1)] * 5)
@example([(0, -(2**63))] * 5 + [(1, -1)])
def test_sums_of_integers_are_exact_beyond_64_bits(rows):
    entries, values = as_rows(rows, np.int64)
    high, low = np.zeros(ENTRIES, np.int64), np.zeros(ENTRIES, np.int64)
    kernels.sum_pairs(entries, values, high, low)
    for entry in range(ENTRIES):
        exact = sum(value for e, value in rows if e == entry)
        assert int(high[entry]) * 2**32 + int(low[entry]) == exact
        assert 0 <= low[entry] < 2**32


@given(st.lists(INT64, min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_merged_pairs_are_exact_in_any_order_and_leave_nothing_behind_when_subtracted(values, random):
    def pair(value: int) -> list[int]:
        return [1, value >> 32, value & kernels.LOW_MASK]

    ops = np.array([kernels.ADD, kernels.PAIR, kernels.ADD], dtype=np.int64)
    shuffled = random.sample(values, len(values))
    ints = np.array([pair(value) for value in shuffled], dtype=np.int64)
    n = len(values)
    slots, panes, floats = np.zeros(n, np.int64), np.arange(n), np.zeros((n, 0))
    totals, newest = np.zeros((1, 3), np.int64), np.zeros((1, 3), np.int64)
    kernels.enter(slots, panes, ints, floats, 0, n, ops, totals, np.zeros((1, 0)), newest)
    assert totals[0].tolist() == [n, sum(values) >> 32, sum(values) & kernels.LOW_MASK]
    cut = random.randint(0, n)
    stale = np.zeros(1, np.bool_)
    found = kernels.leave(slots, panes, ints, 0, cut, ops, False, totals, newest, stale)
    rest = sum(shuffled[cut:])
    assert totals[0].tolist() == [n - cut, rest >> 32, rest & kernels.LOW_MASK]
    assert not found
    assert not stale[0]


def test_small_sums_counts_and_extrema_agree_with_numpy():
    rng = np.random.default_rng(7)
    entries = rng.integers(0, 50, 2_000)
    values = rng.integers(-1_000, 1_000, 2_000)
    sums, counts = np.zeros(50, np.int64), np.zeros(50, np.int64)
    least, most = np.full(50, kernels.INT64_MAX), np.full(50, kernels.INT64_MIN)
    kernels.sum_ints(entries, values, sums)
    kernels.count_rows(entries, counts)
    kernels.minima(entries, values, least)
    kernels.maxima(entries, values, most)
    for entry in range(50):
        mine = values[entries == entry]
        assert (sums[entry], counts[entry]) == (mine.sum(), len(mine))
        assert (least[entry], most[entry]) == (mine.min(), mine.max())


# ---------------------------------------------------------------------- sums of doubles


def double_sum(values: list[float]) -> float:
    totals = np.zeros((1, 2))
    kernels.sum_doubles(np.zeros(len(values), np.int64), np.array(values, dtype=np.float64), totals)
    return float(totals[0, 0] + totals[0, 1])


def merged_sum(values: list[float]) -> float:
    """The same sum by merging one partial per value."""
    n = len(values)
    floats = np.zeros((n, 2))
    floats[:, 0] = values
    zeros = np.zeros(n, np.int64)
    count = kernels.merge_runs(
        zeros, zeros.copy(), np.ones((n, 1), np.int64), floats, np.array([kernels.ADD], np.int64)
    )
    assert count == 1
    return float(floats[0, 0] + floats[0, 1])


@pytest.mark.parametrize("seed", range(8))
def test_sums_of_random_doubles_are_those_of_fsum_to_the_last_bit_in_any_order(seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=3_000) * 10.0 ** rng.integers(-6, 7, size=3_000)
    exact = math.fsum(values)
    for order in (values, values[::-1], np.sort(values), rng.permutation(values)):
        assert double_sum(order.tolist()) == exact
        assert merged_sum(order.tolist()) == exact


def test_small_terms_survive_when_large_ones_cancel_in_every_order():
    terms = [1e300, 1.0, -1e300, 0.25]
    for order in itertools.permutations(terms):
        assert double_sum(list(order)) == merged_sum(list(order)) == 1.25


def test_tenths_add_up_to_what_the_exact_sum_rounds_to():
    values = [0.1] * 1_000_003
    assert double_sum(values) == float(Fraction(0.1) * len(values))


@pytest.mark.parametrize(
    ("values", "right"),
    [
        ([math.inf, 1.0], math.inf),
        ([1.0, -math.inf, 5.0], -math.inf),
        ([math.inf, math.inf], math.inf),
        ([math.inf, -math.inf], math.nan),
        ([math.nan, 1.0], math.nan),
        ([math.inf, math.nan, -math.inf], math.nan),
    ],
)
def test_infinities_and_nan_add_up_as_ieee_says_in_every_order(values, right):
    for order in itertools.permutations(values):
        for total in (double_sum(list(order)), merged_sum(list(order))):
            assert math.isnan(total) if math.isnan(right) else total == right


@given(st.lists(st.floats(-1e100, 1e100), min_size=1, max_size=60), st.randoms(use_true_random=False))
def test_a_sum_of_doubles_is_within_two_to_the_minus_100_of_the_largest_intermediate(values, random):
    shuffled = random.sample(values, len(values))
    exact = sum(map(Fraction, values), Fraction(0))
    bound = sum(abs(Fraction(value)) for value in values) * len(values) / 2**100
    assert abs(Fraction(double_sum(shuffled)) - exact) <= bound + abs(exact) / 2**52


# ---------------------------------------------------------------------- runs and windows


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(-9, 9)), max_size=40))
def test_neighbouring_rows_of_one_pane_and_slot_are_merged_and_others_kept(rows):
    rows = sorted(rows, key=lambda row: (row[0], row[1]))
    panes, slots, values = (np.array([row[i] for row in rows], np.int64) for i in range(3))
    ints = np.column_stack([np.ones(len(rows), np.int64), values, values])
    ops = np.array([kernels.ADD, kernels.MIN, kernels.MAX], dtype=np.int64)
    count = kernels.merge_runs(slots, panes, ints, np.zeros((len(rows), 0)), ops)
    right = [
        (pane, slot, len(group), min(group), max(group))
        for (pane, slot), members in itertools.groupby(rows, key=lambda row: row[:2])
        for group in [[row[2] for row in members]]
    ]
    got = [(int(panes[i]), int(slots[i]), *ints[i].tolist()) for i in range(count)]
    assert got == right


def test_link_states_points_to_the_row_before_of_the_same_slot():
    slots = np.array([2, 0, 2, 1, 0, 2])
    latest, previous = np.full(4, -1), np.empty(6, np.int64)
    kernels.link_states(slots, latest, previous)
    assert previous.tolist() == [-1, -1, 0, -1, 1, 2]
    assert latest.tolist() == [4, 3, 5, -1]


CELLS, RANKS = 5, 7


@given(
    st.lists(
        st.tuples(st.integers(0, CELLS - 1), st.integers(0, RANKS - 1), st.integers(1, 2**40)), max_size=60
    ),
    st.booleans(),
)
def test_values_are_counted_by_cell_and_in_order(rows, is_weighted):
    cells, ranks, often = (np.array([row[i] for row in rows], np.int64) for i in range(3))
    given_often = often if is_weighted else np.zeros(0, np.int64)
    found, offsets, codes, counts = kernels.values_in_cells(cells, ranks, given_often, CELLS, RANKS)
    right: Counter[tuple[int, int]] = Counter()
    for cell, rank, weight in rows:
        right[cell, rank] += weight if is_weighted else 1
    owners = np.repeat(found, np.diff(offsets))
    got = list(zip(owners.tolist(), codes.tolist(), counts.tolist(), strict=True))
    assert got == [(*key, count) for key, count in sorted(right.items())]
    assert offsets[0] == 0
    assert found.tolist() == sorted({cell for cell, _ in right})
