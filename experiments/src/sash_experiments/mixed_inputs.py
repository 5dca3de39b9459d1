"""Compiled drivers: updates and look-ups, one at a time in a given order, against each synopsis of a SUM.

All of them go through the kernels that the synopses use; a driver only saves the way through Python for each
input. The sum of all answers is returned, so that synopses can be checked against each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sash.lang.bound import Scalar
from sash.lang.types import Type
from sash.plan.measures import ROWS, Measure, MeasureKind, subtractable
from sash.state.jit import kernel
from sash.synopses import b_int, naive, psoup, r_int
from sash.synopses.b_int import BInt, most_rows
from sash.synopses.cell_store import CellStore
from sash.synopses.cells import gather
from sash.synopses.naive import MaterialiseAll, MaterialiseNone
from sash.synopses.psoup import PSoup
from sash.synopses.r_int import RInt
from sash.synopses.rows import PaneRows

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

A = Scalar('"a"', Type.BIGINT, ("a",), "a", "a")
SUM = subtractable((ROWS, Measure(MeasureKind.NULLS, A), Measure(MeasureKind.SUM, A)))
MAX = (ROWS, Measure(MeasureKind.NULLS, A), Measure(MeasureKind.MAX, A))
_LOW = 3
"""The column with the low part of a small sum."""
_B_INT, _PSOUP, _NAIVE = 0, 1, 2
_METHODS: dict[type[CellStore], int] = {
    BInt: _B_INT,
    PSoup: _PSOUP,
    MaterialiseNone: _NAIVE,
    MaterialiseAll: _NAIVE,
}


@dataclass(frozen=True, slots=True)
class Inputs:
    """What comes, in order: an update, or a look-up of the suffix of so many elements."""

    is_update: Bools
    widths: Ints
    rows: PaneRows

    def __len__(self) -> int:
        return len(self.is_update)


def element_rows(values: Ints, first: int) -> PaneRows:
    """One element a pane, of one group."""
    panes = np.arange(first, first + len(values))
    ints = np.zeros((len(values), 4), dtype=np.int64)
    ints[:, 0] = 1
    ints[:, _LOW] = values
    return PaneRows(np.zeros(len(values), dtype=np.int64), panes, ints, np.zeros((len(values), 0)))


@kernel
def _drive_r_int(
    is_update: Bools,
    widths: Ints,
    newest: int,
    running: Ints,
    sums: Ints,
    odd: Ints,
    ops: Ints,
    capacity: int,
    slots: Ints,
    panes: Ints,
    ints: Ints,
    bits: Ints,
) -> int:
    done, total = 0, 0
    only = np.zeros(1, dtype=np.int64)
    out, out_floats = np.zeros((1, 4), dtype=np.int64), np.zeros((1, 0))
    for i in range(len(is_update)):
        if is_update[i]:
            newest += 1
            done = r_int.append(
                running, sums, odd, ops, 0, capacity, 1, slots, panes, ints, bits, done, newest, newest
            )
        else:
            left, right = (newest - widths[i]) & (capacity - 1), newest & (capacity - 1)
            r_int.difference(running, sums, odd, ops, 0, left, right, only, out, out_floats)
            total += out[0, _LOW]
    return total


def drive_r_int(store: RInt, inputs: Inputs) -> int:
    rows = inputs.rows
    state = store.running, store.sums, store.odd, store.ops, store.capacity
    bits = np.zeros((len(rows.slots), 0), dtype=np.int64)
    return _drive_r_int(
        inputs.is_update, inputs.widths, store.newest, *state, rows.slots, rows.panes, rows.ints, bits
    )


@kernel
def _drive_cells(
    method: int,
    is_update: Bools,
    widths: Ints,
    newest: int,
    cells: tuple[Ints, Floats, Ints, Ints],
    capacity: int,
    new: tuple[Ints, Ints, Ints, Floats],
    rows: Ints,
    work: Ints,
    answers: Ints,
    answer_floats: Floats,
    far: Ints,
    near: Ints,
) -> int:
    """With windows (far, near] their answers are kept; without, they are made at each look-up."""
    ints, floats, ops, identity = cells
    done, total = 0, 0
    only = np.zeros(1, dtype=np.int64)
    out, out_floats = np.zeros((1, 4), dtype=np.int64), np.zeros((1, 0))
    for i in range(len(is_update)):
        if is_update[i]:
            newest += 1
            given = (*cells, capacity, 1, *new, done, newest, newest)
            if method == _B_INT:
                done = b_int.append(*given)
            elif method == _PSOUP:
                done = psoup.append(*given)
            else:
                done = naive.append(*given)
                if len(far):
                    ahead = (answers, answer_floats, ops, identity, capacity, 1, far, near, -1, newest, False)
                    naive.refresh(ints, floats, *ahead)
        elif len(far):
            total += answers[widths[i], 0, _LOW]
        elif widths[i] > 0:
            out[:] = 0
            left = newest - widths[i]
            if method == _B_INT:
                count = b_int.decompose(left, newest, capacity, rows)
            elif method == _PSOUP:
                count = psoup.decompose(left, newest, capacity, rows, work)
            else:
                count = naive.rows_between(left, newest, capacity, rows)
            gather(ints, floats, ops, rows, count, only, out, out_floats)
            total += out[0, _LOW]
    return total


def drive_cells(store: CellStore, inputs: Inputs) -> int:
    rows, work = psoup.scratch(store.capacity)
    if isinstance(store, MaterialiseNone):
        rows = np.empty(store.capacity, dtype=np.int64)
    elif isinstance(store, BInt):
        rows = np.empty(most_rows(store.capacity), dtype=np.int64)
    answers = np.zeros((0, 0, 4), dtype=np.int64), np.zeros((0, 0, 0))
    windows = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    if isinstance(store, MaterialiseAll):
        answers, windows = (store.answers.ints, store.answers.floats), (store.far, store.near)
    given = inputs.rows
    return _drive_cells(
        _METHODS[type(store)],
        inputs.is_update,
        inputs.widths,
        store.newest,
        (store.cells.ints, store.cells.floats, store.ops, store.identity),
        store.capacity,
        (given.slots, given.panes, given.ints, given.floats),
        rows,
        work,
        *answers,
        *windows,
    )


DRIVERS: dict[str, tuple[Callable[[int], object], Callable[..., int]]] = {
    "R-INT": (lambda operators: RInt(SUM, operators), drive_r_int),
    "B-INT": (lambda operators: BInt(SUM, operators), drive_cells),
    "PSoup": (lambda operators: PSoup(SUM, operators), drive_cells),
    "all": (
        lambda operators: MaterialiseAll(SUM, operators, [(n, 0) for n in range(operators)]),
        drive_cells,
    ),
    "none": (lambda operators: MaterialiseNone(SUM, operators), drive_cells),
}
"""By name: a synopsis for suffixes of 0, 1, … so many elements, and its driver."""
