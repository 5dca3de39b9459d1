"""The benchmark of operators: fair, and honest about state."""

from __future__ import annotations

import pytest
from experiments.tests.kit import number

from sash_experiments import operator_rates
from sash_experiments.operator_rates import CASES, Query, Sizes, measure_at

TINY = Sizes(windows=(500, 4_000), batch=500, round_tuples=4_000, rounds=4)


@pytest.fixture(scope="module")
def result():
    return measure_at(TINY, "tiny")


def test_it_measures_every_query_at_every_window(result):
    places = [(row["query"], row["window"]) for row in result.table]
    assert places == [(case.name, window) for case in CASES for window in TINY.windows]
    assert all(number(row, "tuples/s") > 0 for row in result.table)


def test_a_tuple_changes_the_answer_as_often_at_every_window(result):
    assert {claim.id: claim for claim in result.claims}["equal-results"].holds


def test_state_is_flat_over_the_run(result):
    assert {claim.id: claim for claim in result.claims}["flat"].holds


def test_state_follows_the_window(result):
    rows = {(row["query"], row["window"]): number(row, "state rows") for row in result.table}
    for case in CASES:
        assert 6 < rows[case.name, 4_000] / rows[case.name, 500] < 10


def test_the_picture_is_drawn(result, tmp_path):
    operator_rates.draw(result, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").exists()


def test_the_join_has_a_result_a_tuple():
    query = Query(CASES[0], 1_000, 1)
    for rows in query.batches(6_000, 500):
        query.take(rows)
    changes = sum(query.take(rows) for rows in query.batches(4_000, 500))
    assert changes / 4_000 == pytest.approx(2, rel=0.1)
