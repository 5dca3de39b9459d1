"""Collective indexes: candidates are all that pass and few more, extremes are exact, state is bounded."""

from __future__ import annotations

import collections
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.errors import AlgebraError
from sash.plan.having import Comparison, Threshold
from sash.synopses.collective.ci_max import CollectiveExtremes
from sash.synopses.collective.ci_sum import CollectiveSums
from sash.synopses.collective.substreams import Substreams

LIMITS = (-1, 0, 0.5, 1, 2, 3, 5, 8.5, 20, 100)


@dataclass
class Stream:
    """Random elements of some groups in order of time, and aggregates of suffixes from scratch."""

    rng: np.random.Generator
    now: int = 0
    rows: list[tuple[int, int, float, int]] = field(default_factory=list)

    def batch(self, weights):
        count = int(self.rng.integers(0, 60))
        times = self.now + np.sort(self.rng.integers(0, int(self.rng.choice([1, 5, 30])), count))
        slots = self.rng.integers(0, 8, count)
        values = self.rng.integers(-5, 6, count)
        drawn = weights(self.rng, count)
        self.rows += zip(times.tolist(), slots.tolist(), drawn.tolist(), values.tolist(), strict=True)
        self.now = max(self.now, int(times[-1]) if count else self.now) + int(self.rng.integers(0, 4))
        return slots, times, drawn, values

    def since(self, edge):
        """Sums, least and greatest values by group, of what is after `edge`."""
        sums: dict[int, float] = collections.defaultdict(float)
        values: dict[int, list[int]] = collections.defaultdict(list)
        for time, slot, weight, value in self.rows:
            if time > edge:
                sums[slot] += weight
                values[slot].append(value)
        return sums, values


def whole(rng, count):
    return rng.choice([0, 1, 1, 1, 2, 50], count)


def broken(rng, count):
    return rng.random(count) * rng.choice([0.0, 1.0, 30.0])


@pytest.mark.parametrize(("unit", "weights"), [(None, whole), (1.5, broken), (0.25, broken), (10.0, whole)])
@given(st.integers(0, 2**32), st.sampled_from([1, 2, 3, 8]))
def test_candidates_are_all_that_pass_and_some_that_miss_by_less_than_the_bound(unit, weights, seed, p):
    stream = Stream(np.random.default_rng(seed), now=int(seed % 60) - 30)
    rng, reach = stream.rng, int(seed % 39) + 1
    index = CollectiveSums(p, reach, unit)
    for _ in range(5):
        slots, times, drawn, _ = stream.batch(weights)
        index.update(slots, times, drawn)
        if rng.random() < 0.5:
            index.expire(stream.now)
        if rng.random() < 0.2:
            fresh = CollectiveSums(p, reach, unit)
            fresh.restore(index.snapshot())
            index = fresh
        for _ in range(6):
            width = int(rng.integers(1, reach + 1))
            comparison = list(Comparison)[int(rng.integers(4))]
            threshold = Threshold(comparison, float(rng.choice(LIMITS)))
            sums, _ = stream.since(stream.now - width)
            found = index.candidates(stream.now, width, threshold).tolist()
            bound = index.bound(threshold)
            assert len(set(found)) == len(found)
            passing = {k for k, total in sums.items() if comparison.holds(np.array(total), threshold.value)}
            assert passing <= set(found)
            assert all(sums[k] > bound if comparison.is_upwards else sums[k] < bound for k in found)
            sure = index.are_sure(np.array(found, dtype=np.int64), stream.now, width, threshold)
            assert {k for k, is_sure in zip(found, sure, strict=True) if is_sure} <= passing
            assert set(found) <= set(sums), "groups without rows in the window are no groups"


@given(st.integers(0, 2**32), st.sampled_from([None, 1.5]))
def test_many_lookups_in_one_go_find_what_each_finds_alone(seed, unit):
    stream = Stream(np.random.default_rng(seed))
    index = CollectiveSums(3, 30, unit)
    for _ in range(3):
        slots, times, drawn, _ = stream.batch(whole)
        index.update(slots, times, drawn)
    upwards = (Comparison.MORE, Comparison.AT_LEAST)
    thresholds = [Threshold(comparison, limit) for comparison in upwards for limit in LIMITS]
    widths = stream.rng.integers(1, 31, len(thresholds))
    found = index.upwards(stream.now, widths, thresholds)
    for i, threshold in enumerate(thresholds):
        part = slice(found.offsets[i], found.offsets[i + 1])
        alone = index.candidates(stream.now, int(widths[i]), threshold)
        assert found.slots[part].tolist() == alone.tolist()
        sure = index.are_sure(alone, stream.now, int(widths[i]), threshold)
        assert found.is_sure[part].tolist() == sure.tolist()


