"""Sketches of base intervals by groups: a sketch per pane and group comes in, merged ones go out.

As in B-INT (see b_int) two halves are merged when an interval is complete, so a window needs up to 2·log₂ W
sketches of a group. A sketch is bytes; what cannot be done on arrays here is done once per pane, group and
level.

Needs: sketches that can be merged. Time: two merges of sketches a pane and group, amortised; a look-up up
to 2·log₂ W a group. Space: up to two sketches a pane and group, each as large as its kind says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sash.operators.operator import State
from sash.state.groups import canonical, plain
from sash.synopses.b_int_qnt import ValueRows
from sash.synopses.sketches.kinds import Sketch, plain_values
from sash.synopses.spanned import Spanned

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SketchRows:
    """A sketch per pane and slot, in that order, each of them once."""

    slots: Ints
    panes: Ints
    sketches: Sequence[bytes]


def sketch_rows(sketch: Sketch, slots: Ints, panes: Ints, values: pa.Array | pa.ChunkedArray) -> SketchRows:
    """Sketches of the values of each pane and slot; NULLs are left out, and so is who has nothing else.

    Equal values of a pane and slot are handed over once, with their count.
    """
    given = canonical(plain(values))
    present = np.asarray(given.is_valid())
    encoded = given.filter(pa.array(present)).dictionary_encode()
    codes = np.asarray(encoded.indices).astype(np.int64)
    # KLL wants its values in order where there are few, so that it is exact; the others do not mind.
    order = np.asarray(pc.sort_indices(encoded.dictionary)).astype(np.int64)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    rows = ValueRows.of(slots[present], panes[present], place[codes])
    known = plain_values(encoded.dictionary.take(pa.array(order)))
    starts = _starts(rows)
    ends = np.append(starts, len(rows.values))[1:]
    made = [
        sketch.of([known[code] for code in rows.values[a:b].tolist()], rows.counts[a:b].tolist())
        for a, b in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    return SketchRows(rows.slots[starts], rows.panes[starts], made)


def _starts(rows: ValueRows) -> Ints:
    if len(rows.slots) == 0:
        return np.zeros(0, dtype=np.int64)
    changes = (np.diff(rows.slots) != 0) | (np.diff(rows.panes) != 0)
    return np.concatenate([np.zeros(1, dtype=np.int64), np.flatnonzero(changes) + 1])


class SketchStore(Spanned):
    def __init__(self, sketch: Sketch, span: int) -> None:
        super().__init__(span)
        self.sketch = sketch
        # By level and number of the base interval: a sketch for each slot that has one.
        self._intervals: dict[tuple[int, int], dict[int, bytes]] = {}

    def update(self, rows: SketchRows, through: int) -> None:
        """Take sketches of sealed panes, none before the newest pane; now all is known `through`."""
        self.begins_before(int(rows.panes[0]) if len(rows.panes) else through + 1)
        first = max(self.newest + 1, through - self.span + 1)
        if through < first:
            return
        # Before anything is merged with them, intervals go that no window reaches.
        self._drop(through - self.span)
        at = int(np.searchsorted(rows.panes, first))
        panes, slots = rows.panes.tolist(), rows.slots.tolist()
        for pane in range(first, through + 1):
            own: dict[int, bytes] = {}
            while at < len(panes) and panes[at] == pane:
                own[slots[at]] = rows.sketches[at]
                at += 1
            self._intervals[0, pane] = own
            level = 1
            while (1 << level) <= self.span and (pane + 1) % (1 << level) == 0:
                number = pane >> level
                halves = (self._intervals.get((level - 1, 2 * number + k)) for k in range(2))
                left, right = (half or {} for half in halves)
                self._intervals[level, number] = self._merge(left, right)
                level += 1
        self.newest = through

    def _drop(self, pane: int) -> None:
        """Forget intervals that begin with `pane` or before."""
        self._intervals = {
            (level, number): sketches
            for (level, number), sketches in self._intervals.items()
            if number << level > pane
        }

    def _merge(self, left: dict[int, bytes], right: dict[int, bytes]) -> dict[int, bytes]:
        merged = dict(left)
        for slot, sketch in right.items():
            mine = merged.get(slot)
            merged[slot] = sketch if mine is None else self.sketch.merged((mine, sketch))
        return merged

    def lookup(self, left: int, right: int) -> dict[int, bytes]:
        """The merged sketch of the panes in (left, right] for each slot that has values there."""
        at = self.held_after(left, right) + 1
        parts: dict[int, list[bytes]] = {}
        while at <= right:
            level = 0
            while (at >> level) & 1 == 0 and at + (2 << level) - 1 <= right:
                level += 1
            for slot, sketch in self._intervals.get((level, at >> level), {}).items():
                parts.setdefault(slot, []).append(sketch)
            at += 1 << level
        return {
            slot: own[0] if len(own) == 1 else self.sketch.merged(own) for slot, own in sorted(parts.items())
        }

    def renumber(self, slots: Ints) -> None:
        """Slot slots[i] is now slot i; the others are gone."""
        place = {slot: i for i, slot in enumerate(slots.tolist())}
        self._intervals = {
            key: {place[slot]: sketch for slot, sketch in sketches.items() if slot in place}
            for key, sketches in self._intervals.items()
        }

    def snapshot(self) -> State:
        """Merged intervals as well: KLL draws lots when it merges, and a restart should not draw again."""
        rows = [
            (level, number, slot, sketch)
            for (level, number), sketches in self._intervals.items()
            for slot, sketch in sketches.items()
        ]
        names = ("level", "number", "slot", "sketch")
        types = (pa.int64(), pa.int64(), pa.int64(), pa.binary())
        columns = zip(*rows, strict=True) if rows else [[]] * 4
        arrays = {
            name: pa.array(list(column), type_)
            for name, type_, column in zip(names, types, columns, strict=True)
        }
        about = {"begin": pa.array([self.begin], pa.int64()), "newest": [self.newest]}
        return {"sketches": pa.table(arrays), "about": pa.table(about)}

    def restore(self, state: State) -> None:
        """Take up a state; only for a store that has been given nothing."""
        self.begin = state["about"].column("begin")[0].as_py()
        self.newest = state["about"].column("newest")[0].as_py()
        columns = (
            state["sketches"].column(name).to_pylist() for name in ("level", "number", "slot", "sketch")
        )
        for level, number, slot, sketch in zip(*columns, strict=True):
            self._intervals.setdefault((level, number), {})[slot] = sketch

    @property
    def nbytes(self) -> int:
        """Bytes of the sketches themselves."""
        return sum(len(sketch) for sketches in self._intervals.values() for sketch in sketches.values())
