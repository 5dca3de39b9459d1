"""How often each value of an argument occurs in a group: what answers aggregates that need the values.

The values of an argument are one more grouping, by (keys …, argument), which the pre-aggregation counts in
panes. Here they are kept under the groups of the synopsis whose queries ask for them: a log of sealed panes,
and for each window length the values of the window, in order, with their counts. When a window moves, what
enters and what leaves is sorted and merged into that; nothing is counted again.

Values are integers in the order of the values they stand for (see state/ordering); NULLs are left out. For
approximate aggregates a complete pane keeps only some of them (`thinning.py`).

Needs: nothing of the aggregate; values that can be ordered. Time: moving a window costs a sort of the rows
that enter and leave and one pass over the different values of the window, a few nanoseconds each; answering
costs time in the values of the groups that are asked for. Space: 40 bytes per different value of a pane and
group, 24 per different value of a window and group.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.lang.indexing import IndexSpec
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
from sash.synopses.indexed_values import IndexedWindow
from sash.synopses.thinning import thinned

Ints = npt.NDArray[np.int64]

# A row of the log has a count and a value.
_LAYOUT = Layout((), (), (), (kernels.ADD, kernels.MAX), 0)
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


class ValueWindow:
    """The values of a window of one length, by slot and value. It holds the log's rows left … right."""

    def __init__(self, counts: ValueCounts, range_: int) -> None:
        self._all = counts
        self.range = range_
        self._clear(counts.log.base)

    def _clear(self, position: int) -> None:
        self.left = self.right = position
        self.slots, self.values, self.counts = (np.zeros(0, dtype=np.int64) for _ in range(3))

    def advance(self, boundary: int) -> None:
        """Make the window that of `boundary`, which is on an edge and not before the last one."""
        log, panes = self._all.log, self._all.spec.panes
        left = log.position_after(panes.number_at(boundary - self.range))
        right = log.position_after(panes.number_at(boundary))
        if left >= self.right or self.left < log.base:
            self._clear(left)
        going, coming = (
            slice(self.left - log.base, left - log.base),
            slice(self.right - log.base, right - log.base),
        )
        self.left, self.right = left, right
        slots = np.concatenate([log.slots[going], log.slots[coming]])
        if len(slots):
            values = np.concatenate([log.ints[going, 1], log.ints[coming, 1]])
            counts = np.concatenate([-log.ints[going, 0], log.ints[coming, 0]])
            self._add(ValueRows.of(slots, np.zeros(len(slots), dtype=np.int64), values, counts))

    def _add(self, rows: ValueRows) -> None:
        size = len(self.slots) + len(rows.slots)
        out = tuple(np.empty(size, dtype=np.int64) for _ in range(3))
        held = self.slots, self.values, self.counts
        size = _merge(*held, rows.slots, rows.values, rows.counts, *out)
        self.slots, self.values, self.counts = (column[:size] for column in out)

    def tallies(self, slots: Ints) -> Tallies:
        """The values of some slots, which ascend."""
        begins, ends = (np.searchsorted(self.slots, slots, side=side) for side in ("left", "right"))
        lengths = ends - begins
        offsets = np.zeros(len(slots) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        places = np.repeat(begins - offsets[:-1], lengths) + np.arange(offsets[-1])
        return Tallies(slots, offsets, self.values[places], self.counts[places])

    def recode(self, codes: Ints) -> None:
        """Words have other codes, in the same order."""
        self.values = codes[self.values]

    def renumber(self, place: Ints) -> None:
        """Slot s is now place[s], in the same order."""
        if self.left < self._all.log.base:
            self._clear(self._all.log.base)
        self.slots = place[self.slots]

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
        self.windows: dict[tuple[int, int], ValueWindow | IndexedWindow] = {}
        self._index: IndexSpec | None = None
        self._words = Words()
        self._open: list[ValueRows] = []
        self._sealed = _none()

    def window(self, key: tuple[int, int]) -> ValueWindow | IndexedWindow:
        """The window of a length and of who moves it on, made on first use."""
        if key not in self.windows:
            index = self._index
            made = ValueWindow(self, key[0]) if index is None else IndexedWindow(self, key[0], index)
            self.windows[key] = made
        return self.windows[key]

    def answer_from(self, index: IndexSpec | None) -> None:
        """Keep the values of windows in an index, if there are no groups; None: as one sorted run."""
        if index != self._index:
            self._index = index
            # Windows are made anew when they are next asked for, from what the log has.
            self.windows = {}

    # ---------------------------------------------------------------- panes

    def absorb(self, partial: Partial, groups: GroupTable) -> None:
        """Take in what a chunk counts; `groups` are those of the synopsis."""
        *keys, given = partial.keys
        values, words = to_ordinal(given, Type.BIGINT if self.spec.is_hashed else self.argument.type)
        if words is not None:
            values = self._learn(words)[values] if len(words) else values
        rows = partial.groups[np.asarray(given.is_valid())[partial.groups]]
        present = np.asarray(given.is_valid())[partial.groups]
        slots = groups.encode(keys)[rows] if keys else np.zeros(len(rows), dtype=np.int64)
        counts = partial.ints[present, 0]
        self._open.append(ValueRows(slots, partial.panes[present], values[rows], counts))

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
        for window in self.windows.values():
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
        # A window that nobody moves on would begin anew.
        self.windows = {key: window for key, window in self.windows.items() if window.left >= self.log.base}
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
        for window in self.windows.values():
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
        windows = sum(window.nbytes for window in self.windows.values())
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
