"""The contents of a view are the net of its change log, however that is cut."""

from __future__ import annotations

import math
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.errors import InternalError
from sash.session import view as module
from sash.session.view import View

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64()), ("x", pa.float64())])
ROWS = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.sampled_from([0, 1, None]),
    st.sampled_from([0.0, -0.0, 1.5, math.nan, None]),
)


def seen(row):
    """NaN equals NaN here, and there is one zero."""
    return tuple("nan" if value != value else value for value in row)


@st.composite
def logs(draw):
    """Stretches of a change log in which only rows go that are there."""
    there: Counter[tuple[object, ...]] = Counter()
    stretches = []
    for _ in range(draw(st.integers(0, 5))):
        stretch = []
        for row in draw(st.lists(ROWS, max_size=8)):
            if there[seen(row)] and draw(st.booleans()):
                there[seen(row)] -= 1
                stretch.append(("-", *row))
            else:
                there[seen(row)] += 1
                stretch.append(("+", *row))
        stretches.append(stretch)
    return stretches


def table(stretch):
    columns = list(zip(*stretch, strict=True)) if stretch else [()] * 4
    schema = pa.schema([("op", pa.string()), *SCHEMA])
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    ts = pa.array([1] * len(stretch), pa.int64())
    return pa.Table.from_arrays([ts, *arrays], schema=pa.schema([("ts", pa.int64()), *schema]))


@given(logs(), st.integers(0, 6), st.booleans())
def test_the_contents_are_the_net_of_the_change_log(stretches, most, looks):
    before, module.MOST_CHANGES = module.MOST_CHANGES, most
    try:
        view = View(SCHEMA)
        net: Counter[tuple[object, ...]] = Counter()
        for stretch in stretches:
            view.add(table(stretch))
            for op, *row in stretch:
                net[seen(row)] += 1 if op == "+" else -1
            if looks:
                assert Counter(seen(row.values()) for row in view.contents().to_pylist()) == +net
    finally:
        module.MOST_CHANGES = before
    contents = view.contents()
    assert contents.schema == SCHEMA
    assert Counter(seen(row.values()) for row in contents.to_pylist()) == +net


def test_a_row_that_was_not_there_cannot_go():
    view = View(SCHEMA)
    view.add(table([("-", "a", 1, 1.5)]))
    with pytest.raises(InternalError):
        view.contents()


def test_changes_do_not_pile_up(monkeypatch):
    monkeypatch.setattr(module, "MOST_CHANGES", 4)
    view = View(SCHEMA)
    for _ in range(20):
        view.add(table([("+", "a", 1, 1.5), ("-", "a", 1, 1.5)]))
        assert view._waiting <= 4
