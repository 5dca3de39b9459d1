"""The values of one window, by slot, with their counts: what a window's aggregates of values are made of.

Two ways to hold them. Where the values lie close together (lengths, ports, the codes of some words) and the
slots are few, there is a counter for each slot and possible value: a row of the log that comes or goes costs
one addition. Else the values are listed, sorted by slot and value; what comes and goes is added in one pass
over the lists of its slots, and what is new is merged into them.

Invariant: the cells at positions left … right of the log are counted, of all slots or of those that are
followed; who begins to follow a slot counts the cells of its chain.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from sash.plan.panes import Panes
from sash.state.jit import kernel
from sash.state.keytable import distinct
from sash.synopses.b_int_qnt import FEW, Tallies, ValueRows
from sash.synopses.value_cells import ValueLog

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# So many counters a window may have.
_MOST_CELLS = 1 << 20
_NOBODY: Bools = np.zeros(0, dtype=np.bool_)
# So many slots are followed on when they do not matter.
_FEW_SLOTS = 64


class Counted(Protocol):
    """Whose values they are."""

    log: ValueLog
    slots: int
    extent: tuple[int, int]

    @property
    def panes(self) -> Panes: ...


@kernel
def _merge(
    slots: Ints,
    values: Ints,
    counts: Ints,
    more_slots: Ints,
    more_values: Ints,
    more_counts: Ints,
    out_slots: Ints,
    out_values: Ints,
    out_counts: Ints,
) -> int:
    """Two sorted runs as one, equal entries added up and those that are 0 left out; gives its length."""
    a, b, size = 0, 0, 0
    while a < len(slots) or b < len(more_slots):
        order = 0
        if b >= len(more_slots):
            order = -1
        elif a >= len(slots):
            order = 1
        elif slots[a] != more_slots[b]:
            order = -1 if slots[a] < more_slots[b] else 1
        elif values[a] != more_values[b]:
            order = -1 if values[a] < more_values[b] else 1
        count = 0
        if order <= 0:
            out_slots[size], out_values[size] = slots[a], values[a]
            count += counts[a]
            a += 1
        if order >= 0:
            out_slots[size], out_values[size] = more_slots[b], more_values[b]
            count += more_counts[b]
            b += 1
        if count != 0:
            out_counts[size] = count
            size += 1
    return size


@kernel
def _apply(
    cell_slots: Ints,
    bounds: Ints,
    start: int,
    stop: int,
    row_values: npt.NDArray[Any],
    row_counts: npt.NDArray[Any],
    first_row: int,
    sign: int,
    followed: Bools,
    slots: Ints,
    values: Ints,
    counts: Ints,
    missing_slots: Ints,
    missing_rows: Ints,
) -> int:
    """Add the rows of cells to values that are held; gives how many are not, which are `missing` then.

    Only slots that are `followed` count; if it is empty, all do.
    """
    size, at = 0, 0
    for cell in range(start, stop):
        slot = cell_slots[cell]
        if len(followed) and not followed[slot]:
            continue
        low, high = 0, len(slots)
        while low < high:
            middle = (low + high) >> 1
            if slots[middle] < slot:
                low = middle + 1
            else:
                high = middle
        at = low
        for row in range(bounds[cell, 0] - first_row, bounds[cell, 1] - first_row):
            value = row_values[row]
            while at < len(slots) and slots[at] == slot and values[at] < value:
                at += 1
            if at < len(slots) and slots[at] == slot and values[at] == value:
                counts[at] += sign * row_counts[row]
            else:
                missing_slots[size], missing_rows[size] = slot, row
                size += 1
    return size


@kernel
def _count(
    cell_slots: Ints,
    bounds: Ints,
    start: int,
    stop: int,
    row_values: npt.NDArray[Any],
    row_counts: npt.NDArray[Any],
    first_row: int,
    sign: int,
    index: Ints,
    first: int,
    counts: Ints,
    totals: Ints,
) -> None:
    """Add the rows of cells to the counters of their values; slots without an index do not count."""
    for cell in range(start, stop):
        at = index[cell_slots[cell]]
        if at >= 0:
            held, total = counts[at], 0
            for row in range(bounds[cell, 0] - first_row, bounds[cell, 1] - first_row):
                often = row_counts[row]
                # A number without a sign needs no test whether it counts from the end.
                held[np.uint64(row_values[row] - first)] += sign * often
                total += often
            totals[at] += sign * total


@kernel
def _chained(slots: Ints, heads: Ints, previous: Ints, base: int, left: int, right: int) -> Ints:
    """The cells of some slots at positions left … right."""
    found = np.empty(64, dtype=np.int64)
    size = 0
    for i in range(len(slots)):
        cell = heads[slots[i]]
        while cell >= left:
            if cell < right:
                if size == len(found):
                    found = np.concatenate((found, np.empty_like(found)))
                found[size] = cell - base
                size += 1
            cell = previous[cell - base]
    return found[:size]


@kernel
def _column_at(held: Ints, total: int, begin: int, end: int, part: int, whole: int) -> int:
    """The column of the value at rank ⌈n·part/whole⌉ of a slot that has n values, at least one.

    It is looked for from the nearer end of the columns begin … end, beyond which nothing is counted.
    """
    # No product that overflows.
    rank = (total // whole) * part + ((total % whole) * part + whole - 1) // whole
    if 2 * part < whole:
        column, left = begin, rank
        while held[column] < left:
            left -= held[column]
            column += 1
    else:
        column, left = end - 1, total - rank
        while held[column] <= left:
            left -= held[column]
            column -= 1
    return column


@kernel
def _list_most(
    held: Ints, first: int, begin: int, end: int, k: int, values: Ints, often: Ints, at: int
) -> int:
    """Write the k most frequent values of a slot at `at`, as `Tallies.top` does; gives where they end.

    Nothing is counted beyond the columns begin … end.
    """
    stop = at
    for column in range(begin, end):
        count = held[column]
        if count == 0 or (stop == at + k and count <= often[stop - 1]):
            continue
        if stop < at + k:
            stop += 1
        place = stop - 1
        while place > at and often[place - 1] < count:
            values[place], often[place] = values[place - 1], often[place - 1]
            place -= 1
        values[place], often[place] = first + column, count
    return stop


@kernel
def _ranked(
    slots: Ints,
    index: Ints,
    first: int,
    counts: Ints,
    totals: Ints,
    begin: int,
    end: int,
    part: int,
    whole: int,
) -> tuple[Ints, Ints]:
    """The value at rank ⌈n·part/whole⌉ of each slot, and n."""
    found, often = np.zeros(len(slots), dtype=np.int64), np.zeros(len(slots), dtype=np.int64)
    for i in range(len(slots)):
        at = index[slots[i]]
        often[i] = totals[at]
        if often[i] > 0:
            found[i] = first + _column_at(counts[at], often[i], begin, end, part, whole)
    return found, often


@kernel
def _most_counted(
    slots: Ints, index: Ints, first: int, counts: Ints, begin: int, end: int, k: int
) -> tuple[Ints, Ints, Ints]:
    """The k most frequent values of each slot: offsets, values, counts."""
    offsets = np.zeros(len(slots) + 1, dtype=np.int64)
    values, often = np.empty(len(slots) * k, dtype=np.int64), np.empty(len(slots) * k, dtype=np.int64)
    stop = 0
    for i in range(len(slots)):
        stop = _list_most(counts[index[slots[i]]], first, begin, end, k, values, often, stop)
        offsets[i + 1] = stop
    return offsets, values[:stop], often[:stop]


@kernel
def _answer_on_the_way(
    cell_slots: Ints,
    bounds: Ints,
    row_values: npt.NDArray[Any],
    row_counts: npt.NDArray[Any],
    first_row: int,
    lefts: Ints,
    rights: Ints,
    index: Ints,
    first: int,
    counts: Ints,
    totals: Ints,
    begin: int,
    end: int,
    ends: Ints,
    slots: Ints,
    asking: Ints,
    asks: Ints,
    most: int,
) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Move counters from boundary to boundary, at the first of which they are, and answer on the way.

    At boundary b the slots up to ends[b] are asked for what `asks` says at `asking`: a rank (part, whole), or
    the (k, 0) most frequent values. Gives ranked values and totals, and lists: offsets, values, counts.
    """
    found, often = np.zeros(len(slots), dtype=np.int64), np.zeros(len(slots), dtype=np.int64)
    offsets = np.zeros(len(slots) + 1, dtype=np.int64)
    values, listed = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    request, stop = 0, 0
    for b in range(len(ends)):
        if b > 0:
            rows = (row_values, row_counts, first_row)
            _count(cell_slots, bounds, rights[b - 1], rights[b], *rows, 1, index, first, counts, totals)
            _count(cell_slots, bounds, lefts[b - 1], lefts[b], *rows, -1, index, first, counts, totals)
        while request < ends[b]:
            at = index[slots[request]]
            part, whole = asks[asking[request], 0], asks[asking[request], 1]
            if whole == 0:
                stop = _list_most(counts[at], first, begin, end, part, values, listed, stop)
            else:
                often[request] = totals[at]
                if often[request] > 0:
                    column = _column_at(counts[at], often[request], begin, end, part, whole)
                    found[request] = first + column
            request += 1
            offsets[request] = stop
    return found, often, offsets, values[:stop], listed[:stop]


