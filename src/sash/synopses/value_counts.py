"""How often each value of an argument occurs in a group: what answers aggregates that need the values.

The values of an argument are one more grouping, by (keys …, argument), which the pre-aggregation counts in
panes. Here they are kept under the groups of the synopsis whose queries ask for them: a log of sealed panes,
and for each window the values in it, in order, with their counts. When a window moves, what enters and leaves
is added to that in one pass, and only what is new is merged into it; nothing is counted again. A window can
follow just the groups that somebody wants to see.

Values are integers in the order of the values they stand for (see state/ordering); NULLs are left out. For
approximate aggregates a complete pane keeps only some of them (`thinning.py`).

Needs: nothing of the aggregate; values that can be ordered. Time: moving a window costs one pass over the
rows that enter and leave and the different values of their groups, a nanosecond or two each; answering costs
time in the values of the groups that are asked for. Space: 40 bytes per different value of a pane and
group, 24 per different value of a window and group.
"""

from __future__ import annotations

import weakref

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.lang.types import Type
from sash.operators.aggregates.values import column_array
from sash.operators.evaluate import ARROW_TYPES
from sash.operators.preaggregate import Partial
from sash.plan.periodic import SynopsisSpec
from sash.plan.sketches import SketchKind
from sash.state import kernels
from sash.state.groups import GroupTable
from sash.state.jit import kernel
from sash.state.layout import Layout
from sash.state.ordering import Words, ordinal_to_double, to_ordinal
from sash.state.panelog import PaneLog
from sash.synopses.b_int_qnt import Tallies, ValueRows
from sash.synopses.thinning import thinned

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# A row of the log has a count and a value.
_LAYOUT = Layout((), (), (), (kernels.ADD, kernels.MAX), 0)
# So many slots are followed on when they do not matter.
_FEW_SLOTS = 64
# Words that nothing refers to any more are dropped once they are the greater part of so many.
_LEAST_TO_COMPACT = 1024


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
    log_slots: Ints,
    log_panes: Ints,
    log_ints: Ints,
    start: int,
    stop: int,
    sign: int,
    followed: Bools,
    slots: Ints,
    values: Ints,
    counts: Ints,
    missing: Ints,
) -> int:
    """Add rows of a log, in order within each pane, to values that are held; gives how many are not.

    `missing` has those rows then. Only slots that are `followed` count; if it is empty, all do.
    """
    size, at = 0, 0
    for row in range(start, stop):
        slot, value = log_slots[row], log_ints[row, 1]
        if len(followed) and not followed[slot]:
            continue
        if row == start or log_panes[row] != log_panes[row - 1]:
            at = 0
        if at < len(slots) and slots[at] < slot:
            low, high = at, len(slots)
            while low < high:
                middle = (low + high) >> 1
                if slots[middle] < slot:
                    low = middle + 1
                else:
                    high = middle
            at = low
        while at < len(slots) and slots[at] == slot and values[at] < value:
            at += 1
        if at < len(slots) and slots[at] == slot and values[at] == value:
            counts[at] += sign * log_ints[row, 0]
        else:
            missing[size] = row
            size += 1
    return size


@kernel
def _rows_of(slots: Ints, heads: Ints, previous: Ints, base: int, left: int, right: int, rows: Ints) -> int:
    """The rows of some slots at positions left … right of a log; gives how many."""
    size = 0
    for slot in slots:
        position = heads[slot]
        while position >= left:
            if position < right:
                rows[size] = position - base
                size += 1
            position = previous[position - base]
    return size


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


