"""The experiments with window transactions: the simulation keeps its promises, and claims say why."""

from __future__ import annotations

import pytest
from experiments.tests.kit import number

from sash.transactions.events import Isolation
from sash_experiments import (
    reading_while_sliding,
    transaction_aborts,
    transaction_one_time,
    transaction_periodic,
)
from sash_experiments.transaction_workload import SCHEDULERS, Costs, Load, Sizes, simulate

TINY = Sizes((4, 12), 1, windows=2)


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_simulated_run_has_the_isolation_of_its_scheduler_and_wastes_no_time(name):
    load = Load(20, 1, 40, one_time=1.0, windows=2, costs=Costs(sub_window=30_000))
    outcome = simulate(load, SCHEDULERS[name](), seed=1)
    found = outcome.classified()
    assert found.violation is None
    assert len(found.verdicts) == len(outcome.commits) > 20
    if SCHEDULERS[name]().isolation is Isolation.LWS:
        assert found.is_latest_window_serializable
    assert (outcome.aborts > 0) == (name == "LWS")
    assert any(commit.is_once for commit in outcome.commits)
    for commit in outcome.commits:
        assert commit.reflects <= commit.reported
        assert commit.arrived < commit.reported
    # Reports come one after the other until the time is over.
    reported = [commit.reported for commit in outcome.commits]
    assert reported == sorted(reported)
    assert reported[-1] > 0.9 * load.duration


def test_the_same_seed_is_the_same_workload():
    load = Load(5, 1, 40)
    first, again, other = (simulate(load, SCHEDULERS["TTU"](), seed).commits for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize("experiment", [transaction_aborts, transaction_periodic, transaction_one_time])
def test_an_experiment_gives_a_table_claims_and_a_picture(experiment, tmp_path):
    result = experiment.measure_at(TINY, "tiny")
    assert result.table
    assert len({claim.id for claim in result.claims}) == len(result.claims)
    experiment.draw(result, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").exists()


def test_ttu_aborts_less_than_lws():
    rows = transaction_aborts.measure_at(TINY, "tiny").table
    assert all(number(row, "TTU aborts %") <= number(row, "LWS aborts %") for row in rows)


def test_questions_beside_a_pipeline_are_right_and_latest(tmp_path):
    sizes = reading_while_sliding.Sizes(
        rows=200, queries=5, beat=0.1, warm=4, spells=2, spell=8, rates=(0, 2)
    )
    result = reading_while_sliding.measure_at(sizes, "tiny")
    assert [row["questions a slide"] for row in result.table] == [0, 2]
    # Times are those of the machine.
    assert all(claim.holds for claim in result.claims if not claim.id.startswith("batch-time")), str(result)
    reading_while_sliding.draw(result, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").exists()
