"""Decisions about predicates against DuckDB, on rows with every combination of telling values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.sharing.kit import conditions, rows, selected, where

from sash.plan.predicates import ALL_ROWS, NO_ROWS, Predicate, predicate_of
from sash.plan.predicates.predicate import MAX_TERMS


def of(condition: str) -> Predicate:
    return predicate_of(where(condition))


@settings(max_examples=120)
@given(conditions(), conditions())
def test_what_is_decided_of_two_predicates_is_true_of_all_rows(one, other):
    a, b = of(one), of(other)
    in_a, in_b = selected(one), selected(other)
    if a.implies(b):
        assert not (in_a & ~in_b).any()
    if a.is_disjoint_from(b):
        assert not (in_a & in_b).any()
    if a.equals(b):
        assert (in_a == in_b).all()
    if a.is_empty:
        assert not in_a.any()
    if a.equals(ALL_ROWS):
        assert in_a.all()


# Columns of which no expression but themselves is made, so that what is true of the rows can be proven.
_PLAIN = st.recursive(
    st.sampled_from(
        [
            "n = 0",
            "n <> 1",
            "n < 2",
            "n >= 1",
            "n IS NULL",
            "n IN (1, 3)",
            "m = 2",
            "m < 2",
            "m IS NOT NULL",
            "b",
            "b IS NULL",
            "k = 'a'",
            "k < 'b'",
            "k > 'a'",
            "x > 0.0",
            "x <= 1.5",
            "x IS NULL",
            "1 = 1",
        ]
    ),
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("(NOT {})".format, inner),
    ),
    max_leaves=5,
)


@settings(max_examples=100)
@given(_PLAIN, _PLAIN)
def test_sets_of_rows_are_those_of_the_operations(one, other):
    a, b = of(one), of(other)
    in_a, in_b = selected(one), selected(other)
    for made, wanted in ((a & b, in_a & in_b), (a | b, in_a | in_b), (a - b, in_a & ~in_b)):
        again = sum((_rows_of(term.conditions) for term in made.terms), np.zeros(len(wanted), bool))
        assert (again == wanted).all()


def _rows_of(conditions_of_term):
    """The rows of a term, from the values of its columns one by one."""
    inside = np.ones(rows().num_rows, dtype=bool)
    for expression, values in conditions_of_term:
        column = rows().column(expression.strip('"')).to_pylist()
        known = {}
        for value in column:
            key = repr(value)
            if key not in known:
                known[key] = _holds(values, value)
        inside &= np.array([known[repr(value)] for value in column])
    return inside


def _holds(values, value):
    if value is None:
        return values.null
    if isinstance(value, bool):
        value = int(value)
    point: tuple[object, ...] = (0.5,) if value != value else (0, value, 0.5)
    below = sum(cut <= point for cut in values.cuts)
    return below % 2 == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("n <= 1", "n < 2"),
        ("NOT (n < 2)", "n >= 2"),
        ("n IN (1, 2)", "n = 2 OR n = 1"),
        ("n BETWEEN 0 AND 2", "n >= 0 AND n <= 2"),
        ("n > 0 AND n < 2", "n = 1"),
        ("b OR NOT b", "b IS NOT NULL"),
        ("NOT (n <> 1 OR k = 'a')", "n = 1 AND k <> 'a'"),
        ("n < m", "m > n"),
        ("NOT (n < m)", "n >= m"),
        ("n = m OR k = 'a'", "k = 'a' OR m = n"),
        ("n > 2 * 2", "n > 4"),
        ("n = 1 AND (k = 'a' OR k = 'b')", "(n = 1 AND k = 'a') OR (n = 1 AND k = 'b')"),
        ("n IN (1, CAST(NULL AS BIGINT))", "n = 1"),
        ("n NOT IN (1, CAST(NULL AS BIGINT))", "1 > 2"),
        ("(n < 2 OR n >= 2) AND k = 'a'", "n IS NOT NULL AND k = 'a'"),
        ("n <= 9223372036854775807", "n IS NOT NULL"),
        ("b IS NOT TRUE", "b IS NULL OR NOT b"),
    ],
)
def test_predicates_that_are_written_differently_are_the_same(one, other):
    assert of(one).equals(of(other))
    assert (selected(one) == selected(other)).all()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("n < 2 OR n >= 2", "1 = 1"),
        ("n <> 1 OR n = 1", "1 = 1"),
        ("NOT (n = 1 AND k = 'a')", "n <> 1 OR k <> 'a'"),
    ],
)
def test_null_is_neither_true_nor_false(one, other):
    """The last pair is equal, by De Morgan; the first two are not, because of rows with NULL."""
    assert of(one).equals(of(other)) == bool((selected(one) == selected(other)).all())


def test_terms_of_the_thesis_are_disjoint_or_not():
    assert of("k = 'a' OR k = 'b'").is_disjoint
    assert not of("k = 'a' OR n = 1").is_disjoint
    assert of("k = 'a'").is_disjoint_from(of("k = 'b' AND n = 1"))
    assert of("k = 'a'").implies(of("k = 'a' OR k = 'b'"))
    assert not of("k = 'a' OR k = 'b'").implies(of("k = 'a'"))


def test_a_predicate_with_too_many_terms_is_one_condition_and_still_equal_to_itself():
    parts = [f"(n > {i} OR k > 'k{i}' OR m > {-i})" for i in range(30)]
    condition = " AND ".join(parts)
    assert len(of(condition).terms) <= MAX_TERMS
    assert of(condition).equals(of(condition))
    assert not of(condition).implies(of("n = 1"))


def test_no_condition_is_all_rows_and_a_contradiction_is_none():
    assert predicate_of(None) == ALL_ROWS
    assert of("n = 1 AND n = 2") == NO_ROWS
