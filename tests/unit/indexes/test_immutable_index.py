"""Indexes of tuples that do not change: what they find is what reading every tuple finds."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.indexes import immutable_index, immutable_search
from sash.indexes.immutable_index import ImmutableIndex, build_still
from sash.indexes.immutable_search import DENSE, NOT_TOLD, Sought, search
from sash.lang.indexing import read_index
from sash.plan.key_conditions import Among, Between
from sash.state.addresses import address_of

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
    return type_, values, draw(ranges | sets)


def searched(files, *conditions, dense=DENSE):
    """Counts and, by file, positions. A file is how many tuples it has, and the indexes of columns (or None).

    With `dense` any number of tuples is few.
    """
    numbers = [
        np.array([dense * rows, *(0 if index is None else index.header for index in indexes)])
        for rows, *indexes in files
    ]
    types = {slot: i.type for _, *own in files for slot, i in enumerate(own, 1) if i is not None}
    sought = [Sought(slot, types[slot], condition) for slot, condition in conditions if slot in types]
    counts, tuples = search(np.array([address_of(each) for each in numbers]), sought)
    assert tuples.tolist() == sorted(set(tuples.tolist()))
    positions = [(tuples[tuples >> 32 == file] & 0xFFFFFFFF).tolist() for file in range(len(files))]
    return counts.tolist(), positions


def still(words: str, values) -> ImmutableIndex:
    return ImmutableIndex(build_still(read_index(words), values))


@given(cases(), st.data())
def test_indexes_find_what_reading_every_tuple_finds(case, data):
    """Files with indexes of different kinds, some without one, are searched together."""
    type_, values, condition = case
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=4)))
    parts = [values[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(values)], strict=True)]
    specs = [data.draw(st.none() | st.sampled_from(SPECS)) for _ in parts]
    files = [
        (len(part), None if words is None else still(words, pa.array(part, type_)))
        for part, words in zip(parts, specs, strict=True)
    ]
    counts, found = searched(files, (1, condition))
    for part, words, count, own in zip(parts, specs, counts, found, strict=True):
        expected = [place for place, value in enumerate(part) if holds(condition, value)]
        if words is None or ("H" in words and isinstance(condition, Between)):
            assert (count, own) == (NOT_TOLD, [])
            continue
        assert count == len(own)
        if "G(" in words:
            # Whole ranges: too much, never too little, and no NULL.
            assert set(expected) <= set(own)
            assert all(part[place] is not None for place in own)
        else:
            assert own == expected


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abc")), min_size=1, max_size=40), st.data())
def test_of_several_conditions_the_one_with_fewest_tuples_is_taken_in_each_file(rows, data):
    half = data.draw(st.integers(0, len(rows)))
    halves, files = [part for part in (rows[:half], rows[half:]) if part], []
    for part in halves:
        numbers, words = zip(*part, strict=True)
        kinds = [data.draw(st.sampled_from(["T", "H"])) for _ in range(2)]
        files.append((len(part), still(kinds[0], pa.array(numbers)), still(kinds[1], pa.array(words))))
    number, word = data.draw(st.integers(0, 4)), data.draw(st.sampled_from("abcd"))
    counts, found = searched(files, (1, Among("n", (number,))), (2, Among("w", (word,))))
    for part, count, own in zip(halves, counts, found, strict=True):
        by_number = [place for place, (n, _) in enumerate(part) if n == number]
        by_word = [place for place, (_, w) in enumerate(part) if w == word]
        assert count == min(len(by_number), len(by_word))
        assert own in (by_number, by_word)


@pytest.mark.parametrize("words", SPECS)
@pytest.mark.parametrize(
    ("values", "others"),
    [
        ([5, 3, None, 3, 9, 0, 5, 7, 3], [-1, 4, 10]),
        (["b", "", None, "aa", "é", "b", "zz"], ["a", "b ", "zzz"]),
    ],
)
def test_every_range_and_every_pair_of_values(words, values, others):
    files = [(len(values), still(words, pa.array(values)))]
    constants = [*sorted({value for value in values if value is not None}), *others]
    is_open = list(product((False, True), repeat=2))
    ranges = [Between("x", *pair, *o) for pair in product([None, *constants], repeat=2) for o in is_open]
    sets = [Among("x", pair) for pair in product(constants, repeat=2)]
    for condition in (*sets, *(ranges if "H" not in words else ())):
        (count,), (found,) = searched(files, (1, condition))
        expected = [place for place, value in enumerate(values) if holds(condition, value)]
        assert count == len(found)
        assert set(expected) <= set(found) if "G(" in words else found == expected, condition


def test_a_value_of_another_type_is_left_to_whoever_reads_the_rows():
    files = [(3, still("T", pa.array([1, 2, 3])))]
    for condition in (
        Among("x", ("1",)),
        Among("x", (True,)),
        Among("x", (2**70,)),
        Among("x", (1, "1")),
        Between("x", low=1.5),
    ):
        assert searched(files, (1, condition)) == ([NOT_TOLD], [[]])
    assert searched(files, (1, Among("x", (2.0,)))) == ([1], [[1]])


def test_no_more_than_one_tuple_in_eight_is_looked_up():
    values = [7] * 3 + [8] * 2 + list(range(100, 111))
    files = [(len(values), still("T", pa.array(values)))]
    assert searched(files, (1, Among("x", (8,))), dense=1) == ([2], [[3, 4]])
    assert searched(files, (1, Among("x", (7,))), dense=1) == ([NOT_TOLD], [[]])


@pytest.mark.parametrize("words", ["T", "G(50)"])
def test_of_many_tuples_few_are_found(words):
    values = np.random.default_rng(3).integers(0, 1000, 50_000)
    _, (found,) = searched([(len(values), still(words, pa.array(values)))], (1, Among("x", (417,))))
    assert set(np.flatnonzero(values == 417)) <= set(found)
    # A range of fifty has about a thousand tuples.
    assert len(found) < 1_500


@pytest.mark.parametrize(("words", "cell"), [("T", "rows"), ("T", "ends"), ("H(3)", "heads"), ("T", "keys")])
@pytest.mark.parametrize("is_less", [True, False])
def test_an_index_knows_when_it_leads_out_of_its_file(words, cell, is_less):
    table = build_still(read_index(words), pa.array(["a", "b", None, "b", "cc"]))
    assert ImmutableIndex(table).leads_into(5)
    assert not ImmutableIndex(table).leads_into(4)
    column = table.column(cell).chunk(0)
    values = column.values
    if cell == "keys":
        # Arrow looks at the ends only: a word begins before the first letter, or behind the last.
        _, offsets, letters = values.buffers()
        places = np.frombuffer(offsets, np.int32)[: len(values) + 1].copy()
        places[1] = -1 if is_less else 9
        harmed = pa.StringArray.from_buffers(len(values), pa.py_buffer(places), letters)
    else:
        numbers = values.to_numpy().copy()
        numbers[0 if is_less else -1] = -1 if is_less else 9
        harmed = pa.array(numbers)
    cells = pa.LargeListArray.from_arrays(column.offsets, harmed)
    table = table.set_column(table.column_names.index(cell), cell, cells)
    assert not ImmutableIndex(table).leads_into(5)


@given(
    st.lists(st.sampled_from(["a", "b", "c", "dd", "ee"]), max_size=12),
    st.lists(st.sampled_from(["a", "b", "c", "dd"]), min_size=1, max_size=3),
    st.sampled_from(["H", "H(2)"]),
)
def test_words_with_one_hash_are_all_found_and_each_tuple_once(values, asked, words):
    with pytest.MonkeyPatch.context() as patch:
        for module in (immutable_index, immutable_search):
            patch.setattr(module, "hashes_of", lambda given: np.array([len(w) for w in given.to_pylist()]))
        index = still(words, pa.array(values, pa.string()))
        counts, (found,) = searched([(max(1, len(values)), index)], (1, Among("x", tuple(asked))))
    if counts == [NOT_TOLD]:
        hashes = {len(word) for word in asked}
        assert len({word for word in (*values, *asked) if len(word) in hashes}) > len(hashes)
    else:
        assert {i for i, word in enumerate(values) if word in asked} <= set(found)