@kernel
def _totals(begins: Ints, ends: Ints, counts: Ints) -> Ints:
    totals = np.zeros(len(begins), dtype=np.int64)
    for i in range(len(begins)):
        for entry in range(begins[i], ends[i]):
            totals[i] += counts[entry]
    return totals


@kernel
def _at_ranks(begins: Ints, values: Ints, counts: Ints, ranks: Ints) -> Ints:
    """The value at a rank, from 1, of each slot; 0 for rank 0."""
    found = np.zeros(len(begins), dtype=np.int64)
    for i in range(len(begins)):
        if ranks[i] > 0:
            entry, left = begins[i], ranks[i]
            while counts[entry] < left:
                left -= counts[entry]
                entry += 1
            found[i] = values[entry]
    return found


class Asked(NamedTuple):
    """What is asked of slots at boundaries: up to `ends[b]` those of boundary b.

    `asking` says what, by its place among `asks`: (part, whole) is a rank, (k, 0) the k most frequent values.
    It ascends at a boundary.
    """

    ends: Ints
    slots: Ints
    asking: Ints
    asks: Ints

    @property
    def most_listed(self) -> int:
        """How many values all lists have, at the most."""
        lengths = np.where(self.asks[:, 1] == 0, self.asks[:, 0], 0)
        return int(lengths[self.asking].sum())


