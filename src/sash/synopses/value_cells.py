"""How often values occur, in cells: the values of one slot in one pane, in order, with their counts.

A row has a value and a count; slot and pane are those of its cell. A `ValueLog` has the cells of complete
panes in order of pane, as a `PaneLog` has measures, so the cells of a slot are chained, and those of a pane
are neighbours; the rows of all cells lie one after the other in two arrays that lose their dead front by
moving. Space: 8 bytes a row, 16 once a value or a count has not fitted 32 bits; 40 a cell.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sash.state import kernels
from sash.state.jit import kernel
from sash.state.layout import Layout
from sash.state.panelog import PaneLog, room_for
from sash.synopses.b_int_qnt import ValueRows
from sash.synopses.rows import pane_order

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# A cell of the log has the bounds of its rows.
_BOUNDS = Layout((), (), (), (kernels.ADD, kernels.ADD), 0)
_FIRST_CAPACITY = 1024
_NARROW = np.iinfo(np.int32)


@dataclass(frozen=True, slots=True)
class Cells:
    """Cell i is of slots[i] in panes[i] and has the rows offsets[i] … offsets[i + 1]. Panes ascend.

    `codes` are the values; those of a chunk, which take fewer bytes, are places in `known`, which ascends.
    """

    slots: Ints
    panes: Ints
    offsets: Ints
    codes: npt.NDArray[Any]
    counts: npt.NDArray[Any]
    known: Ints | None = None

    @staticmethod
    def of(rows: ValueRows) -> Cells:
        """Rows in order of pane, slot and value."""
        starts = cell_starts(rows.panes, rows.slots)
        first = starts[:-1]
        return Cells(rows.slots[first], rows.panes[first], starts, rows.values, rows.counts)

    @staticmethod
    def together(parts: Sequence[Cells]) -> Cells:
        """Cells of several parts in order of pane, those of one pane and slot as one."""
        if len(parts) == 1:
            return parts[0]
        slots = np.concatenate([part.slots for part in parts])
        panes = np.concatenate([part.panes for part in parts])
        values = np.concatenate([part.values for part in parts])
        counts = np.concatenate([part.counts for part in parts], dtype=np.int64)
        lengths = np.concatenate([np.diff(part.offsets) for part in parts])
        offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
        order = pane_order(slots, panes)
        return Cells(*_laid_out(order, slots, panes, offsets, values, counts))

    @staticmethod
    def in_order(parts: Sequence[Cells]) -> Iterator[Cells]:
        """Cells of several parts, one stretch of panes after the other: only panes that several parts have
        are put together."""
        found = [_different(part.panes) for part in parts]
        panes, counts = np.unique(np.concatenate([*found, np.zeros(0, dtype=np.int64)]), return_counts=True)
        owners = np.full(len(panes), -1)
        for number, own in enumerate(found):
            owners[np.searchsorted(panes, own)] = number
        owners[counts > 1] = -1
        starts = np.flatnonzero(np.diff(owners, prepend=-2)).tolist()
        for start, stop in itertools.pairwise([*starts, len(panes)]):
            owner, first, last = int(owners[start]), int(panes[start]), int(panes[stop - 1])
            concerned = parts if owner < 0 else parts[owner : owner + 1]
            yield Cells.together([part.between(first, last) for part in concerned])

    @property
    def values(self) -> Ints:
        return self.codes if self.known is None else self.known[self.codes]

    @property
    def extent(self) -> tuple[int, int]:
        """The least and the greatest value; there are some."""
        ends = np.array([self.codes.min(), self.codes.max()])
        least, greatest = (ends if self.known is None else self.known[ends]).tolist()
        return least, greatest

    @property
    def is_narrow(self) -> bool:
        """Whether values and counts surely fit 32 bits."""
        numbers = self.codes if self.known is None else self.known
        fits = not len(numbers) or (numbers.min() >= _NARROW.min and numbers.max() <= _NARROW.max)
        is_small = self.counts.dtype.itemsize <= 2 or self.counts.max(initial=0) <= _NARROW.max
        return bool(fits and is_small)

    def between(self, first: int, last: int) -> Cells:
        """Those of some panes."""
        start = int(np.searchsorted(self.panes, first, side="left"))
        stop = int(np.searchsorted(self.panes, last, side="right"))
        return self._part(start, stop)

    def split(self, count: int) -> tuple[Cells, Cells]:
        """The first cells, and the others."""
        return self._part(0, count), self._part(count, len(self.slots))

    def _part(self, start: int, stop: int) -> Cells:
        offsets = self.offsets[start : stop + 1]
        begin, end = int(offsets[0]), int(offsets[-1])
        rows = self.codes[begin:end], self.counts[begin:end], self.known
        return Cells(self.slots[start:stop], self.panes[start:stop], offsets - begin, *rows)

    def rows(self) -> ValueRows:
        """Each row with the slot and the pane of its cell."""
        owners = np.repeat(np.arange(len(self.slots)), np.diff(self.offsets))
        counts = self.counts.astype(np.int64, copy=False)
        return ValueRows(self.slots[owners], self.panes[owners], self.values, counts)

    @property
    def nbytes(self) -> int:
        return 3 * self.slots.nbytes + self.codes.nbytes + self.counts.nbytes


class ValueLog:
    """Positions are those of cells: they keep their meaning when the front is trimmed."""

    def __init__(self) -> None:
        self.cells = PaneLog(_BOUNDS)
        self._type: type[np.signedinteger[Any]] = np.int32
        self._allocate(_FIRST_CAPACITY)
        # Where the arrays begin, and how many rows they have; bounds of cells count from the first row ever.
        self.first = 0
        self.rows = 0

    def _allocate(self, capacity: int) -> None:
        self.values: npt.NDArray[np.signedinteger[Any]] = np.empty(capacity, dtype=self._type)
        self.counts: npt.NDArray[np.signedinteger[Any]] = np.empty(capacity, dtype=self._type)

    def append(self, cells: Cells) -> None:
        """Add cells whose panes are not before the last one's; their slots are reserved."""
        if self._type is np.int32 and not cells.is_narrow:
            self._type = np.int64
            self.values, self.counts = self.values.astype(np.int64), self.counts.astype(np.int64)
        start, stop = self.rows, self.rows + len(cells.codes)
        if stop > len(self.values):
            self._move(0, max(stop, 2 * len(self.values)))
        if cells.known is None:
            self.values[start:stop] = cells.codes
        else:
            _decode(cells.known, cells.codes, self.values[start:stop])
        self.counts[start:stop] = cells.counts
        self.rows = stop
        bounds = cells.offsets + (self.first + start)
        ints = np.stack([bounds[:-1], bounds[1:]], axis=1)
        self.cells.append(cells.slots, cells.panes, ints, np.zeros((len(ints), 0)))

    def trim(self, position: int) -> None:
        """Forget the cells before `position`, once they are at least half of what is stored."""
        base = self.cells.base
        self.cells.trim(position)
        if self.cells.base > base:
            is_empty = self.cells.base == self.cells.end
            live = self.first + self.rows if is_empty else int(self.cells.ints[0, 0])
            dead = live - self.first
            self._move(dead, room_for(self.rows - dead, len(self.values)))

    def _move(self, dead: int, capacity: int) -> None:
        values, counts = self.values[dead : self.rows], self.counts[dead : self.rows]
        if capacity != len(self.values):
            self._allocate(capacity)
        self.values[: len(values)], self.counts[: len(counts)] = values, counts
        self.first += dead
        self.rows -= dead

    def between(self, start: int, stop: int) -> tuple[Ints, Ints]:
        """The values and counts of the cells at positions start … stop."""
        if start >= stop:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        bounds = self.cells.ints
        begin = int(bounds[start - self.cells.base, 0]) - self.first
        end = int(bounds[stop - 1 - self.cells.base, 1]) - self.first
        return self.values[begin:end].astype(np.int64), self.counts[begin:end].astype(np.int64)

    @property
    def live_values(self) -> npt.NDArray[np.signedinteger[Any]]:
        return self.values[: self.rows]

    @property
    def nbytes(self) -> int:
        return self.cells.nbytes + self.values.nbytes + self.counts.nbytes


