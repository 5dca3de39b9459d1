"""States of groups at boundaries: what a flush compares, as columns; aggregates on demand.

The states of several windows can stand in one table: a state then belongs to the group of a window, whose
number among the windows is its owner.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.lang.bound import AggregateCall, BoundSelect
from sash.operators.evaluate import evaluate_mask
from sash.state import kernels
from sash.state.groups import plain
from sash.state.keytable import distinct
from sash.synopses.combined import Synopsis
from sash.synopses.finalize import Values, finalize
from sash.synopses.thresholds import Column
from sash.synopses.value_states import ValueStates, values_of

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

# Slots are sorted if groups are so many times as many, else marked among all groups.
_SPARSE = 16


class Stack:
    """Totals of the groups that a boundary concerns, boundary after boundary."""

    def __init__(self) -> None:
        self.rows = 0
        self._boundaries: list[int] = []
        self._counts: list[int] = []
        self.slots: list[Int64Array] = []
        self.ints: list[Int64Array] = []
        self.floats: list[npt.NDArray[np.float64]] = []

    def push(
        self, boundary: int, slots: Int64Array, ints: Int64Array, floats: npt.NDArray[np.float64]
    ) -> None:
        if len(slots):
            self.rows += len(slots)
            self._boundaries.append(boundary)
            self._counts.append(len(slots))
            self.slots.append(slots)
            self.ints.append(ints)
            self.floats.append(floats)

    def extend(
        self,
        boundaries: Int64Array,
        counts: Int64Array,
        slots: Int64Array,
        ints: Int64Array,
        floats: npt.NDArray[np.float64],
    ) -> None:
        """Push rows of several boundaries; each has as many as it counts."""
        self.rows += len(slots)
        self._boundaries += boundaries.tolist()
        self._counts += counts.tolist()
        self.slots.append(slots)
        self.ints.append(ints)
        self.floats.append(floats)

    @property
    def instants(self) -> Int64Array:
        """The boundary of each row."""
        return np.repeat(np.array(self._boundaries, dtype=np.int64), self._counts)


class Compared(NamedTuple):
    """A column of HAVING: values as integers, where they count, and the rows that do in order of value."""

    ordinals: Int64Array
    counts: BoolArray
    order: Int64Array
    ascending: Int64Array


class Read(NamedTuple):
    """What one window has on a stack, and the totals before that (None: whole answers, which need none)."""

    stack: Stack
    calls: ValueStates
    before: tuple[Int64Array, npt.NDArray[np.float64]] | None = None
    has_answered: bool = False


class States:
    """Stacks as columns, preceded by the states that their groups had before; aggregates on demand.

    Rows are in order of owner and instant, but for those of before, which are the first `carried`.
    """

    def __init__(self, synopsis: Synopsis, windows: Sequence[Read], is_global: bool) -> None:
        """All windows have the same calls."""
        self._synopsis = synopsis
        self._windows = windows
        self._is_global = is_global
        size = synopsis.groups.size
        stacks = [window.stack for window in windows]
        slots = np.concatenate([part for stack in stacks for part in stack.slots])
        owners = np.repeat(np.arange(len(windows)), [stack.rows for stack in stacks])
        self._groups, numbers = _numbered(owners * size + slots, len(windows) * size)
        self._edges = np.searchsorted(self._groups, np.arange(len(windows) + 1) * size).tolist()
        carried = [np.zeros(0, dtype=np.int64)]
        ints, floats = [], []
        for number, window in enumerate(windows):
            if window.before is not None:
                own = self._slots_of(number)
                found = (
                    np.zeros(int(window.has_answered), dtype=np.int64)
                    if is_global
                    else np.flatnonzero(window.before[0][own, 0] > 0)
                )
                carried.append(found + self._edges[number])
                ints.append(window.before[0][own[found]])
                floats.append(window.before[1][own[found]])
        self.ints = np.concatenate([*ints, *(part for stack in stacks for part in stack.ints)])
        self.floats = np.concatenate([*floats, *(part for stack in stacks for part in stack.floats)])
        from_before = np.concatenate(carried)
        self.carried = len(from_before)
        self.owners = np.concatenate([self._groups[from_before] // size, owners])
        self.slots = np.concatenate([self._groups[from_before] % size, slots])
        nowhen = np.zeros(self.carried, dtype=np.int64)
        self.instants = np.concatenate([nowhen, *(stack.instants for stack in stacks)])
        self.previous = np.empty(len(self.slots), dtype=np.int64)
        self._latest = np.full(len(self._groups), -1, dtype=np.int64)
        kernels.link_states(np.concatenate([from_before, numbers]), self._latest, self.previous)
        self._values: dict[AggregateCall, Values] = {}
        self._compared: dict[Column, Compared] = {}

    def _slots_of(self, owner: int) -> Int64Array:
        """The different slots that one window has, ascending."""
        return self._groups[self._edges[owner] : self._edges[owner + 1]] - owner * self._synopsis.groups.size

    @cached_property
    def following(self) -> Int64Array:
        """For each row the next one of the same group, −1 if there is none."""
        following = np.full(len(self.slots), -1, dtype=np.int64)
        rows = np.flatnonzero(self.previous >= 0)
        following[self.previous[rows]] = rows
        return following

    def compared(self, column: Column) -> Compared:
        """A column of HAVING, sorted once for all thresholds."""
        if column not in self._compared:
            values = self.values(column.call)
            ordinals = column.ordinals(values)
            # A row that is not there has the number −1 and reads what is at the end.
            counts = np.append(self.exist() & values.valid, False)
            order = np.flatnonzero(counts)
            order = order[np.argsort(ordinals[order], kind="stable")]
            self._compared[column] = Compared(np.append(ordinals, 0), counts, order, ordinals[order])
        return self._compared[column]

    def remember(self, owner: int, before: tuple[Int64Array, npt.NDArray[np.float64]]) -> Int64Array:
        """Store the last state of each group of a window in `before`; gives which groups those are."""
        slots, rows = self._slots_of(owner), self._latest[self._edges[owner] : self._edges[owner + 1]]
        before[0][slots], before[1][slots] = self.ints[rows], self.floats[rows]
        return slots

    def values(self, call: AggregateCall) -> Values:
        if call not in self._values:
            self._values[call] = (
                values_of(call, [window.calls for window in self._windows], self.ints, self.owners)
                if call in self._windows[0].calls
                else finalize(call, self._synopsis.layout, self.ints, self.floats, self._synopsis.words)
            )
        return self._values[call]

    def exist(self) -> BoolArray:
        """Which states are those of groups that are there."""
        if self._is_global:
            return np.ones(len(self.slots), dtype=np.bool_)
        return np.asarray(self.ints[:, 0] > 0)

    def present(self, select: BoundSelect) -> BoolArray:
        """Which states are in the answer: the group exists and passes HAVING."""
        present = self.exist()
        if select.having is not None:
            rows = None if present.all() else np.flatnonzero(present)
            table = self.table(select, rows, [select.having.inputs])
            passed = np.asarray(plain(evaluate_mask(table, select.having)))
            if rows is None:
                return passed
            present[rows] = passed
        return present

    def table(
        self, select: BoundSelect, rows: Int64Array | None, inputs: Sequence[Sequence[str]]
    ) -> pa.Table:
        """The columns k0, … and a0, … that are named in `inputs`, for the given rows (None: for all)."""
        names = {name for group in inputs for name in group}
        columns: dict[str, pa.Array] = {}
        if any(f"k{i}" in names for i in range(len(select.keys))):
            slots = self.slots if rows is None else self.slots[rows]
            keys = self._synopsis.groups.keys_of(slots)
            columns.update({f"k{i}": key for i, key in enumerate(keys) if f"k{i}" in names})
        for i, call in enumerate(select.aggregates):
            if f"a{i}" in names:
                values = self.values(call)
                columns[f"a{i}"] = values.array if rows is None else values.take(rows)
        if not columns:
            # A constant expression still has one value a row.
            columns["row"] = pa.nulls(len(self.slots) if rows is None else len(rows), pa.int8())
        return pa.table(columns)


def _numbered(slots: Int64Array, groups: int) -> tuple[Int64Array, Int64Array]:
    """The different slots, ascending, and of each the number that it has among them."""
    if _SPARSE * len(slots) < groups:
        found = distinct(slots)
        return found, np.searchsorted(found, slots)
    marks = np.zeros(groups, dtype=np.bool_)
    marks[slots] = True
    return np.flatnonzero(marks), (np.cumsum(marks) - 1)[slots]
