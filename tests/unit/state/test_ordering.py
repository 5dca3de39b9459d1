"""Values as integers: the integers are in the order of the values, and back again."""

from __future__ import annotations

import datetime
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.lang.types import Type
from sash.state.kernels import INT64_MAX, INT64_MIN
from sash.state.ordering import Words, canonical, double_to_ordinal, ordinal_to_double, recode, to_ordinal

words = st.text(alphabet="ab\x00é\U0001f600B", max_size=3)


@given(st.lists(st.floats(allow_nan=False), min_size=2))
def test_ordinals_of_doubles_compare_as_the_doubles_do(values):
    ordinals = double_to_ordinal(np.array(values)).tolist()
    for left, right in zip(range(len(values)), range(1, len(values)), strict=False):
        assert (ordinals[left] < ordinals[right]) == (values[left] < values[right])
        assert (ordinals[left] == ordinals[right]) == (values[left] == values[right])


def test_nan_is_greater_than_infinity_whatever_its_bits_and_zero_has_one_sign():
    nans = np.array([0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000001], np.uint64).view(np.float64)
    infinity, *ordinals = double_to_ordinal(np.array([math.inf, *nans])).tolist()
    assert len(set(ordinals)) == 1
    assert ordinals[0] > infinity
    assert double_to_ordinal(np.array([-0.0])) == double_to_ordinal(np.array([0.0]))
    assert len(set(canonical(nans).view(np.int64).tolist())) == 1
    assert canonical(np.array([-0.0])).view(np.int64)[0] == 0


@given(st.lists(st.floats()))
def test_doubles_come_back_from_their_ordinals(values):
    back = ordinal_to_double(double_to_ordinal(np.array(values, dtype=np.float64)))
    assert (
        back.view(np.int64).tolist() == canonical(np.array(values, dtype=np.float64)).view(np.int64).tolist()
    )


def test_no_double_has_the_ordinal_that_stands_for_no_value_yet():
    ordinals = double_to_ordinal(np.array([math.nan, -math.inf]))
    assert ordinals.min() > INT64_MIN
    assert ordinals.max() < INT64_MAX


@pytest.mark.parametrize(
    ("type_", "values", "arrow"),
    [
        (Type.BIGINT, [-5, 0, 2**63 - 1], pa.int64()),
        (Type.DOUBLE, [-math.inf, -1.5, 0.0, 2.0, math.nan], pa.float64()),
        (Type.BOOLEAN, [False, True], pa.bool_()),
        (Type.TIMESTAMP, [datetime.datetime(1969, 1, 1), datetime.datetime(2026, 1, 1)], pa.timestamp("us")),
        (Type.STRING, ["", "B", "a", "ab", "é", "\U0001f600"], pa.string()),
    ],
)
def test_every_type_is_ordered_as_sql_orders_it(type_, values, arrow):
    shuffled = [values[i] for i in np.random.default_rng(3).permutation(len(values))]
    ordinals, _ = to_ordinal(pa.array([*shuffled, None], arrow), type_)
    by_ordinal = [shuffled[i] for i in np.argsort(ordinals[:-1])]
    assert repr(by_ordinal) == repr(values)


@given(st.lists(st.one_of(st.none(), words), max_size=20))
def test_a_string_is_numbered_by_its_place_among_the_sorted_words(values):
    ordinals, vocabulary = to_ordinal(pa.array(values, pa.string()), Type.STRING)
    assert vocabulary is not None
    listed = vocabulary.to_pylist()
    assert listed == sorted({v for v in values if v is not None}, key=lambda word: word.encode())
    assert [listed[o] for o, v in zip(ordinals, values, strict=True) if v is not None] == [
        v for v in values if v is not None
    ]


@given(st.lists(st.lists(words, min_size=1, max_size=5, unique=True), max_size=6))
def test_codes_of_words_keep_meaning_the_same_words_as_more_are_learnt(batches):
    learnt = Words()
    column, meant = np.zeros(0, np.int64), list[str]()
    for batch in batches:
        moved = learnt.insert(pa.array(batch, pa.string()))
        if moved is not None:
            recode(column, moved)
        column = np.concatenate([column, learnt.codes(pa.array(batch, pa.string()))])
        meant.extend(batch)
        values = learnt.values.to_pylist()
        assert values == sorted(set(meant), key=lambda word: word.encode())
        assert [values[code] for code in column] == meant


def test_inserting_known_words_moves_nothing():
    learnt = Words()
    learnt.insert(pa.array(["b", "d"]))
    assert learnt.insert(pa.array(["d", "b"])) is None
    moved = learnt.insert(pa.array(["a", "c"]))
    assert moved is not None
    assert moved.tolist() == [1, 3]


def test_recoding_leaves_the_marks_of_no_value_alone():
    column = np.array([INT64_MAX, 0, INT64_MIN, 1])
    recode(column, np.array([5, 7]))
    assert column.tolist() == [INT64_MAX, 5, INT64_MIN, 7]
