"""FREQUENT(x, k): values that surely are frequent, from the k most frequent of each sub-window.

002, chapter 6, Algorithm 6. The pre-aggregation counts the values of a sub-window exactly, per group. When
the sub-window is complete, each group keeps the k most frequent of them (equal counts in order of values):
its list. Global counters add up what lists say of a value; δ adds up the last count of each list that is
full. An answer has the values whose counter is above δ.

What holds, for f the true count of a value in the window, g its counter, δ of its group:
- g ≤ f ≤ g + δ: a list has exact counts, and a value that a list lacks is no more frequent than its last;
- so a value that is reported has f ≥ g > δ: there are no false positives;
- a value that is on no list has f ≤ δ, one that is not reported has g ≤ δ, though its f may be above δ.
A list with fewer than k values has all of them and adds nothing to δ.

Windows of time and of rows are alike: rows are counted instead of microseconds. Needs: sub-windows that
leave in the order in which they came (WKS input). Time: O(log) per distinct value of a sub-window. Space: k
pairs per sub-window and group, a counter for each value on a list; exact counts of sub-windows that are not
complete.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.errors import InternalError
from sash.indexes.domain import Domain
from sash.lang.bound import Scalar, Window
from sash.operators.aggregates.frequent_lists import reported_text
from sash.operators.aggregates.json_text import json_values
from sash.operators.aggregates.tally import Tally
from sash.operators.evaluate import ARROW_TYPES
from sash.operators.operator import State
from sash.operators.preaggregate import Partial
from sash.plan.measures import ROWS
from sash.plan.panes import Panes
from sash.plan.periodic import SynopsisSpec
from sash.state.groups import GroupTable, plain
from sash.state.keytable import distinct, grown

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
_NONE: Int64Array = np.zeros(0, dtype=np.int64)

# Groups that are in no sub-window any more are dropped once they are the greater part of so many.
_LEAST_TO_COMPACT = 1024


def counting_spec(
    name: str, stream: str, where: Scalar | None, keys: tuple[Scalar, ...], argument: Scalar, window: Window
) -> SynopsisSpec:
    """What the pre-aggregation has to count: rows per sub-window, group and value of the argument.

    Lists depend on the sub-windows, so they are the window's own, whatever panes other queries have.
    """
    panes = Panes.covering((window,))
    if panes is None:
        raise InternalError("one window has at most two edges a slide")
    # It counts values, which no other synopsis has asked for.
    return SynopsisSpec(name, stream, where, (*keys, argument), panes, (ROWS,), window.range, of=name)


@dataclass(frozen=True, slots=True)
class Frequent:
    """An answer: the groups `slots` of the window with their δ, and what is reported of them.

    Entry i belongs to the group `groups[i]`, in the order of `slots`; most frequent first, equal counts in
    order of values. `has_values` is False for groups whose rows are all NULL.
    """

    slots: Int64Array
    thresholds: Int64Array
    has_values: BoolArray
    groups: Int64Array
    values: pa.Array
    counts: Int64Array

    def texts(self) -> pa.Array:
        """As JSON, for each group: {"delta": 5, "items": [["a", 9], ["b", 7]]}; NULL without values."""
        offsets = np.append(np.searchsorted(self.groups, self.slots), len(self.groups))
        texts = json_values(self.values)
        return reported_text(self.thresholds, texts, self.counts, offsets, self.has_values)


@dataclass(slots=True)
class _Summary:
    """The lists of a sub-window, and for each group that occurs in it what it adds to δ."""

    pane: int
    slots: Int64Array
    codes: Int64Array
    counts: Int64Array
    groups: Int64Array
    lasts: Int64Array

    @property
    def nbytes(self) -> int:
        arrays = (self.slots, self.codes, self.counts, self.groups, self.lasts)
        return sum(array.nbytes for array in arrays)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Exact counts by sub-window, group and value; where a value is NULL its code is anything."""

    panes: Int64Array
    slots: Int64Array
    codes: Int64Array
    is_null: BoolArray
    counts: Int64Array

    @staticmethod
    def concatenated(parts: Sequence[_Rows]) -> _Rows:
        columns = ("panes", "slots", "codes", "is_null", "counts")
        return _Rows(*(np.concatenate([getattr(part, name) for part in parts]) for name in columns))

    def where(self, kept: BoolArray) -> _Rows:
        return _Rows(
            self.panes[kept], self.slots[kept], self.codes[kept], self.is_null[kept], self.counts[kept]
        )

    @property
    def nbytes(self) -> int:
        return 4 * self.panes.nbytes + self.is_null.nbytes


