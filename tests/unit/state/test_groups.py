"""GroupTable: equal keys get equal slots for ever, and slots give their keys back."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.state.groups import GroupTable, canonical, plain

texts = st.one_of(st.none(), st.sampled_from(["", "a", "b", "é"]))
numbers = st.one_of(st.none(), st.integers(-2, 2))
doubles = st.one_of(st.none(), st.sampled_from([0.5, math.nan, math.inf, -1.0]))
flags = st.sampled_from([None, True, False])


def same(value: object) -> object:
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


@given(st.lists(st.lists(st.tuples(texts, numbers, doubles, flags), max_size=12), max_size=5))
def test_slots_are_numbered_by_first_appearance_over_all_batches(batches):
    types = [pa.string(), pa.int64(), pa.float64(), pa.bool_()]
    table = GroupTable(types)
    model: dict[tuple[object, ...], int] = {}
    for batch in batches:
        columns = [pa.array([row[i] for row in batch], types[i]) for i in range(4)]
        slots = table.encode(columns)
        given = [tuple(same(value) for value in row) for row in batch]
        for key in given:
            model.setdefault(key, len(model))
        assert slots.tolist() == [model[key] for key in given]
        assert table.size == len(model)
    keys = [column.to_pylist() for column in table.keys_of(np.arange(table.size))]
    assert [tuple(same(v) for v in key) for key in zip(*keys, strict=True)] == list(model)


def test_without_keys_there_is_one_group_from_the_start():
    assert GroupTable([]).size == 1


def test_keys_of_some_slots_come_in_the_order_of_the_slots():
    table = GroupTable([pa.string(), pa.int64()])
    table.encode([pa.array(["x", "y", "x"]), pa.array([1, 2, 3])])
    words, values = table.keys_of(np.array([2, 0, 2]))
    assert words.to_pylist() == ["x", "x", "x"]
    assert values.to_pylist() == [3, 1, 3]


def test_dictionary_encoded_and_chunked_keys_are_keys_like_others():
    table = GroupTable([pa.string()])
    table.encode([pa.array(["b", "a"])])
    encoded = pa.chunked_array([pa.array(["a", None]), pa.array(["c", "b"])]).dictionary_encode()
    assert table.encode([encoded]).tolist() == [1, 2, 3, 0]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, None]),
        pa.chunked_array([[1], [None]], pa.int64()),
        pa.chunked_array([], pa.int64()),
        pa.array(["a", "b", "a"]).dictionary_encode(),
        pa.chunked_array([pa.array(["a"]).dictionary_encode(), pa.array(["b"]).dictionary_encode()]),
    ],
    ids=["array", "chunks", "no chunks", "dictionary", "dictionaries"],
)
def test_plain_gives_one_array_of_the_values(values):
    array = plain(values)
    assert isinstance(array, pa.Array)
    assert not pa.types.is_dictionary(array.type)
    assert array.to_pylist() == values.to_pylist()


def test_canonical_doubles_have_one_zero_and_one_nan_and_keep_null():
    odd = np.array([0xFFF8000000000000, 0x7FF8000000000000, 0x8000000000000000, 0], np.uint64).view(
        np.float64
    )
    result = canonical(pa.array([*odd, 1.5, None], pa.float64()))
    assert result.null_count == 1
    bits = np.asarray(result.slice(0, 5)).view(np.int64)
    assert bits[0] == bits[1]
    assert bits[2] == bits[3] == 0
    assert result[4].as_py() == 1.5
    assert canonical(pa.array(["a", None])).to_pylist() == ["a", None]
