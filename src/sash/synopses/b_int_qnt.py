"""B-INT-QNT: the sorted values of base intervals, for quantiles and whatever else needs values (004, 3.3).

Each base interval (see b_int) keeps the values of its panes per group, sorted, equal ones once with how
many there are up to them. A base interval of the next level is merged from its halves. A quantile is found
in the sorted runs that make up the window without merging them; counts of different values, the most
frequent ones and variances come from the merged runs.

Values are integers in the order of the values they stand for (see state/ordering).

Needs: nothing of the aggregate; values that can be ordered. Time: an update costs one merge step per value
and level, so O(log N) a value; a quantile over p = O(log W) runs of up to q values takes O(p log q) pivots
at the worst and about log(p·q) as a rule, each p binary searches; the other aggregates sort what is in the
runs. Space: 24 bytes per different value of a base interval and group, on each of log₂ N + 1 levels, in
rings that have room for up to twice as many, and 16 per base interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.operators.aggregates.arguments import Given
from sash.operators.aggregates.events import Events
from sash.operators.aggregates.moments import Moments
from sash.operators.operator import State
from sash.state.jit import kernel
from sash.state.ordering import ordinal_to_double
from sash.synopses.b_int import decompose, most_rows, row_of
from sash.synopses.pane_store import power_of_two
from sash.synopses.spanned import Spanned

Ints = npt.NDArray[np.int64]
LARGEST_DENOMINATOR = 10**9
# Rows are sorted by counting if there are at most so many cells of pane and slot.
_CELLS_A_ROW, _FEW_CELLS = 8, 1 << 16
# A list of so many values is kept in order by insertion, a longer one is sorted.
FEW = 64


@dataclass(frozen=True, slots=True)
class ValueRows:
    """How often a value comes in a pane and slot: ordered by pane, slot and value, each of them once."""

    slots: Ints
    panes: Ints
    values: Ints
    counts: Ints

    @staticmethod
    def of(slots: Ints, panes: Ints, values: Ints, counts: Ints | None = None) -> ValueRows:
        """Values in any order, equal ones as often as they come or with their counts."""
        if counts is None:
            counts = np.ones(len(values), dtype=np.int64)
        if len(slots) == 0:
            return ValueRows(slots, panes, values, counts)
        first, width = int(panes.min()), int(slots.max()) + 1
        cells = (int(panes.max()) - first + 1) * width
        if cells <= _CELLS_A_ROW * len(slots) + _FEW_CELLS:
            return ValueRows(*_gathered(slots, panes, values, counts, first, width, cells))
        order = np.lexsort((values, slots, panes))
        slots, panes, values, counts = slots[order], panes[order], values[order], counts[order]
        starts = _starts(panes, slots, values)
        return ValueRows(slots[starts], panes[starts], values[starts], np.add.reduceat(counts, starts))

    def between(self, first: int, last: int) -> ValueRows:
        """The rows of panes first … last."""
        begin, end = np.searchsorted(self.panes, (first, last + 1))
        return self._part(slice(int(begin), int(end)))

    def split(self, count: int) -> tuple[ValueRows, ValueRows]:
        """So many rows, and those after them."""
        return self._part(slice(count)), self._part(slice(count, None))

    def _part(self, part: slice) -> ValueRows:
        return ValueRows(self.slots[part], self.panes[part], self.values[part], self.counts[part])


def _starts(*columns: Ints) -> Ints:
    """Where runs of equal rows begin."""
    if len(columns[0]) == 0:
        return np.zeros(0, dtype=np.int64)
    differs = np.zeros(len(columns[0]), dtype=np.bool_)
    differs[0] = True
    for column in columns:
        differs[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(differs)


@kernel
def _gathered(
    slots: Ints, panes: Ints, values: Ints, counts: Ints, first: int, width: int, cells: int
) -> tuple[Ints, Ints, Ints, Ints]:
    """Rows in order of pane, slot and value, equal ones added up.

    They are sorted by counting into cells of pane and slot; where the values of a cell come in order already,
    nothing is compared.
    """
    place = np.zeros(cells + 1, dtype=np.int64)
    for row in range(len(slots)):
        place[(panes[row] - first) * width + slots[row] + 1] += 1
    for cell in range(cells):
        place[cell + 1] += place[cell]
    begins = place[:cells].copy()
    own_values, own_counts = np.empty_like(values), np.empty_like(counts)
    is_mixed = np.zeros(cells, dtype=np.bool_)
    for row in range(len(slots)):
        cell = (panes[row] - first) * width + slots[row]
        at = begins[cell]
        own_values[at], own_counts[at] = values[row], counts[row]
        if at > place[cell] and own_values[at - 1] >= values[row]:
            is_mixed[cell] = True
        begins[cell] = at + 1
    out_slots, out_panes = np.empty_like(slots), np.empty_like(panes)
    size = 0
    for cell in range(cells):
        begin, end = place[cell], place[cell + 1]
        if is_mixed[cell]:
            order = np.argsort(own_values[begin:end])
            mixed_values, mixed_counts = own_values[begin:end].copy(), own_counts[begin:end].copy()
            for row in range(end - begin):
                own_values[begin + row] = mixed_values[order[row]]
                own_counts[begin + row] = mixed_counts[order[row]]
        start = size
        for row in range(begin, end):
            if size > start and own_values[size - 1] == own_values[row]:
                own_counts[size - 1] += own_counts[row]
            else:
                own_values[size], own_counts[size] = own_values[row], own_counts[row]
                out_slots[size], out_panes[size] = cell % width, first + cell // width
                size += 1
    return out_slots[:size], out_panes[:size], own_values[:size], own_counts[:size]


@kernel
def most_frequent(
    offsets: Ints, values: Ints, counts: Ints, out_offsets: Ints, out_values: Ints, out_counts: Ints
) -> None:
    """The most frequent values of each slot, as many as there is room for; values ascend."""
    for i in range(len(offsets) - 1):
        begin, end = out_offsets[i], out_offsets[i]
        for entry in range(offsets[i], offsets[i + 1]):
            value, count = values[entry], counts[entry]
            if end < out_offsets[i + 1]:
                end += 1
            elif count <= out_counts[end - 1]:
                continue
            at = end - 1
            while at > begin and out_counts[at - 1] < count:
                out_values[at], out_counts[at] = out_values[at - 1], out_counts[at - 1]
                at -= 1
            out_values[at], out_counts[at] = value, count


@dataclass(frozen=True, slots=True)
class Tallies:
    """The different values of a window with their counts: slots[i] has those from offsets[i] on."""

    slots: Ints
    offsets: Ints
    values: Ints
    counts: Ints

    @property
    def distinct(self) -> Ints:
        """How many different values each slot has."""
        return np.diff(self.offsets)

    @property
    def totals(self) -> Ints:
        """How many values each slot has."""
        sums = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(self.counts)])
        return np.diff(sums[self.offsets])

    def top(self, k: int) -> Tallies:
        """The k most frequent values of each slot, the most frequent first, equal counts by value."""
        offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.minimum(self.distinct, k))])
        if k <= FEW:
            values, counts = (np.empty(offsets[-1], dtype=np.int64) for _ in range(2))
            most_frequent(self.offsets, self.values, self.counts, offsets, values, counts)
            return Tallies(self.slots, offsets, values, counts)
        owners = np.repeat(np.arange(len(self.slots)), self.distinct)
        order = np.lexsort((self.values, -self.counts, owners))
        rank = np.arange(len(order)) - np.repeat(self.offsets[:-1], self.distinct)
        kept = order[rank < k]
        return Tallies(self.slots, offsets, self.values[kept], self.counts[kept])

    def take(self, places: Ints) -> Tallies:
        """Those of some slots, by their places."""
        lengths = self.distinct[places]
        offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
        rows = np.repeat(self.offsets[places] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return Tallies(self.slots[places], offsets, self.values[rows], self.counts[rows])

    @staticmethod
    def concatenated(parts: Sequence[Tallies]) -> Tallies:
        """Those of several windows, one after the other."""
        if len(parts) == 1:
            return parts[0]
        lengths = np.concatenate([part.distinct for part in parts])
        return Tallies(
            np.concatenate([part.slots for part in parts]),
            np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)]),
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.counts for part in parts]),
        )

    def variances(self, *, is_double: bool) -> npt.NDArray[np.float64]:
        """Per slot the variance of a sample and that of a population; 0 for less than two values."""
        owners = np.repeat(np.arange(len(self.slots)), self.distinct)
        values = ordinal_to_double(self.values).view(np.int64) if is_double else self.values
        marks = np.full(len(values), -1, dtype=np.int64)
        filled = np.flatnonzero(self.distinct)
        marks[self.offsets[1:][filled] - 1] = np.arange(len(filled))
        moments = Moments(is_double=is_double)
        nobody = np.zeros(0, dtype=np.int64)
        events = Events(owners, self.counts, marks, owners, nobody, len(filled), len(self.slots))
        moments.follow(events, Given(self.counts, values, self.values, self.values))
        found = np.zeros((len(self.slots), 2))
        found[filled] = moments.samples
        return found


@kernel
def append(
    slots: Ints,
    values: Ints,
    upto: Ints,
    begins: Ints,
    ends: Ints,
    written: Ints,
    capacity: int,
    span: int,
    new_slots: Ints,
    new_panes: Ints,
    new_values: Ints,
    new_counts: Ints,
    start: int,
    first: int,
    through: int,
) -> int:
    """Add the panes first … through; the rings have room."""
    ring = slots.shape[1] - 1
    for pane in range(first, through + 1):
        row = row_of(pane, 0, capacity)
        at = written[0]
        begins[row] = at
        total = 0
        while start < len(new_slots) and new_panes[start] == pane:
            total += new_counts[start]
            slots[0, at & ring] = new_slots[start]
            values[0, at & ring] = new_values[start]
            upto[0, at & ring] = total
            at += 1
            start += 1
        ends[row] = written[0] = at
        level = 1
        while (1 << level) <= span and ((pane + 1) & ((1 << level) - 1)) == 0:
            begin = pane + 1 - (1 << level)
            left = row_of(begin, level - 1, capacity)
            right = row_of(begin + (1 << (level - 1)), level - 1, capacity)
            row = row_of(begin, level, capacity)
            at = written[level]
            begins[row] = at
            a, b, total, before_a, before_b = begins[left], begins[right], 0, 0, 0
            below = level - 1
            while a < ends[left] or b < ends[right]:
                order = 0
                if a >= ends[left]:
                    order = 1
                elif b >= ends[right]:
                    order = -1
                else:
                    sa, sb = slots[below, a & ring], slots[below, b & ring]
                    va, vb = values[below, a & ring], values[below, b & ring]
                    if sa < sb or (sa == sb and va < vb):
                        order = -1
                    elif sa > sb or va > vb:
                        order = 1
                if order <= 0:
                    slots[level, at & ring] = slots[below, a & ring]
                    values[level, at & ring] = values[below, a & ring]
                    total += upto[below, a & ring] - before_a
                    before_a = upto[below, a & ring]
                    a += 1
                if order >= 0:
                    slots[level, at & ring] = slots[below, b & ring]
                    values[level, at & ring] = values[below, b & ring]
                    total += upto[below, b & ring] - before_b
                    before_b = upto[below, b & ring]
                    b += 1
                upto[level, at & ring] = total
                at += 1
            ends[row] = written[level] = at
            level += 1
    return start


@kernel
def level_of(row: int, capacity: int) -> int:
    """The level to which a row belongs."""
    level = 0
    while row >= 2 * capacity - (2 * capacity >> (level + 1)):
        level += 1
    return level


@kernel
def _first_slot(slots: Ints, level: int, begin: int, end: int, slot: int) -> int:
    """The first entry of a run whose slot is not less."""
    ring = slots.shape[1] - 1
    while begin < end:
        middle = (begin + end) >> 1
        if slots[level, middle & ring] < slot:
            begin = middle + 1
        else:
            end = middle
    return begin


@kernel
def _first_value(values: Ints, level: int, begin: int, end: int, value: int, is_after: bool) -> int:
    """The first entry of a sorted run that is not less than `value`, or with `is_after` greater."""
    ring = values.shape[1] - 1
    while begin < end:
        middle = (begin + end) >> 1
        other = values[level, middle & ring]
        if other < value or (is_after and other == value):
            begin = middle + 1
        else:
            end = middle
    return begin


@kernel
def _count_to(upto: Ints, run: Ints, end: int) -> int:
    """How many values a run has before entry `end`."""
    ring = upto.shape[1] - 1
    return 0 if end == run[1] else upto[run[0], (end - 1) & ring] - run[5]


@kernel
def enter_runs(
    slots: Ints,
    upto: Ints,
    begins: Ints,
    ends: Ints,
    rows: Ints,
    count: int,
    capacity: int,
    slot: int,
    runs: Ints,
) -> tuple[int, int]:
    """Find a slot's part of each of `rows`; gives how many have one, and how many values there are.

    A run is its level, where it begins and ends, the part of it that is still looked at, what is before it.
    """
    ring = slots.shape[1] - 1
    found, total = 0, 0
    for r in range(count):
        row = rows[r]
        level = level_of(row, capacity)
        begin = _first_slot(slots, level, begins[row], ends[row], slot)
        end = _first_slot(slots, level, begin, ends[row], slot + 1)
        if begin < end:
            before = 0 if begin == begins[row] else upto[level, (begin - 1) & ring]
            run = runs[found]
            run[0], run[1], run[2], run[3], run[4], run[5] = level, begin, end, begin, end, before
            total += _count_to(upto, run, end)
            found += 1
    return found, total


@kernel
def select(values: Ints, upto: Ints, runs: Ints, count: int, rank: int) -> int:
    """The value with `rank` values up to it, itself among them; the runs have as many."""
    ring = values.shape[1] - 1
    while True:
        widest = 0
        for r in range(1, count):
            if runs[r, 4] - runs[r, 3] > runs[widest, 4] - runs[widest, 3]:
                widest = r
        middle = (runs[widest, 3] + runs[widest, 4]) >> 1
        pivot = values[runs[widest, 0], middle & ring]
        less, through = 0, 0
        for r in range(count):
            run = runs[r]
            at = _first_value(values, run[0], run[3], run[4], pivot, False)
            less += _count_to(upto, run, at)
            through += _count_to(upto, run, _first_value(values, run[0], at, run[4], pivot, True))
        if less < rank <= through:
            return int(pivot)
        for r in range(count):
            run = runs[r]
            if rank <= less:
                run[4] = _first_value(values, run[0], run[3], run[4], pivot, False)
            else:
                run[3] = _first_value(values, run[0], run[3], run[4], pivot, True)


@kernel
def quantiles(
    slots: Ints,
    values: Ints,
    upto: Ints,
    begins: Ints,
    ends: Ints,
    capacity: int,
    rows: Ints,
    count: int,
    asked: Ints,
    parts: Ints,
    wholes: Ints,
    out: Ints,
    totals: Ints,
) -> None:
    runs = np.empty((count, 6), dtype=np.int64)
    for i in range(len(asked)):
        found, total = enter_runs(slots, upto, begins, ends, rows, count, capacity, asked[i], runs)
        totals[i] = total
        if total == 0:
            continue
        for q in range(len(parts)):
            part, whole = parts[q], wholes[q]
            # ⌈total · part / whole⌉, without a product that overflows.
            rank = (total // whole) * part + ((total % whole) * part + whole - 1) // whole
            for r in range(found):
                runs[r, 3], runs[r, 4] = runs[r, 1], runs[r, 2]
            out[i, q] = select(values, upto, runs, found, max(rank, 1))


class BIntQnt(Spanned):
    def __init__(self, span: int) -> None:
        super().__init__(span)
        self.capacity = power_of_two(span)
        self.slots = 0
        self._clear()

    def _clear(self) -> None:
        levels = self.span.bit_length()
        self.entry_slots = np.zeros((levels, 1), dtype=np.int64)
        self.values = np.zeros((levels, 1), dtype=np.int64)
        self.upto = np.zeros((levels, 1), dtype=np.int64)
        self.begins = np.zeros(2 * self.capacity - 1, dtype=np.int64)
        self.ends = np.zeros(2 * self.capacity - 1, dtype=np.int64)
        self.written = np.zeros(levels, dtype=np.int64)

    def update(self, rows: ValueRows, through: int) -> None:
        """Take rows of sealed panes, none before the newest pane; now all is known `through`."""
        self.begins_before(int(rows.panes[0]) if len(rows.panes) else through + 1)
        self.slots = max(self.slots, int(rows.slots.max(initial=-1)) + 1)
        first = max(self.newest + 1, through - self.span + 1)
        # Not more than a window at a time, so that the rings need not hold all of a long batch.
        while first <= through:
            last = min(through, first + self.span - 1)
            part = rows.between(first, last)
            self._make_room(first, len(part.values))
            self._add(part, first, last)
            first = last + 1

    def _add(self, rows: ValueRows, first: int, last: int) -> None:
        """Add the panes first … last, whose rows they are; the rings have room."""
        append(
            self.entry_slots,
            self.values,
            self.upto,
            self.begins,
            self.ends,
            self.written,
            self.capacity,
            self.span,
            rows.slots,
            rows.panes,
            rows.values,
            rows.counts,
            0,
            first,
            last,
        )
        self.newest = last

    def _make_room(self, first: int, more: int) -> None:
        """Rings large enough for the live entries of panes, and no level has more of them than the lowest."""
        assert self.begin is not None
        oldest = max(self.begin, first - 1 - self.span) + 1
        live = 0
        if oldest <= self.newest:
            live = int(self.written[0] - self.begins[row_of(oldest, 0, self.capacity)])
        old = self.values.shape[1]
        if live + more > old:
            size = power_of_two(live + more)
            for name in ("entry_slots", "values", "upto"):
                ring = getattr(self, name)
                wide = np.zeros((len(ring), size), dtype=np.int64)
                for level, end in enumerate(self.written.tolist()):
                    places = np.arange(max(0, end - old), end)
                    wide[level, places & (size - 1)] = ring[level, places & (old - 1)]
                setattr(self, name, wide)

    def _rows(self, left: int, right: int) -> Ints:
        rows = np.empty(most_rows(self.capacity), dtype=np.int64)
        return rows[: decompose(self.held_after(left, right), right, self.capacity, rows)]

    def quantiles(
        self, left: int, right: int, fractions: Sequence[Fraction], slots: Ints | None = None
    ) -> tuple[Ints, Ints]:
        """Per slot and fraction p the ⌈p·n⌉-th least value of the window (any, if n is 0); per slot n."""
        rows = self._rows(left, right)
        asked = np.arange(self.slots) if slots is None else slots
        plain = [fraction.limit_denominator(LARGEST_DENOMINATOR) for fraction in fractions]
        found = np.zeros((len(asked), len(plain)), dtype=np.int64)
        totals = np.zeros(len(asked), dtype=np.int64)
        quantiles(
            self.entry_slots,
            self.values,
            self.upto,
            self.begins,
            self.ends,
            self.capacity,
            rows,
            len(rows),
            asked,
            np.array([fraction.numerator for fraction in plain], dtype=np.int64),
            np.array([fraction.denominator for fraction in plain], dtype=np.int64),
            found,
            totals,
        )
        return found, totals

    def tallies(self, left: int, right: int, slots: Ints | None = None) -> Tallies:
        """The different values of the window with their counts, per slot in order of value."""
        asked = np.arange(self.slots) if slots is None else slots
        parts = [self._entries(row) for row in self._rows(left, right).tolist()]
        none = np.zeros(0, dtype=np.int64)
        owners, values, counts = (np.concatenate([none, *(part[k] for part in parts)]) for k in range(3))
        if slots is not None:
            place = np.full(max(self.slots, int(slots.max(initial=-1)) + 1), -1, dtype=np.int64)
            place[slots] = np.arange(len(slots))
            owners = place[owners]
            wanted = owners >= 0
            owners, values, counts = owners[wanted], values[wanted], counts[wanted]
        merged = ValueRows.of(owners, np.zeros(len(owners), dtype=np.int64), values, counts)
        offsets = np.searchsorted(merged.slots, np.arange(len(asked) + 1))
        return Tallies(asked, offsets, merged.values, merged.counts)

    def _entries(self, row: int) -> tuple[Ints, Ints, Ints]:
        level = level_of(row, self.capacity)
        places = np.arange(self.begins[row], self.ends[row]) & (self.values.shape[1] - 1)
        counts = np.diff(self.upto[level, places], prepend=0)
        return self.entry_slots[level, places], self.values[level, places], counts

    def elements(self) -> ValueRows:
        """Everything that is held, pane by pane."""
        none = np.zeros(0, dtype=np.int64)
        parts = [(none, none, none, none)]
        for pane in range(self.oldest + 1, self.newest + 1):
            slots, values, counts = self._entries(row_of(pane, 0, self.capacity))
            parts.append((slots, np.full(len(slots), pane, dtype=np.int64), values, counts))
        columns = [np.concatenate([part[k] for part in parts]) for k in range(4)]
        return ValueRows(*columns)

    def snapshot(self) -> State:
        rows = self.elements()
        about = {"oldest": [self.oldest], "newest": [self.newest], "slots": [self.slots]}
        columns = {"slot": rows.slots, "pane": rows.panes, "value": rows.values, "count": rows.counts}
        return {"rows": pa.table(columns), "about": pa.table({**about, "begun": [self.begin is not None]})}

    def restore(self, state: State) -> None:
        """Take up a state; only for a synopsis that has been given nothing."""
        about = {name: values[0] for name, values in state["about"].to_pydict().items()}
        if about["begun"]:
            self.begin = self.newest = about["oldest"]
            self.slots = about["slots"]
            names = ("slot", "pane", "value", "count")
            columns = (state["rows"].column(name).to_numpy() for name in names)
            self.update(ValueRows(*columns), about["newest"])

    def renumber(self, slots: Ints) -> None:
        """Slot slots[i] is now slot i, in the same order; the others are gone."""
        rows = self.elements()
        place = np.full(self.slots, -1, dtype=np.int64)
        place[slots] = np.arange(len(slots))
        kept = place[rows.slots] >= 0
        rows = ValueRows.of(place[rows.slots[kept]], rows.panes[kept], rows.values[kept], rows.counts[kept])
        newest = self.newest
        self._clear()
        if self.begin is not None:
            self.begin = self.newest = max(self.begin, newest - self.span)
            self.update(rows, newest)
        self.slots = len(slots)

    def recode(self, codes: Ints) -> None:
        """Words have new codes, in the same order."""
        ring = self.values.shape[1]
        for level, end in enumerate(self.written.tolist()):
            places = np.arange(max(0, end - ring), end) & (ring - 1)
            # What is no longer live may hold codes that are gone.
            old = self.values[level, places]
            self.values[level, places] = codes[np.clip(old, 0, len(codes) - 1)]

    @property
    def nbytes(self) -> int:
        tables = (self.entry_slots, self.values, self.upto, self.begins, self.ends, self.written)
        return sum(table.nbytes for table in tables)
