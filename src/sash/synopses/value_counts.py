"""How often each value of an argument occurs in a group: what answers aggregates that need the values.

The values of an argument are one more grouping, by (keys …, argument), which the pre-aggregation counts in
panes. Here they are kept under the groups of the synopsis whose queries ask for them: a log of sealed panes,
and for each window the values in it, with their counts (`value_window.py`). When a window moves, what enters
and leaves is added; nothing is counted again. A window can follow just the groups that somebody wants to see.

Values are integers in the order of the values they stand for (see state/ordering); NULLs are left out. For
approximate aggregates a complete pane keeps only some of them (`thinning.py`).

Needs: nothing of the aggregate; values that can be ordered. Time: moving a window costs about a nanosecond
per row that enters or leaves where the values are few, else one pass over the values of the groups concerned;
answering costs time in the values of the groups that are asked for. Space: 40 bytes per different value of a
pane and group; per window 8 for each counter, or 24 per different value and group.
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
from sash.plan.panes import Panes
from sash.plan.periodic import SynopsisSpec
from sash.plan.sketches import SketchKind
from sash.state import kernels
from sash.state.groups import GroupTable
from sash.state.layout import Layout
from sash.state.ordering import Words, ordinal_to_double, to_ordinal
from sash.state.panelog import PaneLog
from sash.synopses.b_int_qnt import ValueRows
from sash.synopses.indexed_values import IndexedWindow
from sash.synopses.thinning import thinned
from sash.synopses.value_window import ValueWindow

Ints = npt.NDArray[np.int64]

# A row of the log has a count and a value.
_LAYOUT = Layout((), (), (), (kernels.ADD, kernels.MAX), 0)
# Words that nothing refers to any more are dropped once they are the greater part of so many.
_LEAST_TO_COMPACT = 1024


class ValueCounts:
    """The values of one argument. Slots are those of the synopsis that they belong to."""

    def __init__(self, spec: SynopsisSpec, kind: SketchKind | None = None) -> None:
        """`kind`: what a pane keeps; None: everything."""
        self.spec = spec
        self.argument = spec.keys[-1]
        self._kind = kind
        self.log = PaneLog(_LAYOUT, chained=False)
        self.windows: dict[tuple[int, ...], ValueWindow | IndexedWindow] = {}
        self._index: IndexSpec | None = None
        self._words = Words()
        self._open: list[ValueRows] = []
        self._sealed = _none()
        # How many slots there are, and between which the values of the log have been, ever since.
        self.slots = 0
        self.extent = (0, -1)

    def window(self, key: tuple[int, ...]) -> ValueWindow | IndexedWindow:
        """The window of a length, of who moves it on, and of some groups or all; made on first use."""
        if key not in self.windows:
            index = self._index
            made = ValueWindow(self, key[0]) if index is None else IndexedWindow(self, key[0], index)
            self.windows[key] = made
        return self.windows[key]

    def answer_from(self, index: IndexSpec | None) -> None:
        """Keep the values of windows in an index, if there are no groups; None: as they suit best."""
        if index != self._index:
            self._index = index
            # Windows are made anew when they are next asked for, from what the log has.
            self.windows = {}

    @property
    def panes(self) -> Panes:
        return self.spec.panes

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
        self.extent = (0, len(self._words.values) - 1)
        for window in self.windows.values():
            window.recode(codes)

    def seal(self, pane: int) -> None:
        """Nothing more comes for panes up to `pane`."""
        if not self._open:
            return
        rows = _concatenated(self._open)
        closed = rows.panes <= pane
        if not closed.any():
            self._open = [rows]
            return
        is_all = bool(closed.all())
        merged = ValueRows.of(*(_columns(rows) if is_all else _where(rows, closed)))
        if self._kind is not None:
            merged = thinned(self._kind, merged)
        self._sealed = _concatenated([self._sealed, merged]) if len(self._sealed.panes) else merged
        self._open = [] if is_all else [ValueRows(*_where(rows, ~closed))]

    def move_to(self, pane: int, slots: int) -> None:
        """Let the log have every sealed pane up to `pane`; there are so many slots."""
        count = int(self._sealed.panes.searchsorted(pane, side="right"))
        self.log.reserve_slots(slots)
        self.slots = slots
        if count:
            head, self._sealed = self._sealed.split(count)
            self._extend(int(head.values.min()), int(head.values.max()))
            ints = np.stack([head.counts, head.values], axis=1)
            self.log.append(head.slots, head.panes, ints, np.zeros((count, 0)))

    def _extend(self, least: int, greatest: int) -> None:
        first, last = self.extent
        self.extent = (least, greatest) if first > last else (min(first, least), max(last, greatest))

    def trim(self, pane: int | None) -> None:
        """Forget panes before `pane`; None: all that are in the log."""
        position = self.log.end if pane is None else self.log.position_after(pane - 1)
        self.log.trim(position)
        # A window that nobody moves on would begin anew.
        self.windows = {key: window for key, window in self.windows.items() if window.left >= self.log.base}
        for window in self.windows.values():
            if isinstance(window, ValueWindow):
                window.unfollow()
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
    slots, panes, values, counts = (column[kept] for column in _columns(rows))
    return slots, panes, values, counts


def _columns(rows: ValueRows) -> tuple[Ints, Ints, Ints, Ints]:
    return rows.slots, rows.panes, rows.values, rows.counts


def _concatenated(parts: list[ValueRows]) -> ValueRows:
    if len(parts) == 1:
        return parts[0]
    columns = zip(*(_columns(part) for part in parts), strict=True)
    return ValueRows(*(np.concatenate(column) for column in columns))