@pytest.mark.parametrize("is_min", [False, True])
@given(st.integers(0, 2**32))
def test_extremes_are_exact_in_both_directions(is_min, seed):
    stream = Stream(np.random.default_rng(seed), now=int(seed % 60) - 30)
    rng, reach = stream.rng, int(seed % 39) + 1
    index = CollectiveExtremes(reach, is_min=is_min)
    for _ in range(6):
        slots, times, _, values = stream.batch(whole)
        index.update(slots, times, values)
        if rng.random() < 0.5:
            index.expire(stream.now)
        if rng.random() < 0.2:
            fresh = CollectiveExtremes(reach, is_min=is_min)
            fresh.restore(index.snapshot())
            index = fresh
        if rng.random() < 0.2 and index.slots:
            index.renumber(np.arange(index.slots)[::-1])
            stream.rows = [(t, index.slots - 1 - slot, w, v) for t, slot, w, v in stream.rows]
        for _ in range(6):
            width = int(rng.integers(1, reach + 1))
            least, greatest = sorted(rng.integers(-6, 7, 2).tolist())
            _, of_group = stream.since(stream.now - width)
            extremes = {slot: (min if is_min else max)(found) for slot, found in of_group.items()}
            expected = [slot for slot, value in extremes.items() if least <= value <= greatest]
            assert sorted(index.between(stream.now, width, least, greatest).tolist()) == sorted(expected)
            above = [slot for slot, value in extremes.items() if value >= least]
            assert sorted(index.between(stream.now, width, least).tolist()) == sorted(above)


