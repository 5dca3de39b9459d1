"""Where rows lie and what an update touches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sash.archive import TECHNIQUES, Layout
from sash.archive.techniques import Order, technique_of
from sash.errors import ArchiveError, UnknownName
from sash.lang.declare import ARCHIVE_TECHNIQUES

EVERY, SPAN = 2, 16


def at(technique, grid, **more):
    return Layout.of(technique, grid, EVERY, SPAN, **more)


# 000, figure 4: windows of 16 minutes, updates every 2, four sub-indices. I1 … I4 are g0e0, g0e1, g1e0, g1e1
# but for where the counting begins.
#
#     births  17–18 → one row of the grid      deaths  17–18 → one column
#     births  19–20 → the other one            deaths  19–20 → the other one


def test_round_robin_takes_turns():
    layout = at("rebuild", (2, 2))
    births = layout.slots(np.array([17, 18, 19, 20]), np.full(4, 30)) // 2
    assert births[0] == births[1] != births[2] == births[3]
    deaths = layout.slots(np.full(4, 16), np.array([17, 18, 19, 20])) % 2
    assert deaths[0] == deaths[1] != deaths[2] == deaths[3]


def test_chronological_partitions_take_neighbours():
    layout = at("chr-rebuild", (2, 2))
    rows = layout.slots(np.arange(1, 33), np.full(32, 40)) // 2
    runs = np.flatnonzero(np.diff(rows)) + 1
    assert np.diff(runs).tolist() == [8] * (len(runs) - 1)


@given(st.integers(1, 9), st.integers(1, 40))
def test_chronological_partitions_are_wide_enough_for_all_that_lives(parts, periods):
    """What is born in p intervals lies in a run of neighbours in each partition, if the first begins one."""
    layout = Layout.of("d-ins", (parts, 1), 1, periods)
    slots = layout.slots(np.arange(4 * periods), np.full(4 * periods, 4 * periods))
    begins = np.flatnonzero(np.diff(slots, prepend=-1))
    for begin in begins[begins < 2 * periods]:
        assert np.count_nonzero(np.diff(slots[begin : begin + periods])) < parts


@pytest.mark.parametrize("name", TECHNIQUES)
@pytest.mark.parametrize("grid", [(2, 2), (4, 4), (2, 8), (8, 2)])
def test_an_update_touches_a_row_and_a_column_of_the_grid(name, grid):
    layout = at(name, grid)
    generations, expirations = layout.generations, layout.expirations
    expected = generations + expirations - (2 if layout.technique.insertion is Order.LAZY else 1)
    for through in range(100, 160, EVERY):
        touched = {*layout.inserted(through - EVERY, through), *layout.expired(through - EVERY, through)}
        assert len(touched) == expected


@pytest.mark.parametrize("name", ["rebuild", "countrebuild"])
def test_guessed_deaths_are_looked_for_before_and_after_and_chronology_keeps_them_together(name):
    layout = at(name, (4, 4), is_estimated=True)
    columns = []
    for through in range(100, 132, EVERY):
        columns.append(len({slot % 4 for slot in layout.expired(through - EVERY, through)}))
    assert max(columns) <= (2 if name == "countrebuild" else 3)
    assert sum(columns) / len(columns) == (2 if name == "countrebuild" else 3)


@pytest.mark.parametrize("name", TECHNIQUES)
@given(
    grid=st.sampled_from([(2, 2), (3, 2), (5, 5), (7, 7)]),
    every=st.integers(1, 9),
    span=st.integers(1, 40),
    before=st.integers(-20, 20),
    passed=st.integers(1, 90),
)
@example(grid=(7, 7), every=10, span=40, before=0, passed=85)
@example(grid=(7, 7), every=1, span=6, before=0, passed=20)
@settings(max_examples=10)
def test_what_dies_is_where_the_update_looks_or_waits_to_be_thrown_away(
    name, grid, every, span, before, passed
):
    """All rows of one update: it may end within an interval, and come after a long silence."""
    layout = Layout.of(name, grid, every, span, seed=3)
    through = before + passed
    pairs, lives = np.meshgrid(np.arange(before - span, through + 1), np.arange(1, span + 1))
    births, deaths = pairs.ravel(), (pairs + lives).ravel()
    slots = layout.slots(births, deaths)
    assert slots.min() >= 0
    assert slots.max() < layout.size
    comes = (births > before) & (deaths > through)
    assert {*slots[comes].tolist()} <= {*layout.inserted(before, through)}
    if layout.technique.insertion is not Order.LAZY:
        goes = (births <= before) & (deaths > before) & (deaths <= through)
        assert {*slots[goes].tolist()} <= {*layout.expired(before, through)}


@given(st.integers(2, 6), st.integers(1, 30), st.integers(-50, 50))
def test_a_lazy_partition_is_filled_again_only_when_all_in_it_has_died(generations, periods, first):
    layout = Layout.of("lazyrebuild", (generations, 1), 1, periods)
    rows = layout.slots(np.arange(first, first + 200), np.full(200, 10_000))
    begins = np.flatnonzero(np.diff(rows)) + 1
    for begin in begins[begins > periods + generations]:
        earlier = np.flatnonzero(rows[:begin] == rows[begin])
        assert first + earlier[-1] + periods <= first + begin if len(earlier) else True


def test_random_order_is_the_same_every_time_and_fair():
    births, deaths = np.arange(8, 8 + 2 * 160, 2), np.full(160, 10_000)
    rows = at("random-rebuild", (4, 4), seed=5).slots(births, deaths) // 4
    again = at("random-rebuild", (4, 4), seed=5).slots(births, deaths) // 4
    assert rows.tolist() == again.tolist()
    assert np.bincount(rows, minlength=4).tolist() == [40, 40, 40, 40]
    assert rows.tolist() != (at("rebuild", (4, 4)).slots(births, deaths) // 4).tolist()
    columns = at("random-rebuild", (4, 4), seed=5).slots(births, births) % 4
    assert np.bincount(columns, minlength=4).tolist() == [40, 40, 40, 40]
    assert columns.tolist() != rows.tolist()


def test_a_wave_index_divides_one_time_by_all_partitions():
    assert technique_of("reindex").grid((4, 4)) == (16, 1)
    assert technique_of("d-exp").grid((2, 3)) == (1, 6)


def test_every_technique_of_the_language_is_one():
    for name in ARCHIVE_TECHNIQUES:
        assert name == "auto" or technique_of(name) in TECHNIQUES.values()
    assert {*TECHNIQUES} <= {*ARCHIVE_TECHNIQUES}


def test_names_and_grids_that_cannot_be():
    with pytest.raises(UnknownName, match="rebild"):
        technique_of("rebild")
    with pytest.raises(ArchiveError, match="at least two partitions") as failure:
        technique_of("lazyrebuild").grid((1, 4))
    assert failure.value.id == "archive-grid"
