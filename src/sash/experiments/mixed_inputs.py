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
def _drive_b_int(
    is_update: Bools,
    widths: Ints,
    newest: int,
    cells: Ints,
    floats: Floats,
    ops: Ints,
    identity: Ints,
    capacity: int,
    span: int,
    slots: Ints,
    panes: Ints,
    ints: Ints,
    new_floats: Floats,
    rows: Ints,
) -> int:
    done, total = 0, 0
    only = np.zeros(1, dtype=np.int64)
    out, out_floats = np.zeros((1, 4), dtype=np.int64), np.zeros((1, 0))
    for i in range(len(is_update)):
        if is_update[i]:
            newest += 1
            done = b_int.append(
                cells,
                floats,
                ops,
                identity,
                capacity,
                span,
                1,
                slots,
                panes,
                ints,
                new_floats,
                done,
                newest,
                newest,
            )
        else:
            out[:] = 0
            count = b_int.decompose(newest - widths[i], newest, capacity, rows)
            gather(cells, floats, ops, rows, count, only, out, out_floats)
            total += out[0, _LOW]
    return total


def drive_b_int(store: BInt, inputs: Inputs) -> int:
    given = inputs.rows
    state = store.cells.ints, store.cells.floats, store.ops, store.identity, store.capacity, store.span
    rows = np.empty(most_rows(store.capacity), dtype=np.int64)
    new = given.slots, given.panes, given.ints, given.floats
    return _drive_b_int(inputs.is_update, inputs.widths, store.newest, *state, *new, rows)


@kernel
def _drive_psoup(
    is_update: Bools,
    widths: Ints,
    newest: int,
    cells: Ints,
    floats: Floats,
    ops: Ints,
    identity: Ints,
    capacity: int,
    slots: Ints,
    panes: Ints,
    ints: Ints,
    new_floats: Floats,
    rows: Ints,
    work: Ints,
) -> int:
    done, total = 0, 0
    only = np.zeros(1, dtype=np.int64)
    out, out_floats = np.zeros((1, 4), dtype=np.int64), np.zeros((1, 0))
    for i in range(len(is_update)):
        if is_update[i]:
            newest += 1
            done = psoup.append(
                cells,
                floats,
                ops,
                identity,
                capacity,
                1,
                slots,
                panes,
                ints,
                new_floats,
                done,
                newest,
                newest,
            )
        elif widths[i] > 0:
            out[:] = 0
            count = psoup.decompose(newest - widths[i], newest, capacity, rows, work)
            gather(cells, floats, ops, rows, count, only, out, out_floats)
            total += out[0, _LOW]
    return total


def drive_psoup(store: PSoup, inputs: Inputs) -> int:
    given = inputs.rows
    state = store.cells.ints, store.cells.floats, store.ops, store.identity, store.capacity
    new = given.slots, given.panes, given.ints, given.floats
    return _drive_psoup(
        inputs.is_update, inputs.widths, store.newest, *state, *new, *psoup.scratch(store.capacity)
    )


@kernel
def _drive_naive(
    is_update: Bools,
    widths: Ints,
    newest: int,
    cells: Ints,
    floats: Floats,
    ops: Ints,
    identity: Ints,
    capacity: int,
    slots: Ints,
    panes: Ints,
    ints: Ints,
    new_floats: Floats,
    rows: Ints,
    answers: Ints,
    answer_floats: Floats,
    far: Ints,
    near: Ints,
) -> int:
    """With windows (far, near] their answers are kept; without, they are made at each look-up."""
    done, total = 0, 0
    only = np.zeros(1, dtype=np.int64)
    out, out_floats = np.zeros((1, 4), dtype=np.int64), np.zeros((1, 0))
    for i in range(len(is_update)):
        if is_update[i]:
            newest += 1
            done = naive.append(
                cells,
                floats,
                ops,
                identity,
                capacity,
                1,
                slots,
                panes,
                ints,
                new_floats,
                done,
                newest,
                newest,
            )
            if len(far):
                naive.refresh(
                    cells,
                    floats,
                    answers,
                    answer_floats,
                    ops,
                    identity,
                    capacity,
                    1,
                    far,
                    near,
                    -1,
                    newest,
                    False,
                )
        elif len(far):
            total += answers[widths[i], 0, _LOW]
        else:
            out[:] = 0
            count = naive.rows_between(newest - widths[i], newest, capacity, rows)
            gather(cells, floats, ops, rows, count, only, out, out_floats)
            total += out[0, _LOW]
    return total


def drive_none(store: MaterialiseNone, inputs: Inputs) -> int:
    given = inputs.rows
    cells = store.cells
    state = cells.ints, cells.floats, store.ops, store.identity, store.capacity
    new = given.slots, given.panes, given.ints, given.floats
    rows = np.empty(store.capacity, dtype=np.int64)
    nothing = np.zeros(0, dtype=np.int64)
    answers = np.zeros((0, 0, 4), dtype=np.int64), np.zeros((0, 0, 0))
    if isinstance(store, MaterialiseAll):
        answers = store.answers.ints, store.answers.floats
        nothing = store.far
    near = store.near if isinstance(store, MaterialiseAll) else nothing
    return _drive_naive(
        inputs.is_update, inputs.widths, store.newest, *state, *new, rows, *answers, nothing, near
    )


DRIVERS: dict[str, tuple[Callable[[int], object], Callable[..., int]]] = {
    "R-INT": (lambda operators: RInt(SUM, operators), drive_r_int),
    "B-INT": (lambda operators: BInt(SUM, operators), drive_b_int),
    "PSoup": (lambda operators: PSoup(SUM, operators), drive_psoup),
    "all": (lambda operators: MaterialiseAll(SUM, operators, [(n, 0) for n in range(operators)]), drive_none),
    "none": (lambda operators: MaterialiseNone(SUM, operators), drive_none),
}
"""By name: a synopsis for suffixes of 0, 1, … so many elements, and its driver."""