class ValueWindow:
    """The values of a window of one length, by slot and value. It holds the log's rows left … right.

    It may follow some slots only. Entries whose count is 0 are let go with the next that come.
    """

    def __init__(self, counts: ValueCounts, range_: int) -> None:
        self._all = counts
        self.range = range_
        self._followed: Bools | None = None
        self._clear(counts.log.base)
        counts.windows.add(self)

    def _clear(self, position: int) -> None:
        self.left = self.right = position
        self.slots, self.values, self.counts = (np.zeros(0, dtype=np.int64) for _ in range(3))

    def follow(self, slots: Ints) -> None:
        """From now on only some slots matter: these, and others that mattered lately."""
        log = self._all.log
        known = np.zeros(0, dtype=np.bool_) if self._followed is None else self._followed
        followed = np.zeros(max(len(log.heads), len(known)), dtype=np.bool_)
        followed[: len(known)] = known
        new = slots[~followed[slots]]
        if np.count_nonzero(followed) > 2 * len(slots) + _FEW_SLOTS:
            followed[:] = False
            followed[slots] = True
            self._let_go(followed[self.slots])
        followed[slots] = True
        if self._followed is None or self.left < log.base:
            self._clear(log.base)
        elif len(new) and self.left < self.right:
            rows = np.empty(self.right - self.left, dtype=np.int64)
            size = _rows_of(new, log.heads, log.previous, log.base, self.left, self.right, rows)
            self._add(rows[:size], 1)
        self._followed = followed

    def advance(self, boundary: int) -> None:
        """Make the window that of `boundary`, which is on an edge and not before the last one."""
        log, panes = self._all.log, self._all.spec.panes
        left = log.position_after(panes.number_at(boundary - self.range))
        right = log.position_after(panes.number_at(boundary))
        if left >= self.right or self.left < log.base:
            self._clear(left)
        self._pass(self.right - log.base, right - log.base, 1)
        self._pass(self.left - log.base, left - log.base, -1)
        self.left, self.right = left, right

    def _pass(self, start: int, stop: int, sign: int) -> None:
        """Rows of the log come, or they go."""
        if start == stop:
            return
        log = self._all.log
        followed = np.zeros(0, dtype=np.bool_) if self._followed is None else self._followed
        missing = np.empty(stop - start, dtype=np.int64)
        held = self.slots, self.values, self.counts
        size = _apply(log.slots, log.panes, log.ints, start, stop, sign, followed, *held, missing)
        if size:
            self._add(missing[:size], sign)

    def _add(self, rows: Ints, sign: int) -> None:
        log = self._all.log
        nowhen = np.zeros(len(rows), dtype=np.int64)
        more = ValueRows.of(log.slots[rows], nowhen, log.ints[rows, 1], sign * log.ints[rows, 0])
        size = len(self.slots) + len(more.slots)
        out = tuple(np.empty(size, dtype=np.int64) for _ in range(3))
        held = self.slots, self.values, self.counts
        size = _merge(*held, more.slots, more.values, more.counts, *out)
        self.slots, self.values, self.counts = (column[:size] for column in out)

    def _let_go(self, kept: Bools) -> None:
        self.slots, self.values, self.counts = self.slots[kept], self.values[kept], self.counts[kept]

    def _bounds(self, slots: Ints) -> tuple[Ints, Ints]:
        return np.searchsorted(self.slots, slots, side="left"), np.searchsorted(self.slots, slots, "right")

    def tallies(self, slots: Ints) -> Tallies:
        """The values of some slots, which ascend."""
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

    def quantiles(self, slots: Ints, part: int, whole: int) -> tuple[Ints, Ints]:
        """Of some slots, which ascend, the value at rank ⌈n·part/whole⌉, and n."""
        begins, ends = self._bounds(slots)
        totals = _totals(begins, ends, self.counts)
        # A rank is found without a product that overflows.
        ranks = (totals // whole) * part + ((totals % whole) * part + whole - 1) // whole
        return _at_ranks(begins, self.values, self.counts, ranks), totals

    def renumber(self, place: Ints) -> None:
        """Slot s is now place[s], in the same order; those that are gone have −1."""
        self._let_go((self.counts != 0) & (place[self.slots] >= 0))
        self.slots = place[self.slots]
        if self._followed is not None:
            known = np.flatnonzero(self._followed[: len(place)])
            self._followed = np.zeros(len(self._all.log.heads), dtype=np.bool_)
            self._followed[place[known[place[known] >= 0]]] = True

    def recode(self, codes: Ints) -> None:
        """Words have other codes, in the same order."""
        self._let_go(self.counts != 0)
        self.values = codes[self.values]

    @property
    def nbytes(self) -> int:
        return self.slots.nbytes + self.values.nbytes + self.counts.nbytes


class ValueCounts:
    """The values of one argument. Slots are those of the synopsis that they belong to."""

    def __init__(self, spec: SynopsisSpec, kind: SketchKind | None = None) -> None:
        """`kind`: what a pane keeps; None: everything."""
        self.spec = spec
        self.argument = spec.keys[-1]
        self._kind = kind
        self.log = PaneLog(_LAYOUT)
        # Those of who answers; they go with them.
        self.windows: weakref.WeakSet[ValueWindow] = weakref.WeakSet()
        self._words = Words()
        self._open: list[ValueRows] = []
        self._sealed = _none()

    # ---------------------------------------------------------------- panes

    def absorb(self, partial: Partial, groups: GroupTable) -> None:
        """Take in what a chunk counts; `groups` are those of the synopsis."""
        *keys, given = partial.keys
        values, words = to_ordinal(given, Type.BIGINT if self.spec.is_hashed else self.argument.type)
        if words is not None:
            values = self._learn(words)[values] if len(words) else values
        assert partial.values is not None
        slots = groups.encode(keys) if keys else np.zeros(1, dtype=np.int64)
        owners, places, panes, counts = partial.groups, partial.values, partial.panes, partial.ints[:, 0]
        if not keys:
            owners = np.zeros(len(places), dtype=np.int64)
        if given.null_count:
            present = np.asarray(given.is_valid())[places]
            owners, places = owners[present], places[present]
            panes, counts = panes[present], counts[present]
        self._open.append(ValueRows(slots[owners], panes, values[places], counts))

    def _learn(self, words: pa.Array) -> Ints:
        """The codes of words, which become known."""
        words = words.filter(words.is_valid())
        moved = self._words.insert(words)
        if moved is not None:
            self._recode(moved)
        return self._words.codes(words)

    def _recode(self, codes: Ints) -> None:
        """Words have other codes, in the same order."""
        self._open = [_with_values(rows, codes[rows.values]) for rows in self._open]
        self._sealed = _with_values(self._sealed, codes[self._sealed.values])
        logged = self.log.ints[: self.log.end - self.log.base]
        logged[:, 1] = codes[logged[:, 1]]
        for window in self.windows:
            window.recode(codes)

    def seal(self, pane: int) -> None:
        """Nothing more comes for panes up to `pane`."""
        if not self._open:
            return
        rows = _concatenated(self._open)
        closed = rows.panes <= pane
        if closed.any():
            merged = ValueRows.of(*_where(rows, closed))
            if self._kind is not None:
                merged = thinned(self._kind, merged)
            self._sealed = _concatenated([self._sealed, merged])
            rows = ValueRows(*_where(rows, ~closed))
        self._open = [rows] if len(rows.panes) else []

    def move_to(self, pane: int, slots: int) -> None:
        """Let the log have every sealed pane up to `pane`; there are so many slots."""
        count = int(np.searchsorted(self._sealed.panes, pane, side="right"))
        self.log.reserve_slots(slots)
        if count:
            head = self._sealed.between(int(self._sealed.panes[0]), pane)
            self._sealed = self._sealed.between(pane + 1, int(self._sealed.panes[-1]))
            ints = np.stack([head.counts, head.values], axis=1)
            self.log.append(head.slots, head.panes, ints, np.zeros((count, 0)))

    def trim(self, pane: int | None) -> None:
        """Forget panes before `pane`; None: all that are in the log."""
        position = self.log.end if pane is None else self.log.position_after(pane - 1)
        self.log.trim(position)
        if len(self._words.values) >= _LEAST_TO_COMPACT:
            self._forget_words()

    def _forget_words(self) -> None:
        used = np.zeros(len(self._words.values), dtype=np.bool_)
        logged = self.log.ints[: self.log.end - self.log.base, 1]
        for values in (logged, self._sealed.values, *(rows.values for rows in self._open)):
            used[values] = True
        if 2 * np.count_nonzero(used) < len(used):
            self._recode(self._words.keep(np.flatnonzero(used)))

    def renumber(self, place: Ints, slots: int) -> None:
        """Slot s is now place[s], in the same order; there are `slots` slots."""
        self._open = [
            ValueRows(place[rows.slots], rows.panes, rows.values, rows.counts) for rows in self._open
        ]
        sealed = self._sealed
        self._sealed = ValueRows(place[sealed.slots], sealed.panes, sealed.values, sealed.counts)
        self.log.renumber(place, slots)
        for window in self.windows:
            window.renumber(place)

    # ---------------------------------------------------------------- values

    def decode(self, ordinals: Ints) -> pa.Array:
        """Values from the integers that stand for them."""
        match ARROW_TYPES[self.argument.type]:
            case type_ if pa.types.is_string(type_):
                return self._words.values.take(pa.array(ordinals))
            case type_ if pa.types.is_floating(type_):
                return pa.array(ordinal_to_double(ordinals))
            case type_:
                return column_array(ordinals, None, type_)

    @property
    def live_rows(self) -> int:
        waiting = sum(len(rows.panes) for rows in (self._sealed, *self._open))
        return self.log.end - self.log.base + waiting

    @property
    def nbytes(self) -> int:
        waiting = sum(4 * rows.panes.nbytes for rows in (self._sealed, *self._open))
        windows = sum(window.nbytes for window in self.windows)
        return self.log.nbytes + waiting + windows + int(self._words.values.nbytes)


def _none() -> ValueRows:
    return ValueRows(*(np.zeros(0, dtype=np.int64) for _ in range(4)))


def _with_values(rows: ValueRows, values: Ints) -> ValueRows:
    return ValueRows(rows.slots, rows.panes, values, rows.counts)


def _where(rows: ValueRows, kept: npt.NDArray[np.bool_]) -> tuple[Ints, Ints, Ints, Ints]:
    return rows.slots[kept], rows.panes[kept], rows.values[kept], rows.counts[kept]


def _concatenated(parts: list[ValueRows]) -> ValueRows:
    columns = ("slots", "panes", "values", "counts")
    return ValueRows(*(np.concatenate([getattr(part, name) for part in parts]) for name in columns))
