"""Four streams: every order and algorithm joins the same, and costs are predicted as published."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from experiments.tests.kit import given, number

from sash.operators.build import build
from sash_experiments import join_algorithms, join_order
from sash_experiments.drive import SECOND, Feed, planned
from sash_experiments.four_streams import (
    LENGTH,
    RATES,
    VALUES,
    Algorithm,
    FourStreams,
    join_text,
    join_variant,
)
from sash_experiments.measure import Variant
from sash_experiments.reshape import cut_at, join_of

STREAMS = FourStreams(times=1, units=LENGTH + 20)


@pytest.fixture(scope="module")
def tables():
    return STREAMS.tables()


def results(variant, first, last, step):
    """Results of (first, last] in time units, by when they begin and end."""
    found: list[tuple[int, int, int]] = []
    for each in variant.feed.steps(first * STREAMS.ticks, last * STREAMS.ticks, step * STREAMS.ticks):
        for delta in given(variant, each):
            found.extend(
                zip(
                    (delta.ts // SECOND).tolist(),
                    (delta.exp // SECOND).tolist(),
                    delta.columns[0].to_pylist(),
                    strict=True,
                )
            )
    return sorted(found)


def joined(tables, order, algorithm, *, is_hashed):
    variant = join_variant(STREAMS, tables, order, algorithm, 10, is_hashed=is_hashed)
    step = 1 if algorithm.is_eager else 10
    return results(variant, LENGTH, LENGTH + 20, step)


def test_the_streams_have_their_rates_and_values(tables):
    counts = np.array([len(tables[f"s{i}"]) for i in (1, 2, 3, 4)])
    assert counts.sum() == STREAMS.units * sum(RATES)
    assert counts / STREAMS.units == pytest.approx(np.array(RATES), rel=0.25)
    for i, values in enumerate(VALUES):
        drawn = np.asarray(tables[f"s{i + 1}"].column("a"))
        assert drawn.min() >= 1
        assert drawn.max() <= values
    instants = np.concatenate([np.asarray(table.column("t")) for table in tables.values()])
    assert sorted(instants) == list(range(1, len(instants) + 1))


def test_every_order_and_algorithm_gives_the_same_results_and_lazy_only_those_that_last(tables):
    whole = joined(tables, join_order.BEST, Algorithm.EAGER, is_hashed=True)
    assert len(whole) > 10_000
    for order, is_hashed in itertools.product(join_order.orders(), (False, True)):
        assert joined(tables, order, Algorithm.EAGER_LAZY_EXPIRATION, is_hashed=is_hashed) == whole
    assert joined(tables, join_order.BEST, Algorithm.LAZY_RESTORE, is_hashed=False) == whole
    lazy = joined(tables, join_order.BEST, Algorithm.LAZY, is_hashed=True)
    slide = 10 * STREAMS.ticks
    lasting = sorted(
        (-(-begin // slide) * slide, -(-end // slide) * slide, value)
        for begin, end, value in whole
        if -(-begin // slide) < -(-end // slide)
    )
    assert lazy == lasting
    assert len(lazy) < len(whole)


def test_windows_that_are_filled_at_once_are_as_if_the_join_had_run(tables):
    filled = join_variant(STREAMS, tables, join_order.BEST, Algorithm.EAGER, 0, is_hashed=True)
    plan = planned(join_text(join_order.BEST, LENGTH * STREAMS.ticks, None), shape=lambda written: written)
    flow = build(plan)
    ran = Variant(cut_at(flow, join_of(flow)), Feed(plan, tables))
    assert results(ran, 0, LENGTH, 5)
    assert results(filled, LENGTH, LENGTH + 5, 1) == results(ran, LENGTH, LENGTH + 5, 1)


def test_costs_of_the_orders_are_those_published():
    predicted = [round(join_order.predicted(order, is_hashed=False), 2) for order in join_order.orders()]
    assert predicted == [1, round(21000 / 16200, 2), round(42600 / 16200, 2), round(135150 / 16200, 2)]


def test_join_order_compares_eight_algorithms_in_four_orders(tmp_path):
    result = join_order.measure_at(join_order.Sizes((1,), rounds=1, units=10), "tiny")
    assert len(result.table) == 2 + 8
    claims = {claim.id: claim for claim in result.claims}
    assert claims["same-results"].holds
    assert claims["heuristic"].measured == "S2 S1 S3 S4"
    join_order.draw(result, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").exists()


def test_join_algorithms_counts_what_lazy_evaluation_loses(tmp_path):
    result = join_algorithms.measure_at(join_algorithms.Sizes(1, (1, 10), rounds=1), "tiny")
    lost = {(row["join"], row["Δ"]): number(row, "lost by lazy") for row in result.table if row["Δ"]}
    assert lost["hashed", 10] == lost["nested loops", 10]
    assert 0 <= lost["hashed", 1] < lost["hashed", 10] < 0.5
    join_algorithms.draw(result, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").exists()
