"""Approximate aggregates: within their bounds of the exact ones, and exact while there is little."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.errors import NotCovered
from sash.lang.bound import AggregateCall, AggregateFunction, Scalar
from sash.lang.types import Type
from sash.synopses.sketches.kinds import DistinctCount, Frequent, Quantile, sketch_of
from sash.synopses.sketches.store import SketchStore, sketch_rows

TEXTS = np.array(["", "a", "b", "é", "zz", "long enough not to be a short string"])


def random_values(rng, type_, count):
    nulls = rng.random(count) < 0.2
    match type_:
        case Type.BIGINT:
            return pa.array(rng.integers(-20, 20, count), mask=nulls)
        case Type.DOUBLE:
            return pa.array(np.round(rng.normal(size=count), 1) + 0.0, mask=nulls)
        case _:
            return pa.array(TEXTS[rng.integers(0, len(TEXTS), count)].tolist(), pa.string(), mask=nulls)


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.sampled_from([Type.BIGINT, Type.DOUBLE, Type.STRING]))
def test_small_windows_are_exact_whatever_comes_between(seed, type_):
    rng = np.random.default_rng(seed)
    span = int(rng.integers(1, 20))
    kinds = (DistinctCount(), Quantile(type_), Frequent(type_))
    stores = [SketchStore(kind, span) for kind in kinds]
    data: list[tuple[int, int, object]] = []
    pane = int(rng.integers(-30, 30))
    for _ in range(5):
        begin = pane + int(rng.choice([0, 1, 3, 500]))
        end = begin + int(rng.integers(1, 8))
        count = int(rng.integers(0, 20))
        panes, slots = np.sort(rng.integers(begin, end, count)), rng.integers(0, 3, count)
        values = random_values(rng, type_, count)
        for i, kind in enumerate(kinds):
            stores[i].update(sketch_rows(kind, slots, panes, values), end - 1)
            if rng.random() < 0.3:
                fresh = SketchStore(kind, span)
                fresh.restore(stores[i].snapshot())
                stores[i] = fresh
        data.extend(zip(panes.tolist(), slots.tolist(), values.to_pylist(), strict=True))
        pane = end
        for _ in range(3):
            near, far = sorted(rng.integers(0, span + 1, 2).tolist())
            left, right = end - 1 - far, end - 1 - near
            live: dict[int, list[object]] = {}
            for p, slot, value in data:
                if left < p <= right and value is not None:
                    live.setdefault(slot, []).append(value)
            check_exact(kinds, stores, left, right, live)


def check_exact(kinds, stores, left, right, live):
    distinct, quantile, frequent = kinds
    found = [store.lookup(left, right) for store in stores]
    assert all(set(sketches) == set(live) for sketches in found)
    for slot, values in live.items():
        count, low, high = distinct.estimate(found[0][slot])
        assert low <= count <= high + 1
        assert count == len(set(values))
        ordered = sorted(values)
        for fraction in (0.01, 0.5, 0.9, 1.0):
            expected = ordered[math.ceil(fraction * len(ordered)) - 1]
            assert quantile.estimate(found[1][slot], fraction) == (expected,) * 3
        counts = sorted((-values.count(v), v) for v in set(values))
        expected_top = [(v, -c, -c, -c) for c, v in counts[:2]]
        assert frequent.estimate(found[2][slot], 2) == expected_top


def test_large_windows_are_within_their_bounds():
    rng = np.random.default_rng(11)
    panes, count = 40, 40_000
    values = np.round(rng.lognormal(8, 2, count))
    slots, at = np.zeros(count, np.int64), np.sort(rng.integers(0, panes, count))
    rows = {}
    for kind in (DistinctCount(), Quantile(Type.DOUBLE), Frequent(Type.DOUBLE)):
        store = SketchStore(kind, panes)
        store.update(sketch_rows(kind, slots, at, pa.array(values)), panes - 1)
        rows[type(kind)] = (kind, store.lookup(4, 36)[0])
    window = values[(at > 4) & (at <= 36)]
    distinct, sketch = rows[DistinctCount]
    assert isinstance(distinct, DistinctCount)
    estimate, low, high = distinct.estimate(sketch)
    exact = len(np.unique(window))
    assert low <= exact <= high
    assert abs(estimate / exact - 1) < distinct.bound.size
    quantile, sketch = rows[Quantile]
    assert isinstance(quantile, Quantile)
    for fraction in (0.05, 0.5, 0.99):
        found = quantile.estimate(sketch, fraction)
        assert found is not None
        middle, least, most = found
        assert isinstance(middle, float)
        assert isinstance(least, float)
        assert isinstance(most, float)
        assert abs(np.mean(window <= middle) - fraction) < 2 * quantile.bound.size
        assert least <= np.quantile(window, fraction, method="inverted_cdf") <= most
    frequent, sketch = rows[Frequent]
    assert isinstance(frequent, Frequent)
    for value, estimate, low, high in frequent.estimate(sketch, 5):
        exact = int((window == value).sum())
        assert low <= exact <= high
        assert abs(estimate - exact) <= frequent.bound.size * len(window)


def test_an_aggregate_names_its_sketch_and_its_error():
    argument = Scalar('"c"', Type.DOUBLE, ("c",), "c", "c")
    kinds = {
        AggregateFunction.APPROX_COUNT_DISTINCT: "±3.28% of the value, 0.95 confidence",
        AggregateFunction.APPROX_QUANTILE: "±1.33% of the ranks, 0.99 confidence",
        AggregateFunction.APPROX_TOP: "±0.34% of the number of values, 1 confidence",
    }
    for function, bound in kinds.items():
        assert str(sketch_of(AggregateCall(function, argument, Type.DOUBLE)).bound) == bound


def test_a_window_that_is_not_held_is_refused():
    store = SketchStore(DistinctCount(), 4)
    values = pa.array(np.arange(10))
    store.update(sketch_rows(store.sketch, np.zeros(10, np.int64), np.arange(10), values), 9)
    assert store.lookup(5, 9).keys() == {0}
    with pytest.raises(NotCovered):
        store.lookup(4, 9)


def test_groups_are_renumbered_and_old_sketches_let_go():
    store = SketchStore(DistinctCount(), 4)
    for pane in range(50):
        slots, panes = np.arange(3), np.full(3, pane)
        store.update(sketch_rows(store.sketch, slots, panes, pa.array([pane, 1, 2])), pane)
        assert len(store._intervals) <= 2 * 4 + 2
    store.renumber(np.array([2, 0]))
    assert {slot: store.sketch.estimate(s)[0] for slot, s in store.lookup(45, 49).items()} == {0: 1, 1: 4}  # type: ignore[attr-defined]