@given(st.integers(0, 2**32))
def test_sums_by_substream_are_those_of_the_elements(seed):
    stream = Stream(np.random.default_rng(seed))
    reach = int(seed % 39) + 1
    substreams = Substreams(reach)
    for _ in range(6):
        slots, times, drawn, _ = stream.batch(whole)
        substreams.update(slots, times, drawn)
        for width in {1, reach // 2 + 1, reach}:
            sums, _ = stream.since(stream.now - width)
            found = substreams.lookup(stream.now, width)
            assert found.tolist() == [sums.get(slot, 0) for slot in range(substreams.slots)]


@pytest.mark.parametrize(("p", "above"), [(1, 0.75), (2, 0.5), (8, 0.2), (40, 0.05)])
def test_the_error_falls_as_two_by_p(p, above):
    """The paper gives ¾ for p = 1 and ½ for p = 2."""
    index = CollectiveSums(p, 10)
    limits = range(1, 5000)
    up = max(1 - (index.bound(Threshold(Comparison.MORE, v)) + 1) / (v + 1) for v in limits)
    assert 0.9 * above < up <= above
    if p > 1:
        down = max(index.bound(Threshold(Comparison.LESS, v)) / v - 1 for v in limits)
        assert down <= 2 / p
    assert CollectiveSums.within(2 / p, 10).p == p


def test_a_threshold_looks_at_a_position_that_is_near_enough():
    """As in the example of the paper's figure 8: of the fourth to seventh newest, to know of the twelfth."""
    gaps = {0: 1, 1: 2, 2: 6}
    index = CollectiveSums(1, 1000)
    rows = sorted((106 - gap * i, slot) for slot, gap in gaps.items() for i in range(16))
    slots, times = np.array([slot for _, slot in rows]), np.array([time for time, _ in rows])
    index.update(slots, times, np.ones(len(rows), np.int64))
    found = index.candidates(106, 20, Threshold(Comparison.MORE, 11))
    assert set(found.tolist()) == {0, 1}, "16, 10 and 4 in 20 time units"
    assert index.bound(Threshold(Comparison.MORE, 11)) == 3, "the fourth newest at the least"


def test_negative_values_are_refused():
    with pytest.raises(AlgebraError, match="cannot count"):
        CollectiveSums(4, 10, 1.0).update(np.array([0]), np.array([1]), np.array([-1.0]))


@settings(max_examples=5)
@given(st.integers(0, 2**32))
def test_state_does_not_grow_with_the_length_of_the_input(seed):
    def most(batches):
        rng = np.random.default_rng(seed)
        sums, extremes = CollectiveSums(4, 50), CollectiveExtremes(50)
        sums.watch(Threshold(Comparison.MORE, 10))
        sizes = []
        for batch in range(batches):
            times = batch * 10 + np.sort(rng.integers(0, 10, 100))
            slots = rng.integers(0, 20, 100)
            sums.update(slots, times, np.ones(100))
            extremes.update(slots, times, rng.integers(0, 1000, 100))
            sums.expire(int(times[-1]))
            extremes.expire(int(times[-1]))
            sizes.append(len(extremes))
        return max(sizes), len(sums._tree), extremes._tree.nbytes

    few, many = most(40), most(200)
    assert many[0] <= 1.3 * few[0]
    assert many[1] == few[1]
    assert many[2] <= 1.6 * few[2]


def test_groups_that_are_dropped_leave_the_index():
    index = CollectiveSums(2, 10)
    index.watch(Threshold(Comparison.LESS, 3))
    index.update(np.arange(100), np.arange(100), np.ones(100))
    index.expire(99)
    assert len(index._tree) == 2 * 10, "the newest times and one level of ten groups"
    index.renumber(np.arange(90, 100))
    assert sorted(index.candidates(99, 5, Threshold(Comparison.MORE, 0)).tolist()) == [5, 6, 7, 8, 9]


def test_memory_is_what_the_cards_say():
    """Arrays of groups and levels exactly; the tree by its entries, at a fill of three eighths to one."""
    groups, p = 500, 4
    index = CollectiveSums(p, 1000)
    for limit in (3, 30, 300):
        index.watch(Threshold(Comparison.MORE, limit))
    rng = np.random.default_rng(1)
    index.update(np.arange(groups), np.zeros(groups, np.int64), np.ones(groups))
    for time in range(1, 400):
        index.update(np.arange(groups), np.full(groups, time), rng.integers(0, 3, groups))
    levels, watched = index.stamps.shape[1], len(index._levels)
    assert levels <= p * np.log2(2 * index.positions.max() / p) + p
    arrays = groups * (8 * levels + 8 * watched + 4 * 8)
    assert index.nbytes - index._tree.nbytes == arrays
    assert entry_bytes(index._tree) < 40 * 8 / 3 * 1.6
    extremes = CollectiveExtremes(64)
    for time in range(200):
        extremes.update(np.arange(groups), np.full(groups, time), rng.integers(0, 1000, groups))
        extremes.expire(time)
    steps = extremes._steps.nbytes + extremes._is_filed.nbytes
    assert 49 * len(extremes) <= steps <= 4 * 49 * len(extremes), "doubled, and some are free"
    assert len(extremes._tree) <= len(extremes) * (2 * 6 + 1 + 1)


def entry_bytes(tree):
    return tree.nbytes / len(tree)


def test_an_index_for_some_thresholds_keeps_no_levels_beyond_them():
    groups, asked = 300, [Threshold(Comparison.MORE, limit) for limit in (20, 45)]
    small, whole = CollectiveSums(4, 50, only=asked), CollectiveSums(4, 50)
    rng = np.random.default_rng(2)
    for time in range(120):
        slots = np.flatnonzero(rng.random(groups) < (0.5 if time else 1.0))
        given = slots, np.full(len(slots), time), rng.integers(0, 5, len(slots))
        for index in (small, whole):
            index.update(*given)
            index.expire(time)
        for threshold in asked:
            for width in (5, 30, 50):
                found = np.sort(small.candidates(time, width, threshold))
                np.testing.assert_array_equal(found, np.sort(whole.candidates(time, width, threshold)))
    levels = small.stamps.shape[1]
    assert small._levels[-1] < levels <= small._levels[-1] + 4, "rounded up to p of them"
    assert levels < whole.stamps.shape[1]
    assert len(small._levels) == 2, "newest times need not be sorted"
    arrays = groups * (8 * levels + 8 * 2 + 4 * 8)
    assert small.nbytes - small._tree.nbytes == arrays
