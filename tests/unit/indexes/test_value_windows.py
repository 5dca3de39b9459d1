"""Every storage under every value index answers as recomputation does, whatever comes and goes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.indexes.index_kit import (
    POOLS,
    PURGINGS,
    SHARES,
    Truth,
    basic_windows,
    rank,
    same,
    tidy,
    types,
)

from sash.errors import InternalError
from sash.indexes import Purging, value_window, value_windows
from sash.indexes.buckets import BucketIndex
from sash.indexes.g_index import GIndex
from sash.indexes.list_storage import ListStorage
from sash.indexes.t_index import TIndex
from sash.indexes.value_window import ValueWindow
from sash.lang.indexing import IndexSpec, Storage, ValueIndexKind

K = ValueIndexKind
EXACT = [
    IndexSpec(values, storage)
    for values in (K.L, K.T, K.H, K.UH)
    for storage in (Storage.LIST, Storage.AGGR, Storage.HASH)
]
RANGES = [IndexSpec(K.G, Storage.LIST, 3), IndexSpec(K.G, Storage.GROUP, 3)]


def check(window, truth):
    counts = truth.counts()
    assert len(window) == len(truth.tuples)
    assert window.nulls == truth.nulls
    assert window.count_distinct() == len(counts)
    for share in SHARES:
        assert same(window.quantile(share).as_py(), truth.quantile(share))
    for limit in (1, 3, 100):
        top = window.top(limit)
        assert same(list(zip(*top.to_pydict().values(), strict=True)), truth.top(limit))
    with_null = [*counts, (None, truth.nulls)] if truth.nulls else counts
    assert same(list(zip(*window.histogram().to_pydict().values(), strict=True)), with_null)
    assert same(window.sorted_values().to_pylist(), truth.values + [None] * truth.nulls)
    assert same(window.distinct_values().to_pylist(), [value for value, _ in with_null])


@pytest.mark.parametrize("spec", EXACT, ids=str)
@settings(max_examples=15)
@given(data=st.data())
def test_answers_are_those_of_recomputation(spec, data):
    type_ = data.draw(types)
    size = data.draw(st.integers(1, 4))
    purging = data.draw(st.sampled_from(PURGINGS))
    window, truth = value_window(spec, type_, size, purging=purging), Truth(size)
    check(window, truth)
    for values in data.draw(basic_windows(type_)):
        match data.draw(st.sampled_from(["slide", "slide", "slide", "expire", "restore"])):
            case "expire":
                window.expire()
                truth.expire()
            case "restore":
                state = window.snapshot()
                window = value_window(spec, type_, size, purging=purging)
                window.restore(state)
                check(window, truth)
        window.slide(values)
        truth.slide(values)
        check(window, truth)


@pytest.mark.parametrize("spec", RANGES, ids=str)
@settings(max_examples=15)
@given(data=st.data())
def test_ranges_have_the_counts_of_their_values(spec, data):
    type_ = data.draw(types)
    size = data.draw(st.integers(1, 4))
    window, truth = value_window(spec, type_, size), Truth(size)
    for values in data.draw(basic_windows(type_)):
        if data.draw(st.booleans()):
            state = window.snapshot()
            window = value_window(spec, type_, size)
            window.restore(state)
        window.slide(values)
        truth.slide(values)
        ranges = window.histogram().to_pylist()
        for row in ranges:
            assert row["count"] == sum(is_within(row, value) for value in truth.values)
        assert sum(row["count"] for row in ranges) == len(truth.values)
        assert window.nulls == truth.nulls
        for share in SHARES:
            found = window.quantile_range(share)
            assert (found is None) == (not truth.values)
            if found is not None:
                assert is_within({"low": found[0], "high": found[1]}, truth.quantile(share))
        assert [row["count"] for row in window.top(2).to_pylist()] == sorted(
            (row["count"] for row in ranges), reverse=True
        )[:2]


def is_within(row, value):
    ends = row["low"], row["high"]
    low, high = (end.as_py() if isinstance(end, pa.Scalar) else end for end in ends)
    is_above = low is None or rank(tidy(low)) < rank(value)
    return is_above and (high is None or rank(value) <= rank(tidy(high)))


@pytest.mark.parametrize("spec", [*EXACT, *RANGES], ids=str)
@settings(max_examples=15)
@given(data=st.data())
def test_intersections_are_those_of_sets(spec, data):
    """Two windows of different length that share an index; exact ones also with indexes of their own."""
    type_ = data.draw(types)
    left, right = value_windows(spec, type_, (2, 3))
    apart = value_window(spec, type_, 3)
    truths = Truth(2), Truth(3)
    for values in data.draw(basic_windows(type_)):
        if data.draw(st.booleans()):
            states = left.snapshot(), right.snapshot()
            left, right = value_windows(spec, type_, (2, 3))
            left.restore(states[0])
            right.restore(states[1])
        if data.draw(st.booleans()):
            left.slide(values)
            truths[0].slide(values)
        else:
            right.slide(values)
            apart.slide(values)
            truths[1].slide(values)
        others = {rank(value) for value in truths[1].values}
        both = [value for value, _ in truths[0].counts() if rank(value) in others]
        if spec.values is K.G:
            found = left.intersect(right).to_pylist()
            assert all(any(is_within(row, value) for row in found) for value in both)
            for row in found:
                for truth in truths:
                    assert any(is_within(row, value) for value in truth.values)
            continue
        if truths[0].nulls and truths[1].nulls:
            both.append(None)
        assert same(left.intersect(right).column("value").to_pylist(), both)
        assert same(left.intersect(apart).column("value").to_pylist(), both)
        check(left, truths[0])
        check(right, truths[1])


@pytest.mark.parametrize("spec", EXACT, ids=str)
@pytest.mark.parametrize("type_", [pa.int64(), pa.string()], ids=str)
def test_thousands_of_skewed_values_grow_and_shrink_the_index(spec, type_):
    random = np.random.default_rng(3)
    window, truth = value_window(spec, type_, 3), Truth(3)
    for slide in range(8):
        drawn = random.zipf(1.3, 1500).astype(np.int64) % 5000 + 700 * slide
        values = pa.array(drawn).cast(type_)
        window.slide(values)
        truth.slide(values)
        check(window, truth)
    full = window.nbytes
    for _ in range(20):
        window.slide(pa.array([], type_))
        truth.slide(pa.array([], type_))
        check(window, truth)
    window.slide(values)
    assert window.nbytes <= full
    assert window.index.nodes == window.count_distinct()


@pytest.mark.parametrize("kind", [K.T, K.H])
def test_keys_have_places_of_their_own_as_long_as_they_lie_close(kind):
    """They drift, one comes from far away and goes again, and the least and the greatest of all come."""
    random = np.random.default_rng(6)
    window, truth = value_window(IndexSpec(kind), pa.int64(), 2, purging=Purging(share=0.0)), Truth(2)
    had_places = []
    begins = [0, 300, 900, -5_000, 1 << 40, (1 << 40) + 9, 7, 8, 9, -(1 << 63), (1 << 63) - 1_001, 5, 6]
    for begin in begins:
        drawn = begin + random.integers(0, 1_000, 600)
        window.slide(pa.array(drawn))
        truth.slide(pa.array(drawn))
        check(window, truth)
        assert isinstance(window.index, BucketIndex)
        had_places.append(len(window.index._of_key) > 0)
        state = window.snapshot()
        again = value_window(IndexSpec(kind), pa.int64(), 2)
        again.restore(state)
        check(again, truth)
    # Close from the start, then apart, and close again once the far ones have gone.
    assert had_places[0]
    assert not had_places[4]
    assert had_places[8]


@pytest.mark.parametrize("kind", [K.L, K.T, K.H, K.UH])
def test_labels_that_are_dealt_anew_leave_the_index_in_order(kind):
    """Each word stands between the one before and z, so gaps are halved until labels move."""
    window, truth = value_window(IndexSpec(kind), pa.string(), 400), Truth(400)
    for number in range(300):
        values = pa.array(["a", f"m{number:05}", "z"])
        window.slide(values)
        truth.slide(values)
        if number % 50 == 49:
            check(window, truth)


@pytest.mark.parametrize("has_directory", [False, True])
@pytest.mark.parametrize("type_", [pa.int64(), pa.string()], ids=str)
def test_a_tree_needs_no_directory_and_its_cursors_follow_any_move(has_directory, type_):
    """Values drift slowly, jump, come back, and the window runs empty in between."""
    random = np.random.default_rng(4)
    window = ValueWindow(TIndex(type_, has_directory=has_directory), ListStorage(), 4)
    truth = Truth(4)
    for centre in (0, 5, 10, 4000, 4010, 4020, None, 0, 3, None, None, None, None, None, 9, 8000, 7):
        drawn = random.normal(10_000 + (centre or 0), 400, 0 if centre is None else 700).astype(np.int64)
        values = pa.array(drawn).cast(type_)
        window.slide(values)
        truth.slide(values)
        check(window, truth)
        probed = [truth.values[0], truth.values[-1], None] if truth.values else [None]
        found = window.index.find(pa.array(probed, type_))
        assert (found[:-1] > 0).all()
        assert found[-1] == -1


@pytest.mark.parametrize(
    ("purging", "most"),
    [(Purging(share=0.0), 1), (Purging(share=0.5), 2), (Purging(tuples=5), 5), (Purging(slides=2), 2)],
    ids=str,
)
def test_values_without_tuples_leave_as_the_policy_has_it(purging, most):
    """A new value a slide, and a window of one: each leaves the next one with the count 0."""
    window = value_window(IndexSpec(), pa.int64(), 1, purging=purging)
    nodes = []
    for number in range(12):
        window.slide(pa.array([number]))
        nodes.append(window.index.nodes)
        assert window.count_distinct() == 1
    assert max(nodes) == most


def test_a_policy_is_one_of_three():
    for given_ in ({}, {"tuples": 1, "slides": 1}):
        with pytest.raises(InternalError, match="purged"):
            Purging(**given_)


def test_a_state_is_taken_up_before_the_first_slide():
    window = value_window(IndexSpec(), pa.int64(), 2)
    window.slide(pa.array([1]))
    with pytest.raises(InternalError, match="before it slides"):
        window.restore(window.snapshot())


def test_what_only_values_can_say_is_refused_of_ranges():
    window = value_window(IndexSpec(K.G, Storage.GROUP, 2), pa.int64(), 2)
    for ask in (window.count_distinct, window.median, window.sorted_values, window.distinct_values):
        with pytest.raises(InternalError, match="has ranges"):
            ask()


def test_storages_and_indexes_that_do_not_go_together_are_refused():
    index = GIndex(pa.int64(), groups=2)
    ValueWindow(index, ListStorage(), 2)
    with pytest.raises(InternalError, match="does not work over"):
        ValueWindow(index, value_window(IndexSpec(K.T, Storage.AGGR), pa.int64(), 2).storage, 2)


def test_a_quantile_lies_above_0_and_up_to_1():
    window = value_window(IndexSpec(), pa.int64(), 2)
    window.slide(pa.array(POOLS[pa.int64()]))
    for share in (0, -0.1, 1.1):
        with pytest.raises(InternalError, match="quantile"):
            window.quantile(share)
    assert window.quantile(0.07).as_py() == -(1 << 63)
