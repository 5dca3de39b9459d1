"""AUTO: the lessons of 003, sections 7.2.4 and 7.3, as choices."""

from __future__ import annotations

import pytest

from sash.lang.indexing import IndexSpec, RingKind, Storage, ValueIndexKind, read_index
from sash.plan.cost.indexes import IndexLoad, Question, choose_index, maintenance

K, Q = ValueIndexKind, Question


def load(*questions, tuples=100_000, values=10_000, basic_windows=100, **more):
    return IndexLoad(frozenset(questions), tuples, values, basic_windows, **more)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (load(Q.QUANTILE), "T OVER LIST"),
        (load(Q.COUNT_DISTINCT), "H OVER LIST"),
        (load(Q.COUNT_DISTINCT, Q.QUANTILE), "T OVER LIST"),
        (load(Q.TOP, values=100), "H OVER HASH"),
        (load(Q.HISTOGRAM, values=50), "T OVER HASH"),
        (load(Q.HISTOGRAM, values_each=100), "T OVER HASH"),
        (load(Q.INTERSECT, accepts_ranges=True), "G(50) OVER GROUP"),
        (load(Q.EQUALITY), "RING DB ON H"),
        (load(Q.EQUALITY, Q.RANGE), "RING DB ON T"),
        (load(Q.SORTED_TUPLES, values=100_000), "RING BW ON T"),
        (load(Q.EQUALITY, accepts_ranges=True), "RING DB ON H"),
        (load(), "T OVER LIST"),
    ],
)
def test_what_is_asked_decides(given, expected):
    choice = choose_index(given)
    assert choice.spec == read_index(expected)
    assert all(choice.why)


def test_the_reasons_name_numbers():
    why = choose_index(load(Q.QUANTILE, values=50)).why
    assert why[0] == "asked for: quantile"
    assert "20 tuples a value in a basic window" in why[2]


def test_maintenance_ranks_indexes_as_published():
    """Uniform values: L far behind, G first; AGGR and HASH pay with repetition only; DB < BW < AUX < ring."""
    few, many = load(values=100), load(values=10_000)
    for given in (few, many):
        costs = {kind: maintenance(IndexSpec(kind), given) for kind in (K.L, K.T, K.H)}
        assert costs[K.L] > 2 * costs[K.T]
        assert maintenance(IndexSpec(K.G, Storage.GROUP, 50), given) < costs[K.T]
        rings = [maintenance(IndexSpec(K.L, rings=kind), given) for kind in RingKind]
        assert rings == sorted(rings, reverse=True)
    for storage in (Storage.AGGR, Storage.HASH):
        assert maintenance(IndexSpec(K.L, storage), few) < maintenance(IndexSpec(K.L), few)
        assert maintenance(IndexSpec(K.T, storage), many) > maintenance(IndexSpec(K.T), many)


def test_a_window_of_one_value_or_none_has_a_cost():
    for given in (load(Q.TOP, tuples=0, values=0, basic_windows=0), load(Q.TOP, values=1)):
        assert maintenance(choose_index(given).spec, given) > 0
