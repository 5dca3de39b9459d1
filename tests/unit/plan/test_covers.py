"""Covers that are found answer the query: counted by DuckDB over all combinations of values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.sharing.kit import conditions, selected, where

from sash.plan.covers import Cover, find_cover
from sash.plan.duplicates import Algebra
from sash.plan.predicates import predicate_of


def cover(query, *others, algebra=Algebra.SUBTRACTABLE):
    candidates = {other: predicate_of(where(other)) for other in others}
    return find_cover(predicate_of(where(query)), candidates, algebra)


_SIMPLE = st.sampled_from(
    [
        "k = 'a'",
        "k = 'b'",
        "k IN ('a', 'b')",
        "k = 'a' OR n = 1",
        "n = 1",
        "k = 'a' AND n = 1",
        "n < 2",
        "n >= 2",
        "n < 0",
        "n BETWEEN 0 AND 1",
        "n IS NULL",
        "n IS NOT NULL",
        "1 = 1",
        "k <> 'a'",
        "k IS NULL",
        "b",
        "NOT b",
        "b IS NULL",
        "n <> 1",
        "k = 'a' AND n <> 1",
        "k = 'a' AND n IS NULL",
    ]
)


@settings(max_examples=120)
@given(st.one_of(_SIMPLE, conditions()), st.lists(_SIMPLE, max_size=7, unique=True), st.sampled_from(Algebra))
def test_a_cover_counts_every_row_of_the_query_and_no_other(query, others, algebra):
    found = cover(query, *others, algebra=algebra)
    if found is None:
        return
    asked = selected(query)
    counts = sum((selected(name).astype(int) for name in found.plus), np.zeros(len(asked), int))
    counts -= sum((selected(name).astype(int) for name in found.minus), np.zeros(len(asked), int))
    if algebra is Algebra.INSENSITIVE:
        assert not found.minus
        assert ((counts > 0) == asked).all()
    else:
        assert algebra is Algebra.SUBTRACTABLE or not found.minus
        assert (counts == asked).all()


@pytest.mark.parametrize(
    ("query", "others", "algebra", "expected"),
    [
        # The examples of the thesis: Q3 from Q1 and Q2, Q6 from Q4 and Q5, Q1 from Q3 less Q2.
        ("k = 'a' OR k = 'b'", ["k = 'a'", "k = 'b'"], Algebra.SENSITIVE, Cover(("k = 'a'", "k = 'b'"))),
        ("k = 'a' OR n = 1", ["k = 'a'", "n = 1"], Algebra.INSENSITIVE, Cover(("k = 'a'", "n = 1"))),
        ("k = 'a' OR n = 1", ["k = 'a'", "n = 1"], Algebra.SENSITIVE, None),
        ("k = 'a' OR n = 1", ["k = 'a'", "n = 1"], Algebra.SUBTRACTABLE, None),
        (
            "k = 'a'",
            ["k = 'a' OR k = 'b'", "k = 'b'"],
            Algebra.SUBTRACTABLE,
            Cover(("k = 'a' OR k = 'b'",), ("k = 'b'",)),
        ),
        ("k = 'a'", ["k = 'a' OR k = 'b'", "k = 'b'"], Algebra.SENSITIVE, None),
        ("k = 'a'", ["k = 'a' OR k = 'b'", "k = 'b'"], Algebra.INSENSITIVE, None),
        # What both have is counted twice, so it is taken away once.
        (
            "k = 'a' OR n = 1",
            ["k = 'a'", "n = 1", "k = 'a' AND n = 1"],
            Algebra.SUBTRACTABLE,
            Cover(("k = 'a'", "n = 1"), ("k = 'a' AND n = 1",)),
        ),
        # Rows whose k is NULL are neither equal to 'a' nor different from it.
        ("1 = 1", ["k = 'a'", "k <> 'a'"], Algebra.SUBTRACTABLE, None),
        (
            "1 = 1",
            ["k = 'a'", "k <> 'a'", "k IS NULL"],
            Algebra.SENSITIVE,
            Cover(("k = 'a'", "k <> 'a'", "k IS NULL")),
        ),
        ("k <> 'a'", ["1 = 1", "k = 'a'"], Algebra.SUBTRACTABLE, None),
        (
            "k <> 'a'",
            ["1 = 1", "k = 'a'", "k IS NULL"],
            Algebra.SUBTRACTABLE,
            Cover(("1 = 1",), ("k = 'a'", "k IS NULL")),
        ),
        # Part of a supercover, part of a cover.
        (
            "k = 'a' OR k = 'c'",
            ["k = 'a' OR k = 'b'", "k = 'b'", "k = 'c'"],
            Algebra.SUBTRACTABLE,
            Cover(("k = 'a' OR k = 'b'", "k = 'c'"), ("k = 'b'",)),
        ),
        ("n = 1", ["n < 1", "n > 1"], Algebra.SUBTRACTABLE, None),
        ("n IN (1, 2)", ["n = 1"], Algebra.SUBTRACTABLE, None),
    ],
)
def test_covers_of_examples(query, others, algebra, expected):
    assert cover(query, *others, algebra=algebra) == expected


def test_the_fewest_synopses_are_taken():
    others = [f"n = {i}" for i in range(6)] + ["n BETWEEN 0 AND 3", "n BETWEEN 4 AND 5"]
    assert cover("n BETWEEN 0 AND 5", *others) == Cover(("n BETWEEN 0 AND 3", "n BETWEEN 4 AND 5"))


def test_a_search_among_many_overlapping_ranges_ends():
    assert cover("n > 100 AND k = 'a'", *(f"n > {i}" for i in range(80))) is None
