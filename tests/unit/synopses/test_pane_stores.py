"""Every synopsis of panes by groups against recomputation, whatever comes between."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.synopses.store_kit import ALL, INTEGERS, STORES, SUMS, Recomputed, check, random_rows

from sash.errors import AlgebraError, NotCovered
from sash.plan.measures import subtractable
from sash.plan.synopsis_choice import width_classes
from sash.state import kernels
from sash.state.layout import Layout
from sash.state.ordering import recode
from sash.synopses.b_int import BInt
from sash.synopses.l_int import LInt
from sash.synopses.naive import MaterialiseAll, MaterialiseNone
from sash.synopses.pane_store import PaneStore
from sash.synopses.psoup import PSoup
from sash.synopses.r_int import RInt
from sash.synopses.rows import PaneRows

NOTHING = PaneRows.none(Layout.of(SUMS))


def random_windows(rng, span):
    """Suffixes and historical windows, as panes back from the newest; some are empty."""
    ends = (sorted(rng.integers(0, span + 1, 2).tolist()) for _ in range(4))
    return [(far, near if rng.random() < 0.5 else 0) for near, far in ends]


@pytest.mark.parametrize("name", STORES)
@given(st.integers(0, 2**32))
def test_windows_are_those_of_the_rows_in_them_whatever_comes_between(name, seed):
    """Batches, silent panes, jumps in time, new groups, snapshots and dropped groups interleave."""
    rng = np.random.default_rng(seed)
    span = int(rng.integers(1, 20))
    windows = random_windows(rng, span)
    store: PaneStore = STORES[name](span, windows)
    oracle = Recomputed(store.layout)
    pane = int(rng.integers(-50, 50))
    for _ in range(int(rng.integers(1, 8))):
        begin = pane + int(rng.choice([0, 0, 1, 3, 40, 1000]))
        end = begin + int(rng.integers(0, 12))
        rows = random_rows(rng, store.layout, range(begin, end), int(rng.integers(1, 5)))
        through = end - 1 + int(rng.integers(0, 3))
        if through < pane:
            continue
        store.update(rows, through)
        oracle.add(rows)
        pane = through + 1
        if rng.random() < 0.2:
            fresh: PaneStore = STORES[name](span, windows)
            fresh.restore(store.snapshot())
            store = fresh
        if rng.random() < 0.2 and store.slots:
            kept = rng.permutation(store.slots)[: int(rng.integers(1, store.slots + 1))].astype(np.int64)
            store.renumber(kept)
            oracle.renumber(kept)
        for far, near in windows:
            check(store, oracle, store.newest - far, store.newest - near)
            some = np.arange(0, store.slots, 2)
            check(store, oracle, store.newest - far, store.newest - near, some)


@pytest.mark.parametrize("name", STORES)
def test_tuple_based_windows_have_a_pane_for_each_tuple(name):
    #  tuples     1 2 3 4 5 6 7 8
    #  [3, 0]               (x x x]     the last three
    #  [6, 2]         (x x x x]         the four before the last two
    store: PaneStore = STORES[name](8, [(3, 0), (6, 2)])
    ints, floats = store.layout.empty(8)
    ints[:, 0] = 1
    ints[:, 3] = 2 ** np.arange(8)
    store.update(PaneRows(np.zeros(8, np.int64), np.arange(1, 9), ints, floats), 8)
    assert store.lookup(5, 8).ints[0, [0, 3]].tolist() == [3, 32 + 64 + 128]
    assert store.lookup(2, 6).ints[0, [0, 3]].tolist() == [4, 4 + 8 + 16 + 32]


def test_a_maximum_is_no_running_aggregate():
    with pytest.raises(AlgebraError, match=r"min\(n\) cannot be subtracted") as caught:
        RInt(subtractable(ALL), 10)
    assert caught.value.id == "algebra"
    assert "B-INT" in str(caught.value.hint)


@pytest.mark.parametrize("name", STORES)
def test_a_window_that_is_not_held_is_refused(name):
    store: PaneStore = STORES[name](5, [(5, 0)])
    store.update(random_rows(np.random.default_rng(1), store.layout, range(20), 2), 19)
    store.lookup(14, 19)
    assert store.covers(14, 19)
    for left, right in ((13, 19), (15, 20)):
        assert not store.covers(left, right)
        with pytest.raises(NotCovered):
            store.lookup(left, right)


@pytest.mark.parametrize("name", STORES)
def test_before_the_first_pane_there_is_nothing(name):
    store: PaneStore = STORES[name](5, [(5, 0)])
    assert len(store.lookup(0, 5).ints) == 0
    store.update(NOTHING if store.layout == Layout.of(SUMS) else PaneRows.none(store.layout), 7)
    store.reserve(2)
    assert store.lookup(2, 7).ints[:, 0].tolist() == [0, 0]


def test_one_synopsis_can_be_made_from_another():
    rng = np.random.default_rng(3)
    one, oracle = BInt(SUMS, 12), Recomputed(Layout.of(SUMS))
    rows = random_rows(rng, one.layout, range(40), 3)
    one.update(rows, 41)
    oracle.add(rows)
    other = RInt(SUMS, 12)
    other.update(one.elements(), one.newest)
    third = LInt(SUMS, 12, [4, 6])
    third.update(other.elements(), other.newest)
    for store in (other, third):
        for far, near in ((12, 0), (6, 0), (4, 2), (1, 0), (9, 9)):
            check(store, oracle, 41 - far, 41 - near)


def test_words_get_new_codes():
    store = BInt(ALL, 4)
    rows = random_rows(np.random.default_rng(5), store.layout, range(4), 2)
    column = store.layout.ints[-2]
    rows.ints[:, column] = np.arange(len(rows.slots)) % 3
    store.update(rows, 3)
    before = store.lookup(-1, 3).ints[:, column]
    for matrix in store.matrices():
        recode(matrix[:, column], np.array([1, 3, 5]))
    np.testing.assert_array_equal(store.lookup(-1, 3).ints[:, column], 2 * before + 1)
    empty = store.lookup(3, 3).ints[:, column]
    assert (empty == kernels.INT64_MAX).all(), "no value yet is no word"


# ------------------------------------------------------------------------ sums of doubles


def test_running_sums_of_doubles_do_not_drift():
    """Large values come and go; a naive running sum would be off by as much as the small ones are."""
    rng = np.random.default_rng(7)
    count, span = 50_000, 100
    values = np.where(rng.random(count) < 0.01, 1e16, 1.0) * rng.normal(size=count)
    store = RInt(SUMS, span)
    ints, floats = store.layout.empty(count)
    ints[:, 0] = 1
    floats[:, 0] = values
    panes = np.arange(count)
    worst = 0.0
    for begin in range(0, count, 1000):
        part = slice(begin, begin + 1000)
        rows = PaneRows(np.zeros(1000, np.int64), panes[part], ints[part], floats[part])
        store.update(rows, begin + 999)
        for width in (1, 10, span):
            got = float(store.lookup(begin + 999 - width, begin + 999).floats[0, 0])
            exact = math.fsum(values[begin + 1000 - width : begin + 1000])
            worst = max(worst, abs(got - exact) / abs(exact))
    assert worst == 0.0, "exact, and rounded once"


# ------------------------------------------------------------------------ memory


def fed(store: PaneStore, panes: int, groups: int) -> PaneStore:
    slots = np.tile(np.arange(groups), panes)
    ints, floats = store.layout.empty(panes * groups)
    ints[:, 0] = 1
    floats[:] = 1.0
    store.update(PaneRows(slots, np.repeat(np.arange(panes), groups), ints, floats), panes - 1)
    return store


CELL = 8 * 5
"""Bytes of a cell of INTEGERS with a minimum: rows, nulls, two of a sum, one of the extremum."""


@pytest.mark.parametrize(
    ("make", "cells"),
    [
        (lambda m: MaterialiseNone(m, 64), 1),
        (lambda m: MaterialiseAll(m, 63, [(63, 0)] * 9 + [(32, 0)]), 1 + 2 / 64),
        (lambda m: BInt(m, 64), 2 - 1 / 64),
        (lambda m: PSoup(m, 64), 4 / 3),
        (lambda m: LInt(m, 64, [32]), 1 + 1 + 3 * 31 / 64),
        (lambda m: LInt(m, 64, [16, 32, 60]), 1 + (1 + 5 * 31 / 64) + (1 + 2 * 59 / 64)),
        (lambda m: LInt(m, 64, [16, 32, 64], has_suffixes_only=True), 1 + (1 + 31) / 64 + 64 / 64),
    ],
)
def test_memory_per_group_and_pane_is_what_the_card_says(make, cells):
    measures = (*INTEGERS, ALL[-2])
    for groups in (1, 100):
        store = fed(make(measures), 64, groups)
        assert store.nbytes / (groups * 64) == pytest.approx(CELL * cells, rel=0.01)


def test_memory_of_running_aggregates_is_what_the_card_says():
    store = fed(RInt(INTEGERS, 63), 64, 100)
    assert store.nbytes / (100 * 65) == 8 * 4
    doubles = fed(RInt(SUMS, 63), 64, 100)
    assert isinstance(doubles, RInt)
    assert doubles.nbytes / (100 * 65) == 8 * 5 + 24 + 8 * doubles.sums.shape[3]
    assert doubles.sums.shape[3] <= 5


# ------------------------------------------------------------------------ landmarks


def test_widths_are_put_into_as_few_classes_as_the_ratio_allows():
    assert width_classes([100, 20, 30, 40, 41, 80, 90]) == [(20, 40), (41, 80), (90, 100)]
    assert width_classes([1000]) == [(1000, 1000)]
    assert width_classes([]) == []
    assert len(width_classes(range(1, 2**17))) == 17, "γ is logarithmic at the worst"


def test_a_window_of_a_class_is_two_arms_at_the_most_and_others_are_merged_pane_by_pane():
    store = LInt(SUMS, 40, [10, 15])
    store.update(random_rows(np.random.default_rng(1), store.layout, range(100), 1), 99)
    assert all(len(store._rows(99 - w, 99)) <= 2 for w in range(10, 16))
    assert len(store._rows(99 - 30, 99)) == 30


def test_base_intervals_of_a_window_are_few():
    store = BInt(SUMS, 1 << 12)
    store.update(PaneRows.none(store.layout), 0)
    store.newest = 1 << 12
    for width in (1, 2, 43, 1000, 4095):
        assert len(store._rows(1 << 4, (1 << 4) + width)) <= 2 * math.ceil(math.log2(width + 1))
    assert len(store._rows(-1, 42)) == 4, "32 + 8 + 2 + 1 panes; the example of the paper has eight"