class Found(NamedTuple):
    """For everything that was asked: the value at a rank and how many there are, or a list."""

    values: Ints
    totals: Ints
    lists: Tallies


class _Lists:
    """Values sorted by slot and value. Those whose count is 0 are let go with the next that come."""

    def __init__(self) -> None:
        self.slots, self.values, self.counts = (np.zeros(0, dtype=np.int64) for _ in range(3))

    def take(self, log: ValueLog, start: int, stop: int, sign: int, followed: Bools) -> None:
        """Cells of the log come, or they go."""
        cells = log.cells
        most = int(cells.ints[stop - 1, 1] - cells.ints[start, 0]) if start < stop else 0
        missing_slots, missing_rows = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
        size = _apply(
            cells.slots,
            cells.ints,
            start,
            stop,
            log.values,
            log.counts,
            log.first,
            sign,
            followed,
            self.slots,
            self.values,
            self.counts,
            missing_slots,
            missing_rows,
        )
        if size:
            self._insert(log, missing_slots[:size], missing_rows[:size])

    def add(self, log: ValueLog, cells: Ints) -> None:
        """Cells of the log come that may be new."""
        bounds = log.cells.ints[cells] - log.first
        lengths = bounds[:, 1] - bounds[:, 0]
        ends = np.cumsum(lengths)
        rows = np.arange(ends[-1] if len(ends) else 0) + np.repeat(bounds[:, 0] - (ends - lengths), lengths)
        self._insert(log, np.repeat(log.cells.slots[cells], lengths), rows)

    def _insert(self, log: ValueLog, slots: Ints, rows: Ints) -> None:
        nowhen = np.zeros(len(rows), dtype=np.int64)
        values, counts = log.values[rows].astype(np.int64), log.counts[rows].astype(np.int64)
        more = ValueRows.of(slots, nowhen, values, counts)
        out = tuple(np.empty(len(self.slots) + len(more.slots), dtype=np.int64) for _ in range(3))
        held = self.slots, self.values, self.counts
        size = _merge(*held, more.slots, more.values, more.counts, *out)
        self.slots, self.values, self.counts = (column[:size] for column in out)

    def _bounds(self, slots: Ints) -> tuple[Ints, Ints]:
        return np.searchsorted(self.slots, slots, "left"), np.searchsorted(self.slots, slots, "right")

    def tallies(self, slots: Ints) -> Tallies:
        begins, ends = self._bounds(slots)
        lengths = ends - begins
        offsets = np.zeros(len(slots) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        places = np.repeat(begins - offsets[:-1], lengths) + np.arange(offsets[-1])
        counts = self.counts[places]
        if not counts.all():
            kept = counts > 0
            offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(kept)])[offsets]
            places, counts = places[kept], counts[kept]
        return Tallies(slots, offsets, self.values[places], counts)

    def top(self, slots: Ints, k: int, extent: tuple[int, int]) -> Tallies:
        return self.tallies(slots).top(k)

    def quantiles(self, slots: Ints, part: int, whole: int, extent: tuple[int, int]) -> tuple[Ints, Ints]:
        begins, ends = self._bounds(slots)
        totals = _totals(begins, ends, self.counts)
        # A rank is found without a product that overflows.
        ranks = (totals // whole) * part + ((totals % whole) * part + whole - 1) // whole
        return _at_ranks(begins, self.values, self.counts, ranks), totals

    @property
    def nbytes(self) -> int:
        return self.slots.nbytes + self.values.nbytes + self.counts.nbytes


class _Counters:
    """A counter for each of some slots and each value between two."""

    def __init__(self, slots: Ints, reserved: int, first: int, width: int) -> None:
        """Room for so many slots, whatever they are."""
        self.first = first
        self.index = np.full(int(slots.max(initial=-1)) + 1, -1, dtype=np.int64)
        self.index[slots] = np.arange(len(slots))
        self.used = len(slots)
        self.counts = np.zeros((reserved, width), dtype=np.int64)
        self.totals = np.zeros(reserved, dtype=np.int64)

    def has_room(self, slots: int, extent: tuple[int, int]) -> bool:
        """Whether there are counters for all values, and so many slots more."""
        fits = self.first <= extent[0] and extent[1] < self.first + self.counts.shape[1]
        return fits and self.used + slots <= len(self.counts)

    def open(self, slots: Ints) -> None:
        """Count slots that have not been counted."""
        size = int(slots.max(initial=-1)) + 1
        if size > len(self.index):
            more = np.full(max(size, 2 * len(self.index)) - len(self.index), -1, dtype=np.int64)
            self.index = np.concatenate([self.index, more])
        self.index[slots] = np.arange(self.used, self.used + len(slots))
        self.used += len(slots)

    def take(self, log: ValueLog, start: int, stop: int, sign: int, followed: Bools) -> None:
        self._count(log, log.cells.slots, log.cells.ints, start, stop, sign)

    def add(self, log: ValueLog, cells: Ints) -> None:
        self._count(log, log.cells.slots[cells], log.cells.ints[cells], 0, len(cells), 1)

    def _count(self, log: ValueLog, slots: Ints, bounds: Ints, start: int, stop: int, sign: int) -> None:
        rows = log.values, log.counts, log.first
        counters = self.first, self.counts, self.totals
        _count(slots, bounds, start, stop, *rows, sign, self._reaching(log), *counters)

    def _reaching(self, log: ValueLog) -> Ints:
        """The index, long enough for all slots of the log."""
        reserved = len(log.cells.heads)
        if len(self.index) < reserved:
            missing = np.full(reserved - len(self.index), -1, dtype=np.int64)
            self.index = np.concatenate([self.index, missing])
        return self.index

    def tallies(self, slots: Ints) -> Tallies:
        rows = self.counts[self.index[slots]]
        owners, columns = np.nonzero(rows)
        offsets = np.searchsorted(owners, np.arange(len(slots) + 1))
        return Tallies(slots, offsets, columns + self.first, rows[owners, columns])

    def _columns(self, extent: tuple[int, int]) -> tuple[int, int]:
        """The columns of values that there may be: the others are for values to come."""
        return max(extent[0] - self.first, 0), min(extent[1] + 1 - self.first, self.counts.shape[1])

    def top(self, slots: Ints, k: int, extent: tuple[int, int]) -> Tallies:
        if k > FEW:
            return self.tallies(slots).top(k)
        columns = self._columns(extent)
        return Tallies(slots, *_most_counted(slots, self.index, self.first, self.counts, *columns, k))

    def quantiles(self, slots: Ints, part: int, whole: int, extent: tuple[int, int]) -> tuple[Ints, Ints]:
        columns = self._columns(extent)
        return _ranked(slots, self.index, self.first, self.counts, self.totals, *columns, part, whole)

    def answer(
        self, log: ValueLog, lefts: Ints, rights: Ints, asked: Asked, extent: tuple[int, int]
    ) -> Found:
        """Answer at boundaries, at the first of which the counters are, and be at the last one then."""
        cells = log.cells
        found, often, *lists = _answer_on_the_way(
            cells.slots,
            cells.ints,
            log.values,
            log.counts,
            log.first,
            lefts - cells.base,
            rights - cells.base,
            self._reaching(log),
            self.first,
            self.counts,
            self.totals,
            *self._columns(extent),
            asked.ends,
            asked.slots,
            asked.asking,
            asked.asks,
            asked.most_listed,
        )
        return Found(found, often, Tallies(asked.slots, *lists))

    @property
    def nbytes(self) -> int:
        return self.index.nbytes + self.counts.nbytes + self.totals.nbytes


class ValueWindow:
    """The values of a window of one length. It may follow some slots only."""

    def __init__(self, counted: Counted, range_: int) -> None:
        self._all = counted
        self.range = range_
        self._followed: Bools | None = None
        # Of those that are followed, who was named since `unfollow`.
        self._wanted: Bools = _NOBODY
        self._boundary: int | None = None
        self.clear()

    def clear(self) -> None:
        """Begin anew with the next boundary."""
        self._is_there = False
        self.left = self.right = self._all.log.cells.base
        self._held: _Lists | _Counters = _Lists()

    def _begin(self, position: int) -> None:
        """Hold nothing at a position of the log, in the way that suits what is there."""
        self.left = self.right = position
        first, last = self._all.extent
        is_all = self._followed is None
        slots = np.arange(self._all.slots) if self._followed is None else np.flatnonzero(self._followed)
        reserved = 2 * len(slots) + (1 if is_all else _FEW_SLOTS)
        margin = (last - first + 1) // 4
        width = last - first + 1 + 2 * margin
        if width * reserved <= _MOST_CELLS:
            self._held = _Counters(slots, reserved, first - margin, width)
        else:
            self._held = _Lists()

    def follow(self, slots: Ints) -> None:
        """These slots matter, too, where the window stands and from now on; others do not, unless named."""
        log = self._all.log
        cells = log.cells
        is_first = self._followed is None
        for name in ("_followed", "_wanted"):
            known = getattr(self, name)
            have = 0 if known is None else len(known)
            if have < len(cells.heads):
                room = np.zeros(len(cells.heads), dtype=np.bool_)
                room[:have] = False if known is None else known
                setattr(self, name, room)
        assert self._followed is not None
        self._wanted[slots] = True
        new = slots[~self._followed[slots]]
        self._followed[new] = True
        if is_first:
            self._begin_again()
        elif len(new):
            if isinstance(self._held, _Counters):
                if not self._held.has_room(len(new), self._all.extent):
                    self._begin_again()
                    return
                self._held.open(new)
            found = _chained(new, cells.heads, cells.previous, cells.base, self.left, self.right)
            self._held.add(log, found)

    def unfollow(self) -> None:
        """Follow slots no longer that nobody has named for a while, if they are many."""
        if self._followed is not None:
            if np.count_nonzero(self._followed) > 2 * np.count_nonzero(self._wanted) + _FEW_SLOTS:
                self._followed = self._wanted.copy()
                self.clear()
            self._wanted[:] = False

    def _begin_again(self) -> None:
        self.clear()
        if self._boundary is not None:
            self.advance(self._boundary)

    def advance(self, boundary: int) -> None:
        """Make the window that of `boundary`, which is on an edge and not before the last one."""
        if self._is_there and boundary == self._boundary:
            return
        self._boundary, self._is_there = boundary, True
        log, panes = self._all.log, self._all.panes
        cells, base = log.cells, log.cells.base
        left = cells.position_after(panes.number_at(boundary - self.range))
        right = cells.position_after(panes.number_at(boundary))
        if left >= self.right or self.left < base or not self._fits():
            self._begin(left)
        followed = _NOBODY if self._followed is None else self._followed
        if self.right < right:
            self._held.take(log, self.right - base, right - base, 1, followed)
        if self.left < left:
            self._held.take(log, self.left - base, left - base, -1, followed)
        self.left, self.right = left, right

    def answer(self, boundaries: Ints, asked: Asked, *, follows_some: bool) -> Found:
        """Move from boundary to boundary, which ascend, and answer on the way.

        `follows_some`: slots that are asked for matter from now on, others do not.
        """
        self.advance(int(boundaries[0]))
        if follows_some:
            self.follow(distinct(asked.slots))
        if isinstance(self._held, _Lists):
            return self._answer_step_by_step(boundaries, asked)
        panes, cells = self._all.panes, self._all.log.cells
        lefts = cells.positions_after(panes.number_of(boundaries - self.range))
        rights = cells.positions_after(panes.number_of(boundaries))
        found = self._held.answer(self._all.log, lefts, rights, asked, self._all.extent)
        self._boundary, self.left, self.right = int(boundaries[-1]), int(lefts[-1]), int(rights[-1])
        return found

    def _answer_step_by_step(self, boundaries: Ints, asked: Asked) -> Found:
        values, totals = np.zeros(len(asked.slots), np.int64), np.zeros(len(asked.slots), np.int64)
        nothing = np.zeros(0, dtype=np.int64)
        lists = [Tallies(nothing, np.zeros(1, dtype=np.int64), nothing, nothing)]
        begin = 0
        for boundary, end in zip(boundaries.tolist(), asked.ends.tolist(), strict=True):
            self.advance(boundary)
            for number, (part, whole) in enumerate(asked.asks.tolist()):
                stop = begin + int(np.searchsorted(asked.asking[begin:end], number, side="right"))
                slots = asked.slots[begin:stop]
                if whole == 0:
                    lists.append(self.top(slots, part))
                else:
                    lists.append(Tallies(slots, np.zeros(len(slots) + 1, dtype=np.int64), nothing, nothing))
                    values[begin:stop], totals[begin:stop] = self.quantiles(slots, part, whole)
                begin = stop
        return Found(values, totals, Tallies.concatenated(lists))

    def _fits(self) -> bool:
        """Whether what is held can take in what is in the log now."""
        if isinstance(self._held, _Lists):
            return True
        new = 0 if self._followed is not None else self._all.slots - self._held.used
        if not self._held.has_room(new, self._all.extent):
            return False
        if new:
            self._held.open(np.arange(self._held.used, self._all.slots))
        return True

    def tallies(self, slots: Ints) -> Tallies:
        """The values of some slots, which ascend."""
        return self._held.tallies(slots)

    def top(self, slots: Ints, k: int) -> Tallies:
        """Of some slots, which ascend, the k most frequent values, the most frequent first."""
        return self._held.top(slots, k, self._all.extent)

    def quantiles(self, slots: Ints, part: int, whole: int) -> tuple[Ints, Ints]:
        """Of some slots, which ascend, the value at rank ⌈n·part/whole⌉, and n."""
        return self._held.quantiles(slots, part, whole, self._all.extent)

    def renumber(self, place: Ints) -> None:
        """Slot s is now place[s]; those that are gone have −1."""
        self.clear()
        if self._followed is not None:
            known = place[np.flatnonzero(self._followed[: len(place)])]
            self._followed = np.zeros(len(self._all.log.cells.heads), dtype=np.bool_)
            self._followed[known[known >= 0]] = True
            self._wanted = self._followed.copy()

    def recode(self, codes: Ints) -> None:
        """Words have other codes."""
        self.clear()

    @property
    def nbytes(self) -> int:
        return self._held.nbytes