class FrequentItems:
    """FREQUENT over one window, for all groups: partials in, answers at boundaries out.

    As a basic interval synopsis: `absorb` what chunks count, `seal` sub-windows that the clock has passed,
    `advance` the window to a boundary, and take the `answer`.
    """

    def __init__(self, spec: SynopsisSpec, limit: int, groups: GroupTable | None = None) -> None:
        """`groups`: those of somebody else, whose slots are used here, and who then calls `renumber`."""
        self.spec = spec
        self.limit = limit
        *keys, value = (ARROW_TYPES[key.type] for key in spec.keys)
        self.groups = GroupTable(keys) if groups is None else groups
        # Codes are numbers of words, which stay when labels move.
        self._domain = Domain(value, lambda moved: None)
        self._open: list[_Rows] = []
        self._sealed: deque[_Summary] = deque()
        self._window: deque[_Summary] = deque()
        self._counters = Tally()
        self._thresholds = np.zeros(1, dtype=np.int64)
        self._presence = np.zeros(1, dtype=np.int64)

    # -------------------------------------------------------------- partials

    def absorb(self, partial: Partial) -> None:
        """Take in what a chunk counts. Its sub-windows are open."""
        *keys, values = (plain(key) for key in partial.keys)
        slots = self.groups.encode(keys) if keys else np.zeros(len(partial.panes), dtype=np.int64)
        codes, is_null = self._read(values)
        assert partial.values is not None
        owners, given = partial.owners, partial.values
        panes, rows, counts = partial.panes[owners], partial.groups[owners], partial.ints[:, 0]
        self._hold(_Rows(panes, slots[rows], codes[given], is_null[given], counts.astype(np.int64)))

    def _read(self, values: pa.Array) -> tuple[Int64Array, BoolArray]:
        """Codes of values, each of which is to be held, and which of them are NULL."""
        read = self._domain.read(values)
        if read.present is None:
            return read.holders, np.zeros(len(values), dtype=np.bool_)
        codes, is_null = np.zeros(len(values), dtype=np.int64), np.ones(len(values), dtype=np.bool_)
        codes[read.present], is_null[read.present] = read.holders, False
        return codes, is_null

    def _hold(self, rows: _Rows) -> None:
        self._domain.hold(rows.codes[~rows.is_null])
        self._open.append(rows)

    def seal(self, through: int) -> None:
        """The clock has passed `through`: sub-windows that end by then are complete."""
        if not self._open:
            return
        rows = _Rows.concatenated(self._open)
        closed = rows.panes <= self.spec.panes.last_closed(through)
        if closed.any():
            complete, rows = rows.where(closed), rows.where(~closed)
            self._sealed.extend(self._summaries(complete))
            self._domain.release(complete.codes[~complete.is_null])
        self._open = [rows] if len(rows.panes) else []

    def _summaries(self, rows: _Rows) -> Iterator[_Summary]:
        """The lists of complete sub-windows, in order."""
        occurring = _distinct_pairs(rows.panes, rows.slots)
        counted = rows.where(~rows.is_null)
        panes, slots, codes, counts = _added_up(counted.panes, counted.slots, counted.codes, counted.counts)
        order = np.lexsort((self._domain.ordinals(codes), -counts, slots, panes))
        panes, slots, codes, counts = panes[order], slots[order], codes[order], counts[order]
        rank = _ranks(panes, slots)
        listed, last = rank < self.limit, rank == self.limit - 1
        self._domain.hold(codes[listed])
        lasts = np.zeros(len(occurring[0]), dtype=np.int64)
        lasts[_places(occurring, (panes[last], slots[last]))] = counts[last]
        panes, slots, codes, counts = panes[listed], slots[listed], codes[listed], counts[listed]
        for pane in distinct(occurring[0]):
            entries = slice(*np.searchsorted(panes, (pane, pane + 1)))
            groups = slice(*np.searchsorted(occurring[0], (pane, pane + 1)))
            lists = slots[entries], codes[entries], counts[entries]
            yield _Summary(int(pane), *lists, occurring[1][groups], lasts[groups])

    # ---------------------------------------------------------------- window

    def next_sealed(self) -> int | None:
        """The first complete sub-window that has not entered yet."""
        return self._sealed[0].pane if self._sealed else None

    def next_leaving(self) -> int | None:
        """The oldest sub-window of the window that has rows."""
        return self._window[0].pane if self._window else None

    def advance(self, boundary: int) -> Int64Array:
        """Make the window that of `boundary`, not before the last one; gives the groups that have changed."""
        panes = self.spec.panes
        newest, oldest = panes.number_at(boundary), panes.number_at(boundary - self.spec.longest)
        touched = [_NONE]
        self._make_room()
        while self._sealed and self._sealed[0].pane <= newest:
            summary = self._sealed.popleft()
            self._enter(summary)
            touched.append(summary.groups)
        while self._window and self._window[0].pane <= oldest:
            summary = self._window.popleft()
            self._leave(summary)
            touched.append(summary.groups)
        return distinct(np.concatenate(touched))

    def _make_room(self) -> None:
        size = max(1, self.groups.size)
        self._thresholds, self._presence = grown(self._thresholds, size, 0), grown(self._presence, size, 0)

    def _enter(self, summary: _Summary) -> None:
        self._window.append(summary)
        entries = self._counters.enter(summary.slots, summary.codes)
        self._counters.counts[entries] += summary.counts
        self._thresholds[summary.groups] += summary.lasts
        self._presence[summary.groups] += 1

    def _leave(self, summary: _Summary) -> None:
        entries = self._counters.enter(summary.slots, summary.codes)
        self._counters.counts[entries] -= summary.counts
        self._counters.forget(entries[self._counters.counts[entries] == 0])
        self._thresholds[summary.groups] -= summary.lasts
        self._presence[summary.groups] -= 1
        self._domain.release(summary.codes)

    # --------------------------------------------------------------- answers

    def answer(self, slots: Int64Array | None = None) -> Frequent:
        """What is reported now, of some groups or of all that are in the window; slots ascend.

        Without grouping there is one group, also over an empty window.
        """
        if slots is None:
            is_global = not self.groups.types
            slots = np.zeros(1, dtype=np.int64) if is_global else np.flatnonzero(self._presence)
        is_asked = np.zeros(len(self._presence), dtype=np.bool_)
        is_asked[slots] = True
        groups, codes, counts = self._counters.pairs()
        has_values = np.zeros(len(self._presence), dtype=np.bool_)
        has_values[groups] = True
        reported = is_asked[groups] & (counts > self._thresholds[groups])
        groups, codes, counts = groups[reported], codes[reported], counts[reported]
        order = np.lexsort((self._domain.ordinals(codes), -counts, groups))
        return Frequent(
            slots,
            self._thresholds[slots],
            has_values[slots],
            groups[order],
            self._domain.values(codes[order]),
            counts[order],
        )

    @property
    def pairs(self) -> int:
        """How many pairs of value and count it holds, of complete sub-windows: on lists and as counters."""
        lists = sum(len(summary.codes) for summary in (*self._window, *self._sealed))
        return lists + len(self._counters)

    @property
    def nbytes(self) -> int:
        held = sum(summary.nbytes for summary in (*self._window, *self._sealed))
        waiting = sum(rows.nbytes for rows in self._open)
        by_group = self.groups.nbytes + self._thresholds.nbytes + self._presence.nbytes
        return held + waiting + by_group + self._counters.nbytes + self._domain.nbytes

    # ------------------------------------------------------------ groups

    def trim(self) -> Int64Array | None:
        """Forget groups that are in no sub-window, if they are many: slot kept[i] is then slot i.

        To be called between `advance` and `answer` of different boundaries; None: nothing has changed.
        """
        if not self.groups.types or self.groups.size < _LEAST_TO_COMPACT:
            return None
        kept = self._used()
        if 2 * len(kept) >= self.groups.size:
            return None
        place = np.full(self.groups.size, -1, dtype=np.int64)
        keys = self.groups.keys_of(kept)
        groups = GroupTable(self.groups.types)
        place[kept] = groups.encode(keys)
        self.renumber(place, kept, groups)
        return kept

    def renumber(self, place: Int64Array, kept: Int64Array, groups: GroupTable) -> None:
        """Slot s is now place[s]; of the slots, those in `kept` are left, in that order, in `groups`."""
        self._make_room()
        self.groups = groups
        self._open = [replace(rows, slots=place[rows.slots]) for rows in self._open]
        owners, codes, counts = self._counters.pairs()
        for summary in (*self._window, *self._sealed):
            summary.slots, summary.groups = place[summary.slots], place[summary.groups]
        self._counters = Tally()
        entries = self._counters.enter(place[owners], codes)
        self._counters.counts[entries] = counts
        self._thresholds, self._presence = self._thresholds[kept], self._presence[kept]

    def drop_before(self, pane: int) -> None:
        """Forget sub-windows before `pane`, which nobody asks for any more."""
        while self._sealed and self._sealed[0].pane < pane:
            self._domain.release(self._sealed.popleft().codes)
        while self._window and self._window[0].pane < pane:
            self._leave(self._window.popleft())

    def _used(self) -> Int64Array:
        used = np.zeros(max(1, self.groups.size), dtype=np.bool_)
        for summary in (*self._window, *self._sealed):
            used[summary.groups] = True
        for rows in self._open:
            used[rows.slots] = True
        return np.flatnonzero(used)

    # ----------------------------------------------------------------- state

    def snapshot(self) -> State:
        """Groups, the lists of complete sub-windows, what they add to δ, and the counts of open ones."""
        kept = self._used()
        row_of = np.full(max(1, self.groups.size), -1, dtype=np.int64)
        row_of[kept] = np.arange(len(kept))
        summaries = [*self._window, *self._sealed]
        entered = len(self._window)
        is_in = [i < entered for i in range(len(summaries))]
        keys = self.groups.keys_of(kept) if self.groups.types else [pa.array(kept)]
        rows = _Rows.concatenated(self._open) if self._open else _Rows(_NONE, _NONE, _NONE, _NONE > 0, _NONE)
        sizes = [len(summary.codes) for summary in summaries]
        groups = [len(summary.groups) for summary in summaries]
        return {
            "groups": pa.table({f"k{i}": key for i, key in enumerate(keys)}),
            "subwindows": pa.table(
                {
                    "pane": pa.array([summary.pane for summary in summaries], pa.int64()),
                    "is_in": pa.array(is_in, pa.bool_()),
                    "entries": pa.array(sizes, pa.int64()),
                    "groups": pa.array(groups, pa.int64()),
                }
            ),
            "lists": pa.table(
                {
                    "group": row_of[_joined([summary.slots for summary in summaries])],
                    "value": self._domain.values(_joined([summary.codes for summary in summaries])),
                    "count": _joined([summary.counts for summary in summaries]),
                }
            ),
            "lasts": pa.table(
                {
                    "group": row_of[_joined([summary.groups for summary in summaries])],
                    "last": _joined([summary.lasts for summary in summaries]),
                }
            ),
            "open": pa.table(
                {
                    "pane": rows.panes,
                    "group": row_of[rows.slots],
                    "value": self._values(rows.codes, rows.is_null),
                    "count": rows.counts,
                }
            ),
        }

    def _values(self, codes: Int64Array, is_null: BoolArray) -> pa.Array:
        places = np.cumsum(~is_null) - 1
        return self._domain.values(codes[~is_null]).take(pa.array(places, mask=is_null))

    def restore(self, state: State) -> None:
        """Take up a state; only before anything was absorbed."""
        keys = [plain(column) for column in state["groups"].columns]
        slots = self.groups.encode(keys) if self.groups.types else np.zeros(1, dtype=np.int64)
        size = max(1, self.groups.size)
        self._thresholds, self._presence = (np.zeros(size, dtype=np.int64) for _ in range(2))
        lists, lasts, windows = state["lists"], state["lasts"], state["subwindows"]
        codes, _ = self._read(plain(lists.column("value")))
        self._domain.hold(codes)
        owners, counts = slots[_column(lists, "group")], _column(lists, "count")
        groups, added = slots[_column(lasts, "group")], _column(lasts, "last")
        entry = group = 0
        for row in windows.to_pylist():
            entries, members = slice(entry, entry + row["entries"]), slice(group, group + row["groups"])
            entry, group = entries.stop, members.stop
            summary = _Summary(
                row["pane"], owners[entries], codes[entries], counts[entries], groups[members], added[members]
            )
            if row["is_in"]:
                self._enter(summary)
            else:
                self._sealed.append(summary)
        waiting = state["open"]
        if waiting.num_rows:
            codes, is_null = self._read(plain(waiting.column("value")))
            panes, owners = _column(waiting, "pane"), slots[_column(waiting, "group")]
            self._hold(_Rows(panes, owners, codes, is_null, _column(waiting, "count")))


