"""The experiments about archives: their data, the closed forms of the proof; times are not tested."""

from __future__ import annotations

import numpy as np
import pytest

from sash.archive import BORN, DIES
from sash.errors import UserError
from sash_experiments import (
    archive_counts,
    archive_measure,
    archive_rates,
    archive_strict,
    archive_techniques,
    archive_variance,
)
from sash_experiments.archive_data import ALTERNATING, EVERY, FLUCTUATING, SPAN, SPEC, Feed
from sash_experiments.archive_measure import Entrant, Measured, Updates, Variant, drive_all, rounds_of
from sash_experiments.archive_variance import chronological, closed_forms, measured_variance
from sash_experiments.registry import all_experiments, run_experiment
from sash_experiments.result import silent


@pytest.mark.parametrize(("side", "periods"), [(2, 8), (2, 40), (3, 12), (4, 16), (4, 40), (5, 50)])
def test_sizes_vary_as_the_closed_forms_say(side, periods):
    n = side * side
    assert measured_variance("rebuild", side, periods) == pytest.approx(closed_forms(n, periods).round_robin)
    assert measured_variance("chr-rebuild", side, periods) == pytest.approx(chronological(n, periods))


def test_the_published_form_of_chronological_partitioning_is_that_of_four_sub_indices():
    assert chronological(4, 24) == pytest.approx(closed_forms(4, 24).chronological)
    assert chronological(9, 24) > closed_forms(9, 24).chronological


@pytest.mark.parametrize("rate", ["constant", FLUCTUATING, ALTERNATING])
def test_a_feed_keeps_as_many_rows_alive_as_it_says(rate):
    feed = Feed(2_000, rate, 10)
    rows = [update.rows for update in feed.batches()]
    born = np.concatenate([table.column(BORN).to_numpy() for table in rows])
    dies = np.concatenate([table.column(DIES).to_numpy() for table in rows])
    assert (dies - born).max() <= SPAN
    for now in (0, 10 * EVERY):
        live = int(((born <= now) & (dies > now)).sum())
        assert live == pytest.approx(2_000, rel=0.1 if rate == "constant" else 0.5)


def test_a_feed_of_a_window_of_rows_guesses_and_tells_the_least_position():
    updates = list(Feed(500, FLUCTUATING, 4).counted())
    assert [update.batch for update in updates] == [0, 1, 2, 3, 4]
    floors = [update.floors["position"] for update in updates]
    assert floors == sorted(floors)
    last = updates[-1].rows
    assert bool((last.column(DIES).to_numpy() > last.column(BORN).to_numpy()).all())


TINY = Feed(200, updates=6)
GRIDS = [Variant("rebuild", (side, side)) for side in (2, 3, 4, 5)]


@pytest.mark.parametrize(
    ("room", "expected"),
    [(1, ["a", "a", "b", "b", "b", "c"]), (2, ["aa", "bb", "bc"]), (3, ["aa", "bbb", "c"]), (9, ["aabbbc"])],
)
def test_what_is_compared_is_driven_together_as_far_as_there_is_room(room, expected):
    feeds: dict[str, Updates] = {name: (lambda: []) for name in "abc"}
    parties = [
        [Entrant(GRIDS[i], feeds[name]) for i in range(size)] for name, size in (("a", 2), ("b", 3), ("c", 1))
    ]
    names = {feed: name for name, feed in feeds.items()}
    rounds = rounds_of(parties, room)
    assert ["".join(names[each.updates] for each in entrants) for entrants in rounds] == expected


def test_another_one_is_first_at_every_update_and_at_every_scan(monkeypatch):
    turns: dict[str, list[str]] = {"update": [], "scan": []}

    class Driven:
        def __init__(self, variant, spec, folder):
            self.side = str(variant.grid[0])

        def step(self, update):
            if update.through > 0:
                turns["update"].append(self.side)

        def scan(self):
            turns["scan"].append(self.side)

        def end(self):
            return Measured()

    monkeypatch.setattr(archive_measure, "_Driven", Driven)
    feeds = [Feed(20, rate, updates=9).batches for rate in ("constant", FLUCTUATING)]
    party = [Entrant(GRIDS[0], feeds[0]), Entrant(GRIDS[1], feeds[0]), Entrant(GRIDS[2], feeds[1])]
    assert list(drive_all([party], SPEC, 20, silent)) == party
    assert "".join(turns["update"]) == 3 * "234342423"
    assert "".join(turns["scan"]) == "342423234"


@pytest.mark.parametrize(
    ("module", "measure"),
    [
        (archive_rates, lambda: archive_rates.measure_at(TINY, "small")),
        (archive_counts, lambda: archive_counts.measure_at(Feed(200, FLUCTUATING, 6), "small")),
        (archive_strict, lambda: archive_strict.measure_at(TINY, "small")),
        (
            archive_techniques,
            lambda: archive_techniques.measure_at(
                TINY, [v for v in archive_techniques.variants() if v.grid == (4, 4)], "small"
            ),
        ),
    ],
)
def test_an_experiment_leaves_a_table_claims_and_a_picture(module, measure, tmp_path):
    result = measure()
    assert result.table
    assert module.NAME in all_experiments()
    same = [claim for claim in result.claims if claim.id == "same-rows"]
    assert all(claim.holds for claim in same)
    assert all(claim.because or claim.measured for claim in result.claims)
    module.draw(result, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5_000


def test_the_variances_are_found_by_name_and_at_a_scale_that_there_is(tmp_path, monkeypatch):
    monkeypatch.setitem(archive_variance.SCALES, "small", 20)
    result = run_experiment("archive-variance", "small", tmp_path)
    assert {claim.id: claim.holds for claim in result.claims} == {
        "round-robin-form": True,
        "chronological-form": False,
        "theorem": True,
    }
    with pytest.raises(UserError, match="no scale 'medium'"):
        run_experiment("planning", "medium")


def test_variants_are_named_as_in_the_publications():
    assert [Variant("r-ins", (2, 2)).name, Variant("rebuild", (2, 8)).name] == ["R-ins4", "rebuild 2x8"]
