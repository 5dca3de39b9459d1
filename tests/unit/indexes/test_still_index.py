"""Indexes of tuples that do not change: what they find is what reading every tuple finds."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.indexes.still_index import StillIndex, build_still
from sash.lang.indexing import read_index
from sash.plan.key_conditions import Among, Between

EPOCH = datetime(2026, 1, 1)
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.sampled_from([-(2**63), -7, 0, 1, 2, 3, 2**63 - 1]),
    pa.float64(): st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 2.5, 3.0, math.inf, math.nan]),
    pa.string(): st.sampled_from(["", "a", "aa", "b", "é", "😀", "zz"]),
    pa.bool_(): st.booleans(),
    pa.timestamp("us"): st.integers(-3, 3).map(lambda n: EPOCH + timedelta(microseconds=n)),
}
SPECS = ["T", "L", "H", "H(2)", "UH(3)", "G(1)", "G(3)", "RING DB", "RING BW ON H", "RING ON G(2)"]


def key(value):
    """CQL's order of doubles: one zero, and NaN above all others; comparable with each other."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return value


def holds(condition, value):
    if value is None:
        return False
    if isinstance(condition, Among):
        return key(value) in [key(each) for each in condition.values]
    above = condition.low is None or key(value) > key(condition.low)
    above |= condition.low is not None and not condition.is_low_open and key(value) == key(condition.low)
    below = condition.high is None or key(value) < key(condition.high)
    below |= condition.high is not None and not condition.is_high_open and key(value) == key(condition.high)
    return above and below


@st.composite
def cases(draw):
    type_: pa.DataType = draw(st.sampled_from(list(VALUES)))
    constants = VALUES[type_].filter(lambda value: not (isinstance(value, float) and math.isnan(value)))
    values = draw(st.lists(st.none() | VALUES[type_], max_size=30))
    bounds = st.none() | constants
    ranges = st.builds(Between, st.just("x"), bounds, bounds, st.booleans(), st.booleans())
    sets = st.lists(constants, min_size=1, max_size=3).map(lambda given: Among("x", tuple(given)))
    return pa.array(values, type_), values, draw(ranges | sets), draw(st.sampled_from(SPECS))


@given(cases())
def test_an_index_finds_what_reading_every_tuple_finds(case):
    array, values, condition, words = case
    index = StillIndex(build_still(read_index(words), array))
    spans = index.spans(condition)
    expected = [place for place, value in enumerate(values) if holds(condition, value)]
    if spans is None:
        assert isinstance(condition, Between)
        assert "H" in words
        return
    found = index.find(spans).tolist()
    assert found == sorted(set(found))
    assert len(found) == sum(end - begin for begin, end in spans)
    if "G" in words:
        # Whole ranges: too much, never too little, and no NULL.
        assert set(expected) <= set(found)
        assert all(values[place] is not None for place in found)
    else:
        assert found == expected


def test_a_value_of_another_type_is_left_to_whoever_reads_the_rows():
    numbers = StillIndex(build_still(read_index("T"), pa.array([1, 2, 3])))
    assert numbers.spans(Among("x", ("1",))) is None
    assert numbers.spans(Among("x", (True,))) is None
    assert numbers.spans(Among("x", (2**70,))) is None
    assert numbers.spans(Between("x", low=1.5)) is None
    assert numbers.find(numbers.spans(Among("x", (2.0,))) or []).tolist() == [1]


@pytest.mark.parametrize("words", ["T", "G(50)"])
def test_of_many_tuples_few_are_found(words):
    values = np.random.default_rng(3).integers(0, 1000, 50_000)
    index = StillIndex(build_still(read_index(words), pa.array(values)))
    found = index.find(index.spans(Among("x", (417,))) or [])
    assert set(np.flatnonzero(values == 417)) <= set(found.tolist())
    # A range of fifty has about a thousand tuples.
    assert len(found) < 1_500