def _different(panes: Ints) -> Ints:
    """Each of some panes, which ascend, once."""
    return np.concatenate([panes[:1], panes[1:][panes[1:] != panes[:-1]]])


@kernel
def _decode(known: Ints, codes: npt.NDArray[Any], values: npt.NDArray[Any]) -> None:
    for row in range(len(codes)):
        values[row] = known[codes[row]]


@kernel
def cell_starts(panes: Ints, slots: Ints) -> Ints:
    """Where each pane's slot begins, and the end."""
    starts = np.empty(len(panes) + 1, dtype=np.int64)
    size = 0
    for row in range(len(panes)):
        if row == 0 or panes[row] != panes[row - 1] or slots[row] != slots[row - 1]:
            starts[size] = row
            size += 1
    starts[size] = len(panes)
    return starts[: size + 1]


@kernel
def _laid_out(
    order: Ints, slots: Ints, panes: Ints, offsets: Ints, values: Ints, counts: Ints
) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Cells in an order in which those of one pane and slot are neighbours, as one cell each."""
    out_slots, out_panes = np.empty_like(slots), np.empty_like(panes)
    out_offsets = np.zeros(len(slots) + 1, dtype=np.int64)
    out_values, out_counts = np.empty_like(values), np.empty_like(counts)
    size, at, i = 0, 0, 0
    while i < len(order):
        cell = order[i]
        out_slots[size], out_panes[size] = slots[cell], panes[cell]
        start = at
        while i < len(order) and slots[order[i]] == slots[cell] and panes[order[i]] == panes[cell]:
            for row in range(offsets[order[i]], offsets[order[i] + 1]):
                out_values[at], out_counts[at] = values[row], counts[row]
                at += 1
            i += 1
        is_ascending = True
        for row in range(start + 1, at):
            if out_values[row] <= out_values[row - 1]:
                is_ascending = False
        if not is_ascending:
            ranks = np.argsort(out_values[start:at])
            own_values, own_counts = out_values[start:at][ranks], out_counts[start:at][ranks]
            at = start
            for row in range(len(ranks)):
                if at > start and out_values[at - 1] == own_values[row]:
                    out_counts[at - 1] += own_counts[row]
                else:
                    out_values[at], out_counts[at] = own_values[row], own_counts[row]
                    at += 1
        size += 1
        out_offsets[size] = at
    return out_slots[:size], out_panes[:size], out_offsets[: size + 1], out_values[:at], out_counts[:at]
