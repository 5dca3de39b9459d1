"""Lists of values and counts as JSON: to the letter what a JSON library writes."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sash.operators.aggregates.json_text import json_values, pairs_text

pairs = st.tuples(st.text(max_size=4), st.sampled_from([0, 1, 9, 10, 99, 100, 2**63 - 1]))


@given(st.lists(st.lists(pairs, max_size=3), max_size=4), st.integers(0, 2))
def test_lists_are_spelled_as_json_has_them_and_empty_ones_are_null(lists, skipped):
    flat = [pair for each in lists for pair in each]
    # The texts may be a part of a longer column.
    texts = json_values(pa.array(["x"] * skipped + [text for text, _ in flat], pa.string())).slice(skipped)
    offsets = np.cumsum([0, *map(len, lists)])
    spelled = pairs_text(texts, np.array([count for _, count in flat], dtype=np.int64), offsets)
    expected = [json.dumps(list(map(list, each)), ensure_ascii=False) if each else None for each in lists]
    assert spelled.to_pylist() == expected
