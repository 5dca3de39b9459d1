"""Every kind of rings on every value index finds the tuples that a scan of the window finds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.indexes.index_kit import POOLS, PURGINGS, Truth, basic_windows, rank, same, tidy, types

from sash.errors import InternalError
from sash.indexes import tuple_window, value_window
from sash.lang.indexing import IndexSpec, RingKind, Storage, ValueIndexKind

K = ValueIndexKind
EXACT = [IndexSpec(values, rings=rings) for rings in RingKind for values in (K.L, K.T, K.H, K.UH)]
RANGES = [IndexSpec(K.G, Storage.LIST, 3, rings) for rings in RingKind]


def check(window, truth, type_):
    assert (window.first, window.end) == (truth.first, truth.first + len(truth.tuples))
    assert len(window) == len(truth.tuples)
    for value in POOLS[type_]:
        wanted = rank(tidy(value))
        found = window.probe(pa.scalar(value, type_)).tolist()
        assert found == truth.positions(lambda key, wanted=wanted: key == wanted)
    assert window.probe(pa.scalar(None, type_)).tolist() == []
    nulls = [truth.first + i for i, value in enumerate(truth.tuples) if value is None]
    assert window.null_positions().tolist() == nulls
    by_value = sorted(
        truth.positions(lambda key: True), key=lambda p: (rank(truth.tuples[p - truth.first]), p)
    )
    assert window.sorted_positions().tolist() == by_value + nulls
    assert window.count_distinct() == len(truth.counts())
    for share in (0.1, 0.5, 1.0):
        assert same(window.quantile(share).as_py(), truth.quantile(share))
    assert same(list(zip(*window.top(2).to_pydict().values(), strict=True)), truth.top(2))
    assert window.histogram().column("count").to_pylist()[: len(truth.counts())] == [
        count for _, count in truth.counts()
    ]
    asked = [POOLS[type_][0], None, POOLS[type_][-1], POOLS[type_][0]]
    expected = []
    for row, value in enumerate(asked):
        wanted = None if value is None else rank(tidy(value))
        expected += [
            (row, position) for position in truth.positions(lambda key, wanted=wanted: key == wanted)
        ]
    found = window.probe_all(pa.array(asked, type_))
    assert list(zip(*(part.tolist() for part in found), strict=True)) == expected


@pytest.mark.parametrize("spec", EXACT, ids=str)
@settings(max_examples=15)
@given(data=st.data())
def test_probes_find_what_a_scan_finds(spec, data):
    type_ = data.draw(types)
    size = data.draw(st.integers(1, 4))
    purging = data.draw(st.sampled_from(PURGINGS))
    window, truth = tuple_window(spec, type_, size, purging=purging), Truth(size)
    check(window, truth, type_)
    for values in data.draw(basic_windows(type_)):
        match data.draw(st.sampled_from(["slide", "slide", "slide", "expire", "restore"])):
            case "expire":
                window.expire()
                truth.expire()
            case "restore":
                state = window.snapshot()
                window = tuple_window(spec, type_, size, purging=purging)
                window.restore(state)
                check(window, truth, type_)
        window.slide(values)
        truth.slide(values)
        check(window, truth, type_)


@pytest.mark.parametrize("spec", EXACT, ids=str)
@settings(max_examples=15)
@given(data=st.data())
def test_ranges_find_what_a_scan_finds(spec, data):
    type_ = data.draw(types)
    window, truth = tuple_window(spec, type_, 2), Truth(2)
    bound = st.one_of(st.none(), st.sampled_from(POOLS[type_]))
    for values in data.draw(basic_windows(type_)):
        if data.draw(st.booleans()):
            state = window.snapshot()
            window = tuple_window(spec, type_, 2)
            window.restore(state)
        window.slide(values)
        truth.slide(values)
        low, high = data.draw(bound), data.draw(bound)
        has_low, has_high = data.draw(st.booleans()), data.draw(st.booleans())

        def is_wanted(key, low=low, high=high, has_low=has_low, has_high=has_high):
            above = low is None or rank(tidy(low)) < key or (has_low and rank(tidy(low)) == key)
            below = high is None or key < rank(tidy(high)) or (has_high and rank(tidy(high)) == key)
            return above and below

        low, high = (None if end is None else pa.scalar(end, type_) for end in (low, high))
        found = window.range(low, high, has_low=has_low, has_high=has_high).tolist()
        expected = truth.positions(is_wanted)
        assert found == sorted(expected, key=lambda p: (rank(truth.tuples[p - truth.first]), p))


@pytest.mark.parametrize("spec", RANGES, ids=str)
@settings(max_examples=15)
@given(data=st.data())
def test_over_ranges_all_candidates_are_found(spec, data):
    type_ = data.draw(types)
    window, truth = tuple_window(spec, type_, 2), Truth(2)
    assert len(window.probe(pa.scalar(POOLS[type_][0], type_))) == 0
    for values in data.draw(basic_windows(type_)):
        if data.draw(st.booleans()):
            state = window.snapshot()
            window = tuple_window(spec, type_, 2)
            window.restore(state)
        window.slide(values)
        truth.slide(values)
        everything = truth.positions(lambda key: True)
        assert sorted(window.range().tolist()) == everything
        for value in POOLS[type_]:
            wanted = rank(tidy(value))
            found = window.probe(pa.scalar(value, type_)).tolist()
            assert found == sorted(found)
            assert set(truth.positions(lambda key, wanted=wanted: key == wanted)) <= set(found)
            assert set(found) <= set(everything)
            ranged = window.range(pa.scalar(value, type_), None).tolist()
            assert set(truth.positions(lambda key, wanted=wanted: key >= wanted)) <= set(ranged)


@pytest.mark.parametrize("spec", EXACT, ids=str)
def test_many_values_are_probed_at_once(spec):
    """As a join does: NULL matches nothing, a value that is asked for twice is found twice."""
    random = np.random.default_rng(5)
    window = tuple_window(spec, pa.int64(), 4)
    held = np.zeros(0, dtype=np.int64)
    for _ in range(9):
        values = random.zipf(1.5, 300).astype(np.int64) % 100
        window.slide(pa.array(values))
        held = np.concatenate([held, values])[-1200:]
    asked = pa.array([1, 2, None, 1, 12345])
    rows, positions = window.probe_all(asked)
    expected = [
        (row, window.first + place)
        for row, value in enumerate(asked.to_pylist())
        for place in np.flatnonzero(held == (-1 if value is None else value))
    ]
    assert list(zip(rows.tolist(), positions.tolist(), strict=True)) == expected


def test_memory_follows_the_window_not_the_stream():
    window = tuple_window(IndexSpec(rings=RingKind.DB), pa.int64(), 4)
    sizes = []
    for number in range(200):
        window.slide(pa.array(np.arange(100) + 37 * number))
        sizes.append(window.nbytes)
    assert max(sizes[100:]) == max(sizes[10:20])


def test_a_specification_without_rings_has_no_tuples():
    with pytest.raises(InternalError, match="not tuples"):
        tuple_window(IndexSpec(), pa.int64(), 2)
    assert value_window(IndexSpec(), pa.int64(), 2).slides == 0


def test_a_state_is_taken_up_before_the_first_slide():
    window = tuple_window(IndexSpec(rings=RingKind.DB), pa.int64(), 2)
    window.slide(pa.array([1]))
    with pytest.raises(InternalError, match="before it slides"):
        window.restore(window.snapshot())
