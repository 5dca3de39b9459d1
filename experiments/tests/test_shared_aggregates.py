"""The experiments of shared aggregates: synopses agree, tables are complete, pictures are drawn."""

from __future__ import annotations

import json

import pytest
from experiments.tests.kit import number

from sash_experiments import (
    approximate_aggregates,
    asw_rates,
    ci_count,
    having_queries,
    having_thresholds,
    join_synopses,
    running_sums,
    shared_aggregates,
)
from sash_experiments.mixed_inputs import DRIVERS

MIXED = shared_aggregates.Sizes(50, (0.0, 0.5, 1.0), 1, 0.001, 300)
TINY = {
    approximate_aggregates: approximate_aggregates.Sizes(3_000, 22),
    shared_aggregates: MIXED,
    asw_rates: asw_rates.Sizes((20, 200), (5, 50), 500, 200, 1),
    ci_count: ci_count.Sizes(200, 20_000, 10, 400, 400, 1, (1, 8, 64)),
    having_thresholds: having_thresholds.Sizes((400, 1_600), 40, 60, 10),
    having_queries: having_queries.Sizes((300, 900), 12, 3, 8, 20, 0.1, 2),
    join_synopses: join_synopses.Sizes(600, 60, 50, 5, (1, 3)),
    running_sums: running_sums.Sizes(40_000, 10_000),
}


@pytest.fixture(scope="module", params=TINY, ids=lambda module: module.NAME)
def run(request):
    return request.param, request.param.measure_at(TINY[request.param], "tiny")


def test_every_claim_has_a_measurement_and_the_picture_is_drawn(run, tmp_path):
    module, result = run
    assert result.table
    assert all(claim.measured for claim in result.claims)
    written = json.loads(result.write(tmp_path).read_text())
    assert [claim["holds"] for claim in written["claims"]] == [claim.holds for claim in result.claims]
    module.draw(result, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").exists()


def test_every_synopsis_has_a_rate_at_every_share():
    """That they answer alike is checked by the experiment itself."""
    rates = shared_aggregates.measure_share(0.5, MIXED)
    assert rates.keys() == DRIVERS.keys()
    assert all(rate > 0 for rate in rates.values())


def test_exact_answers_of_ci_count_are_those_of_the_naive_way(run):
    module, result = run
    if module is ci_count:
        answers = [number(row, "answers") for row in result.table]
        assert len(set(answers)) == 1
        candidates = [number(row, "candidates") for row in result.table[1:]]
        assert candidates == sorted(candidates, reverse=True), "the larger p, the fewer"


def test_running_sums_are_exact(run):
    module, result = run
    if module is running_sums:
        assert result.claims[0].holds
        assert all(row["R-INT error"] == 0 for row in result.table)
