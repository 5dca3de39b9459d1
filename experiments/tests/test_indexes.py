"""Experiments with indexes: what they compare answers alike, and their tables and pictures are complete."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from experiments.tests.kit import number

from sash.indexes import value_window
from sash.lang.indexing import IndexSpec
from sash_experiments import (
    frequent_items,
    index_maintenance,
    index_queries,
    index_speed,
    periodic_values,
    retained_probe,
    ring_maintenance,
    sorted_windows,
)
from sash_experiments.index_windows import (
    POWER_LAW,
    UNIFORM,
    Setting,
    Unindexed,
    UnindexedAggr,
    drawn,
    input_of,
    repeats,
)

SETTING = Setting(POWER_LAW, 50, 10, 1_000)


def test_windows_without_an_index_have_the_histogram_of_those_with_one():
    given = input_of(SETTING, 300, 2)
    plain, merged = Unindexed(given.fill), UnindexedAggr(given.fill)
    window = value_window(IndexSpec(), pa.int64(), SETTING.basic_windows)
    for values in given.fill:
        window.slide(values)
    for values in (each for slides in given.rounds for each in slides):
        for one in (plain, merged, window):
            one.slide(values)
        table = window.histogram()
        for histogram in (plain.histogram(), merged.histogram()):
            assert [column.tolist() for column in histogram] == list(table.to_pydict().values())


def test_a_power_law_repeats_more_than_a_uniform_draw():
    assert repeats(SETTING) > repeats(Setting(UNIFORM, 50, 10, 1_000)) > 1
    counts = np.sort(np.bincount(drawn(SETTING, 100_000, 1)))[::-1]
    assert counts[0] / counts[9] == pytest.approx(10, rel=0.15)


@pytest.mark.parametrize(
    ("module", "sizes"),
    [
        (index_maintenance, index_maintenance.Sizes(2_000, 200, 1, (5, 50), (20, 200))),
        (index_queries, index_maintenance.Sizes(2_000, 200, 1, (5, 50), (20, 200))),
        (ring_maintenance, ring_maintenance.Sizes(2_000, 200, 1, (5, 50), (20, 200))),
        (frequent_items, frequent_items.Sizes(2_000, (20, 100), (1, 3, 8), 2)),
        (periodic_values, periodic_values.Sizes(2_000, (20,), (5, 50), 400, 2, 2)),
        (sorted_windows, sorted_windows.Sizes(1_000, 300, (5, 20), 2)),
        (retained_probe, retained_probe.Sizes(5_000, 500, 2, 2)),
        (index_speed, index_speed.Sizes(2_000, (20, 200), (5, 50), 2, 1, 5_000, 100, 20)),
    ],
    ids=lambda given: getattr(given, "NAME", ""),
)
def test_an_experiment_runs_at_any_size_and_draws_its_picture(module, sizes, tmp_path):
    result = module.measure_at(sizes, "tiny")
    assert result.table
    assert all(claim.measured for claim in result.claims)
    module.draw(result, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1_000
    assert str(result)


def test_frequent_items_of_a_trace_are_never_false_and_long_lists_find_more():
    result = frequent_items.measure_at(frequent_items.Sizes(20_000, (20,), (1, 10), 3), "tiny")
    claims = {claim.id: claim for claim in result.claims}
    assert claims["no-false-positives"].holds
    first, last = result.table
    assert number(first, "δ %") > number(last, "δ %")
    assert number(first, "reported") <= number(last, "reported")


def test_the_trace_has_the_published_number_of_sources():
    packets = frequent_items.trace(400_000)
    assert packets.max() < frequent_items.SOURCES
    assert len(np.unique(packets)) > 0.9 * frequent_items.SOURCES