def _column(table: pa.Table, name: str) -> Int64Array:
    return np.array(table.column(name), dtype=np.int64)


def _joined(parts: list[Int64Array]) -> Int64Array:
    return np.concatenate(parts) if parts else _NONE


def _begins(*columns: Int64Array) -> Int64Array:
    """Where runs of equal rows begin in sorted columns."""
    is_new = np.zeros(len(columns[0]), dtype=np.bool_)
    is_new[:1] = True
    for column in columns:
        is_new[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(is_new)


def _distinct_pairs(first: Int64Array, second: Int64Array) -> tuple[Int64Array, Int64Array]:
    order = np.lexsort((second, first))
    first, second = first[order], second[order]
    begins = _begins(first, second)
    return first[begins], second[begins]


def _places(pairs: tuple[Int64Array, Int64Array], asked: tuple[Int64Array, Int64Array]) -> Int64Array:
    """Where pairs that are among sorted ones stand."""
    known, width = distinct(pairs[0]), int(pairs[1].max(initial=0)) + 1
    keys, asked_keys = (np.searchsorted(known, first) * width + second for first, second in (pairs, asked))
    places: Int64Array = np.searchsorted(keys, asked_keys)
    return places


def _added_up(
    panes: Int64Array, slots: Int64Array, codes: Int64Array, counts: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """Rows of equal sub-window, group and value as one."""
    order = np.lexsort((codes, slots, panes))
    panes, slots, codes, counts = panes[order], slots[order], codes[order], counts[order]
    begins = _begins(panes, slots, codes)
    if not len(begins):
        return panes, slots, codes, counts
    return panes[begins], slots[begins], codes[begins], np.add.reduceat(counts, begins)


def _ranks(panes: Int64Array, slots: Int64Array) -> Int64Array:
    """For rows in order: how many of the same sub-window and group come before."""
    begins = _begins(panes, slots)
    lengths = np.diff(np.append(begins, len(panes)))
    ranks: Int64Array = np.arange(len(panes)) - np.repeat(begins, lengths)
    return ranks
