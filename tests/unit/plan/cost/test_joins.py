"""The cost of n-way joins: the published numbers, and what holds for any parameters."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.plan.cost.published import TABLE_5_3, TABLE_5_5, TABLE_5_5_AS_PRINTED, TABLE_5_6, order

from sash.errors import InternalError
from sash.plan.cost.joins import (
    WindowStatistics,
    cost_of_stream,
    cost_per_tuple,
    join_cost,
    matches_per_tuple,
    result_size,
)

windows = st.builds(
    WindowStatistics,
    st.floats(0.1, 100),
    st.floats(1, 1000),
    st.floats(1, 1000),
)
joins = st.lists(windows, min_size=2, max_size=5)


@pytest.mark.parametrize(
    ("subset", "size"),
    [
        ("12", 200),
        ("13", 400),
        ("14", 600),
        ("23", 400),
        ("24", 600),
        ("34", 1500),
        ("123", 800),
        ("124", 1200),
    ],
)
def test_intermediate_results_are_those_of_table_5_4(subset, size):
    assert result_size(TABLE_5_3, order(subset)) == pytest.approx(size)


@pytest.mark.parametrize(("stream", "cost"), [(0, 3800), (1, 3800), (2, 2400), (3, 6000)])
def test_each_stream_of_table_5_3_costs_what_is_published(stream, cost):
    assert cost_of_stream(TABLE_5_3, order("1234"), stream) == pytest.approx(cost)


@pytest.mark.parametrize(
    ("table", "global_order", "cost"),
    [
        (TABLE_5_3, "1234", 16000),
        (TABLE_5_3, "4321", 86850),
        (TABLE_5_5, "2134", 16200),
        (TABLE_5_5, "2341", 42600),
        (TABLE_5_5, "1234", 21000),
        (TABLE_5_6, "3412", 49542),
        (TABLE_5_6, "3142", 47977),
        (TABLE_5_6, "3124", 51954),
        (TABLE_5_6, "1234", 68200),
        (TABLE_5_6, "2134", 79000),
    ],
)
def test_global_orders_cost_what_is_published(table, global_order, cost):
    assert round(join_cost(table, order(global_order))) == cost


def test_table_5_5_was_computed_with_a_rate_of_10():
    """The table prints λ₁ = 100, but the costs in the text (16200, 42600, 21000, 135000) follow from 10."""
    assert round(join_cost(TABLE_5_5_AS_PRINTED, order("2134"))) == 160_200
    assert 135_000 < max(all_costs(TABLE_5_5)) < 136_000


def test_worst_and_average_orders_are_those_of_the_text():
    assert round(max(all_costs(TABLE_5_3))) == 86850
    assert round(sum(all_costs(TABLE_5_6)) / 24) == 63362


@given(joins)
def test_the_size_of_a_result_does_not_depend_on_the_order_of_its_windows(parameters):
    sizes = [result_size(parameters, each) for each in itertools.permutations(range(len(parameters)))]
    assert sizes == pytest.approx([sizes[0]] * len(sizes))


@given(joins)
def test_the_size_of_a_result_is_the_product_of_the_windows_over_all_values_but_the_fewest(parameters):
    size = min(each.distinct for each in parameters)
    for each in parameters:
        size *= each.size / each.distinct
    assert result_size(parameters, range(len(parameters))) == pytest.approx(size)


@given(joins, st.booleans(), st.floats(1.01, 10), st.data())
def test_cost_is_positive_and_grows_with_every_rate(parameters, is_hashed, factor, data):
    some = data.draw(st.permutations(range(len(parameters))))
    faster = data.draw(st.sampled_from(range(len(parameters))))
    before = join_cost(parameters, some, is_hashed=is_hashed)
    old = parameters[faster]
    parameters[faster] = WindowStatistics(old.rate * factor, old.length, old.distinct)
    assert 0 < before < join_cost(parameters, some, is_hashed=is_hashed)


@given(joins)
def test_results_arrive_as_fast_as_live_ones_expire(parameters):
    """Each result is made by its last tuple: φ Σ 1/T per second, λ times the matches of a tuple from each."""
    size = result_size(parameters, range(len(parameters)))
    rate = sum(each.rate * matches_per_tuple(parameters, i) for i, each in enumerate(parameters))
    assert rate == pytest.approx(size * sum(1 / each.length for each in parameters))
    assert matches_per_tuple(parameters, 0) == pytest.approx(size / parameters[0].size)


@given(joins, st.data())
def test_hashing_never_reads_more_than_nested_loops(parameters, data):
    some = data.draw(st.permutations(range(len(parameters))))
    assert join_cost(parameters, some, is_hashed=True) <= join_cost(parameters, some) * (1 + 1e-12)


def test_a_probe_of_a_hashed_window_reads_an_average_bucket():
    left, right = WindowStatistics(1, 100, 10), WindowStatistics(2, 100, 10, buckets=5)
    assert cost_per_tuple([left, right], (0, 1), 0, is_hashed=True) == 200 / 5
    # By default there is a bucket for each value.
    assert cost_per_tuple([left, right], (0, 1), 1, is_hashed=True) == 100 / 10


def test_windows_that_share_no_attribute_multiply():
    """a joins s1 and s2, b joins s2 and s3: s1 and s3 alone are a cross product."""
    chain = [
        WindowStatistics(1, 100, {"a": 10}),
        WindowStatistics(1, 100, {"a": 20, "b": 50}),
        WindowStatistics(1, 100, {"b": 5}),
    ]
    assert result_size(chain, (0, 2)) == 100 * 100
    assert result_size(chain, (0, 1, 2)) == pytest.approx(100**3 / 20 / 50)
    assert result_size(chain, (0, 2, 1)) == pytest.approx(100**3 / 20 / 50)
    assert join_cost(chain, (1, 0, 2), is_hashed=True) < join_cost(chain, (0, 2, 1), is_hashed=True)


def test_wrong_parameters_are_refused():
    with pytest.raises(ValueError, match="rates and lengths"):
        WindowStatistics(-1, 1, 1)
    with pytest.raises(ValueError, match="some values"):
        WindowStatistics(1, 1, 0)
    with pytest.raises(InternalError, match="not an order"):
        join_cost(TABLE_5_3, (0, 1, 2))


def all_costs(table):
    return [join_cost(table, each) for each in itertools.permutations(range(len(table)))]
