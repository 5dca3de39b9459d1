"""Where rows lie and what an update touches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
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


@given(
    name=st.sampled_from(sorted(TECHNIQUES)),
    grid=st.sampled_from([(2, 2), (3, 2), (5, 5), (2, 7)]),
    every=st.integers(1, 9),
    span=st.integers(1, 40),
    data=st.data(),
)
def test_what_dies_is_where_the_update_looks_or_waits_to_be_thrown_away(name, grid, every, span, data):
    layout = Layout.of(name, grid, every, span, seed=3)
    before = data.draw(st.integers(-100, 100))
    through = before + data.draw(st.integers(1, 3 * span))
    births = np.array([data.draw(st.integers(before - span, through))])
    deaths = np.array([births[0] + data.draw(st.integers(1, span))])
    (slot,) = layout.slots(births, deaths).tolist()
    assert 0 <= slot < layout.size
    if before < births[0] and deaths[0] > through:
        assert slot in layout.inserted(before, through)
    if before < deaths[0] <= through and layout.technique.insertion is not Order.LAZY:
        assert slot in layout.expired(before, through)


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
