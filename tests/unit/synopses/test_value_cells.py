"""Cells of values against dictionaries of rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sash.synopses import value_cells
from sash.synopses.b_int_qnt import ValueRows
from sash.synopses.value_cells import Cells, ValueLog

# Pane, slot, value.
Row = tuple[int, int, int]
triples = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(-3, 3)), max_size=12)
# Panes so far apart that cells are not sorted by counting.
apart = st.sampled_from([0, 1, 10**9])
sparse = st.lists(st.tuples(apart, st.integers(0, 3), st.integers(0, 3)), max_size=12)


def cells_of(rows: list[Row]) -> Cells:
    panes, slots, values = (np.array([row[i] for row in rows], dtype=np.int64) for i in range(3))
    return Cells.of(ValueRows.of(slots, panes, values))


def coded(cells: Cells) -> Cells:
    """The same, as a chunk has them."""
    known, codes = np.unique(cells.values, return_inverse=True)
    counts = cells.counts.astype(np.min_scalar_type(int(cells.counts.max(initial=0))))
    return replace(cells, codes=codes.astype(np.uint8), counts=counts, known=known)


def counted(cells: Cells) -> Counter[Row]:
    rows = cells.rows()
    found: Counter[Row] = Counter()
    columns = (column.tolist() for column in (rows.panes, rows.slots, rows.values, rows.counts))
    for pane, slot, value, count in zip(*columns, strict=True):
        assert (pane, slot, value) not in found
        found[pane, slot, value] = count
    return found


@given(st.lists(triples | sparse, min_size=1, max_size=4))
def test_parts_become_one_cell_a_pane_and_slot_in_order_of_pane(parts: list[list[Row]]) -> None:
    cells = Cells.together([cells_of(part) for part in parts])
    assert counted(cells) == Counter(row for part in parts for row in part)
    pairs = list(zip(cells.panes.tolist(), cells.slots.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    assert cells.panes.tolist() == sorted(cells.panes.tolist())
    for begin, end in zip(cells.offsets[:-1], cells.offsets[1:], strict=True):
        assert (np.diff(cells.values[begin:end]) > 0).all()


@given(st.lists(st.tuples(triples | sparse, st.booleans()), max_size=4))
def test_stretches_of_panes_have_all_cells_once_and_in_order(parts: list[tuple[list[Row], bool]]) -> None:
    given_ = [coded(cells_of(rows)) if is_coded else cells_of(rows) for rows, is_coded in parts]
    found: Counter[Row] = Counter()
    last = -1
    for stretch in Cells.in_order(given_):
        assert last < stretch.panes[0]
        assert (np.diff(stretch.panes) >= 0).all()
        last = int(stretch.panes[-1])
        pairs = list(zip(stretch.panes.tolist(), stretch.slots.tolist(), strict=True))
        assert len(set(pairs)) == len(pairs)
        assert stretch.extent == (stretch.values.min(), stretch.values.max())
        found += counted(stretch)
    assert found == Counter(row for rows, _ in parts for row in rows)


@given(triples, st.integers(0, 5))
def test_a_split_loses_nothing(rows: list[Row], pane: int) -> None:
    cells = cells_of(rows)
    head, tail = cells.split(int(np.searchsorted(cells.panes, pane)))
    assert counted(head) + counted(tail) == Counter(rows)
    assert (head.panes < pane).all()
    assert (tail.panes >= pane).all()


# By how much values and counts are multiplied: the greatest that fits 32 bits, and others that do not.
scales = st.sampled_from([(1, 1), (1, 1), (1 << 29, 1), (1 << 61, 1), (1, (1 << 31) - 1), (1, 1 << 31)])


@given(st.lists(st.tuples(triples, scales), max_size=6), st.integers(0, 30), st.sampled_from([1, 4, 1024]))
def test_a_log_keeps_the_rows_of_each_cell_when_its_front_goes(
    parts: list[tuple[list[Row], tuple[int, int]]], trimmed: int, capacity: int
) -> None:
    with patch.object(value_cells, "_FIRST_CAPACITY", capacity):
        log = ValueLog()
    expected: list[tuple[int, int, list[int], list[int]]] = []
    for number, (part, (scale, often)) in enumerate(parts):
        cells = cells_of([(5 * number + pane, slot, scale * value) for pane, slot, value in part])
        cells = replace(cells, counts=often * cells.counts)
        log.append(coded(cells) if number % 2 and len(cells.codes) else cells)
        for i, (begin, end) in enumerate(zip(cells.offsets[:-1], cells.offsets[1:], strict=True)):
            own = (cells.values[begin:end].tolist(), cells.counts[begin:end].tolist())
            expected.append((int(cells.panes[i]), int(cells.slots[i]), *own))
        log.trim(min(trimmed, len(expected)))
    assert log.cells.end == len(expected)
    for position in range(log.cells.base, log.cells.end):
        values, counts = log.between(position, position + 1)
        place = position - log.cells.base
        pane, slot = int(log.cells.panes[place]), int(log.cells.slots[place])
        assert (pane, slot, values.tolist(), counts.tolist()) == expected[position]
