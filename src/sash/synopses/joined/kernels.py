"""Compiled loops over the cells of join synopses: arrays (interval, class, slot, measure).

Rows of measures are laid out as in `state/kernels.py`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sash.state.jit import kernel
from sash.state.kernels import copy, merge_floats, merge_ints, subtract

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@kernel
def merge_all(ints: Ints, floats: Floats, source: Ints, source_floats: Floats, ops: Ints) -> None:
    """Every slot of one cell into `ints` and `floats`."""
    for slot in range(source.shape[0]):
        # A cell without rows of a group says nothing of it.
        if source[slot, 0] != 0:
            merge_ints(ints[slot], source[slot], ops)
            merge_floats(floats[slot], source_floats[slot])


@kernel
def add_rows(
    cells: Ints,
    cell_floats: Floats,
    intervals: Ints,
    classes: Ints,
    slots: Ints,
    ints: Ints,
    floats: Floats,
    ops: Ints,
) -> None:
    """Row i into the cell of its interval and class."""
    for row in range(slots.shape[0]):
        interval, kind, slot = intervals[row], classes[row], slots[row]
        merge_ints(cells[interval, kind, slot], ints[row], ops)
        merge_floats(cell_floats[interval, kind, slot], floats[row])


@kernel
def add_running(
    cells: Ints, panes: Ints, newest: int, classes: Ints, slots: Ints, ints: Ints, ops: Ints
) -> None:
    """Row i into every running interval that ends with its pane or later."""
    size = cells.shape[0]
    for row in range(slots.shape[0]):
        for edge in range(panes[row], newest + 1):
            merge_ints(cells[edge % size, classes[row], slots[row]], ints[row], ops)


@kernel
def sweep(
    cells: Ints,
    cell_floats: Floats,
    newest: int,
    order: Ints,
    firsts: Ints,
    seconds: Ints,
    g: int,
    ops: Ints,
    totals: Ints,
    total_floats: Floats,
    ints: Ints,
    floats: Floats,
) -> None:
    """Answers for several pairs of lengths in one pass from the youngest interval to the oldest.

    `order` has the queries by their shorter length. `totals` and `total_floats` are what has been passed;
    a query takes them as the pass reaches its shorter length, and goes on alone to its longer one.
    """
    size = cells.shape[0]
    age = 0
    for place in range(order.shape[0]):
        query = order[place]
        first, second = firsts[query], seconds[query]
        shorter, longer = min(first, second), max(first, second)
        while age < shorter:
            interval = (newest - age) % size
            for kind in range(cells.shape[1]):
                merge_all(totals, total_floats, cells[interval, kind], cell_floats[interval, kind], ops)
            age += 1
        for slot in range(totals.shape[0]):
            copy(ints[query, slot], totals[slot])
            copy(floats[query, slot], total_floats[slot])
        side = 0 if first > second else g
        for old in range(shorter + 1, longer + 1):
            interval = (newest - old + 1) % size
            for apart in range(old - shorter, g + 1):
                kind = side + apart
                merge_all(ints[query], floats[query], cells[interval, kind], cell_floats[interval, kind], ops)


@kernel
def refresh_parents(cells: Ints, cell_floats: Floats, is_touched: Bools, identity: Ints, ops: Ints) -> None:
    """Recompute the inner nodes of a tree above leaves that were touched; node 1 is the root."""
    half = cells.shape[0] // 2
    for node in range(half - 1, 0, -1):
        if is_touched[2 * node] or is_touched[2 * node + 1]:
            is_touched[node] = True
            cell_floats[node] = 0.0
            for kind in range(cells.shape[1]):
                for slot in range(cells.shape[2]):
                    copy(cells[node, kind, slot], identity)
            for child in (2 * node, 2 * node + 1):
                for kind in range(cells.shape[1]):
                    merge_all(
                        cells[node, kind],
                        cell_floats[node, kind],
                        cells[child, kind],
                        cell_floats[child, kind],
                        ops,
                    )


@kernel
def probe_tree(
    cells: Ints, cell_floats: Floats, newest: int, length: int, ops: Ints, ints: Ints, floats: Floats
) -> None:
    """The youngest `length` leaves, all classes, from as few nodes as there are."""
    leaves = cells.shape[0] // 2
    start = newest - length + 1
    while start <= newest:
        # A stretch of the ring that does not wrap around.
        stop = min(newest, start - start % leaves + leaves - 1)
        low, high = leaves + start % leaves, leaves + stop % leaves + 1
        while low < high:
            if low % 2 == 1:
                for kind in range(cells.shape[1]):
                    merge_all(ints, floats, cells[low, kind], cell_floats[low, kind], ops)
                low += 1
            if high % 2 == 1:
                high -= 1
                for kind in range(cells.shape[1]):
                    merge_all(ints, floats, cells[high, kind], cell_floats[high, kind], ops)
            low //= 2
            high //= 2
        start = stop + 1


@kernel
def probe_old(
    cells: Ints,
    cell_floats: Floats,
    offset: int,
    size: int,
    newest: int,
    first: int,
    second: int,
    g: int,
    ops: Ints,
    ints: Ints,
    floats: Floats,
) -> None:
    """What the longer of two windows has in intervals older than the shorter one."""
    shorter, longer = min(first, second), max(first, second)
    side = 0 if first > second else g
    for old in range(shorter + 1, longer + 1):
        interval = offset + (newest - old + 1) % size
        for apart in range(old - shorter, g + 1):
            merge_all(ints, floats, cells[interval, side + apart], cell_floats[interval, side + apart], ops)


@kernel
def probe_running(cells: Ints, newest: int, first: int, second: int, g: int, ops: Ints, ints: Ints) -> None:
    """Differences of running intervals: one for all classes up to the shorter length, one for each beyond."""
    shorter, longer = min(first, second), max(first, second)
    for kind in range(cells.shape[1]):
        add_difference(cells, newest, newest - shorter, kind, ops, ints)
    side = 0 if first > second else g
    for apart in range(1, g + 1):
        oldest = longer if apart == g else min(longer, shorter + apart)
        if oldest > shorter:
            add_difference(cells, newest - shorter, newest - oldest, side + apart, ops, ints)


@kernel
def add_difference(cells: Ints, until: int, after: int, kind: int, ops: Ints, ints: Ints) -> None:
    """What running intervals have of a class between two panes."""
    size = cells.shape[0]
    for slot in range(ints.shape[0]):
        merge_ints(ints[slot], cells[until % size, kind, slot], ops)
        subtract(ints[slot], cells[after % size, kind, slot], ops)
