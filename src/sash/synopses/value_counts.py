"""How often each value of an argument occurs in a group: what answers aggregates that need the values.

The values of an argument are one more grouping, by (keys …, argument), which the pre-aggregation counts in
panes. Here they are kept under the groups of the synopsis whose queries ask for them: a log of sealed panes,
and for each window the values in it, with their counts (`value_window.py`). When a window moves, what enters
and leaves is added; nothing is counted again. A window can follow just the groups that somebody wants to see.

Values are integers in the order of the values they stand for (see state/ordering); NULLs are left out. For
approximate aggregates a complete pane keeps only some of them (`thinning.py`).

Needs: nothing of the aggregate; values that can be ordered. Time: moving a window costs about a nanosecond
per row that enters or leaves where the values are few, else one pass over the values of the groups concerned;
answering costs time in the values of the groups that are asked for. Space: 8 bytes per different value of a
pane and group (16 if one has not fitted 32 bits), 40 per pane and group; per window 8 for each counter, or
24 per different value and group.
"""

from __future__ import annotations

from dataclasses import replace

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
from sash.state.groups import GroupTable
from sash.state.ordering import Words, ordinal_to_double, to_ordinal
from sash.synopses.b_int_qnt import ValueRows
from sash.synopses.indexed_values import IndexedWindow
from sash.synopses.thinning import thinned
from sash.synopses.value_cells import Cells, ValueLog
from sash.synopses.value_window import ValueWindow

Ints = npt.NDArray[np.int64]

# So many parts of open panes wait before they are put together.
_MOST_PARTS = 64
# Words that nothing refers to any more are dropped once they are the greater part of so many.
_LEAST_TO_COMPACT = 1024


class ValueCounts:
    """The values of one argument. Slots are those of the synopsis that they belong to."""

    def __init__(self, spec: SynopsisSpec, kind: SketchKind | None = None) -> None:
        """`kind`: what a pane keeps; None: everything."""
        self.spec = spec
        self.argument = spec.keys[-1]
        self._kind = kind
        self.log = ValueLog()
        self.windows: dict[tuple[int, ...], ValueWindow | IndexedWindow] = {}
        self._index: IndexSpec | None = None
        self._words = Words()
        self._open: list[Cells] = []
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
        slots = groups.encode(keys)[partial.groups] if keys else np.zeros(len(partial.panes), dtype=np.int64)
        panes, codes, counts = partial.panes, partial.values, partial.ints[:, 0]
        if given.null_count:
            # NULL is not counted, and no value.
            valid = np.asarray(given.is_valid())
            present = valid[codes]
            codes = (np.cumsum(valid) - 1).astype(codes.dtype)[codes[present]]
            values, counts = values[valid], counts[present]
        if partial.offsets is None:
            if given.null_count:
                slots, panes = slots[present], panes[present]
            rows = ValueRows.of(slots, panes, values[codes], counts.astype(np.int64))
            self._open.append(Cells.of(rows))
            return
        offsets = partial.offsets
        if given.null_count:
            offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(present)])[offsets]
        self._open.append(Cells(slots, panes, offsets, codes, counts, values))

    def _learn(self, words: pa.Array) -> Ints:
        """The codes of words, which become known."""
        words = words.filter(words.is_valid())
        moved = self._words.insert(words)
        if moved is not None:
            self._recode(moved)
        return self._words.codes(words)

    def _recode(self, codes: Ints) -> None:
        """Words have other codes, in the same order."""
        self._open = [
            replace(cells, codes=codes[cells.codes])
            if cells.known is None
            else replace(cells, known=codes[cells.known])
            for cells in self._open
        ]
        self.log.live_values[:] = codes[self.log.live_values]
        self.extent = (0, len(self._words.values) - 1)
        for window in self.windows.values():
            window.recode(codes)

    def seal(self, pane: int) -> None:
        """Nothing more comes for panes up to `pane`."""
        parts = [cells.split(int(np.searchsorted(cells.panes, pane, side="right"))) for cells in self._open]
        self._open = [later for _, later in parts if len(later.panes)]
        if len(self._open) > _MOST_PARTS:
            self._open = [Cells.together(self._open)]
        for closed in Cells.in_order([closed for closed, _ in parts if len(closed.panes)]):
            if self._kind is not None:
                closed = Cells.of(thinned(self._kind, closed.rows()))
            if len(closed.codes):
                self._extend(*closed.extent)
            self.log.cells.reserve_slots(int(closed.slots.max(initial=-1)) + 1)
            self.log.append(closed)

    def reserve(self, slots: int) -> None:
        """There are so many slots."""
        self.log.cells.reserve_slots(slots)
        self.slots = slots

    def _extend(self, least: int, greatest: int) -> None:
        first, last = self.extent
        self.extent = (least, greatest) if first > last else (min(first, least), max(last, greatest))

    def trim(self, pane: int | None) -> None:
        """Forget panes before `pane`; None: all that are in the log."""
        cells = self.log.cells
        self.log.trim(cells.end if pane is None else cells.position_after(pane - 1))
        # A window that nobody moves on would begin anew.
        self.windows = {key: window for key, window in self.windows.items() if window.left >= cells.base}
        for window in self.windows.values():
            if isinstance(window, ValueWindow):
                window.unfollow()
        if len(self._words.values) >= _LEAST_TO_COMPACT:
            self._forget_words()

    def _forget_words(self) -> None:
        used = np.zeros(len(self._words.values), dtype=np.bool_)
        for values in (self.log.live_values, *(cells.values for cells in self._open)):
            used[values] = True
        if 2 * np.count_nonzero(used) < len(used):
            self._recode(self._words.keep(np.flatnonzero(used)))

    def renumber(self, moved: Ints, slots: int) -> None:
        """Slot s is now moved[s], in the same order; there are `slots` slots."""
        # Cells that are forgotten but not yet gone may be of slots that are: nobody looks at them.
        place = np.maximum(moved, 0)
        self._open = [replace(cells, slots=place[cells.slots]) for cells in self._open]
        self.log.cells.renumber(place, slots)
        for window in self.windows.values():
            window.renumber(moved)

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
        return self.log.rows + sum(len(cells.codes) for cells in self._open)

    @property
    def nbytes(self) -> int:
        waiting = sum(cells.nbytes for cells in self._open)
        windows = sum(window.nbytes for window in self.windows.values())
        return self.log.nbytes + waiting + windows + int(self._words.values.nbytes)
