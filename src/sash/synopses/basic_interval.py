"""The basic interval synopsis (002 section 2.3.4): measures per pane and group, combined on demand.

Partials arrive in any order and wait in a buffer until the clock has passed their pane. `seal` merges them,
one row per (pane, group); `move_to` hands sealed panes to the log as the window moves on. A `Sliding` keeps
the totals of one window length over the log. Where another method serves the windows better, the synopsis
is told to `answer_from` it: it is fed with what is in the log and with what comes, and windows are looked
up in it. That can be changed at any time between two answers. `values` has, by argument, how often each value
occurs in a group, where queries need to know, or what approximate aggregates keep of that, and `frequent` the
lists of FREQUENT.

Needs: measures that can be merged. Time: an update is O(1) a row; moving a window by one pane costs
O(groups in the panes that enter and leave) for subtractable measures, and for extrema and sums of doubles
an expected O(1) a group more: a group is recomputed from its chain only when the pane that held its
extremum leaves. Space: one row per live (pane, group) and one per (window length, group).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.lang.bound import Scalar
from sash.operators.evaluate import ARROW_TYPES
from sash.operators.preaggregate import Partial
from sash.plan.periodic import SynopsisSpec
from sash.plan.sketches import Sketched, SketchKind
from sash.state import kernels
from sash.state.groups import GroupTable
from sash.state.layout import Layout
from sash.state.ordering import Words, is_code, recode
from sash.state.panelog import PaneLog
from sash.synopses.collective.filters import Filters
from sash.synopses.frequent_items import FrequentItems
from sash.synopses.pane_store import PaneStore, Totals
from sash.synopses.rows import PaneRows
from sash.synopses.value_counts import ValueCounts

Int64Array = npt.NDArray[np.int64]
Float64Array = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


# Groups and words that nothing refers to any more are dropped once they are the greater part of so many.
_LEAST_TO_COMPACT = 1024


class WindowKey(NamedTuple):
    """A window of that length; `alone` is the slide of who moves it on when nobody else does, else 0.

    `behind` is how far that one is behind the others, if it is to come as far as they are.
    """

    range: int
    alone: int = 0
    behind: int = 0


class Dependent(Protocol):
    """Somebody who keeps totals by slot beside the synopsis."""

    def totals(self) -> Int64Array:
        """Its matrix of integer measures."""

    def renumber(self, slots: Int64Array) -> None:
        """Slot slots[i] is now slot i; the others are gone."""


class Sliding:
    """The totals of a window of one length, per slot. It holds the log's rows left … right."""

    def __init__(self, synopsis: BasicIntervalSynopsis, range_: int) -> None:
        self._synopsis = synopsis
        self.range = range_
        self.left = synopsis.log.base
        self.right = synopsis.log.base
        self.ints, self.floats = synopsis.layout.empty(0)
        self.newest: Int64Array = np.zeros((0, len(synopsis.layout.operations)), dtype=np.int64)
        self.stale: BoolArray = np.zeros(0, dtype=np.bool_)
        self._boundary: int | None = None

    def reserve(self, slots: int) -> None:
        have = len(self.ints)
        if slots > have:
            ints, floats = self._synopsis.layout.empty(max(slots, 2 * have) - have)
            self.ints = np.concatenate([self.ints, ints])
            self.floats = np.concatenate([self.floats, floats])
            self.newest = np.concatenate([self.newest, np.zeros_like(ints)])
            self.stale = np.zeros(len(self.ints), dtype=np.bool_)

    @property
    def positions(self) -> list[tuple[int, int]]:
        """What it holds of the log of each synopsis that it is over."""
        return [(self.left, self.right)]

    @property
    def nbytes(self) -> int:
        return self.ints.nbytes + self.floats.nbytes + self.newest.nbytes + self.stale.nbytes

    def renumber(self, slots: Int64Array) -> None:
        """Slot slots[i] is now slot i; the others are gone."""
        # Groups that have only rows in open panes may be newer than the room made for them.
        self.reserve(int(slots.max(initial=-1)) + 1)
        self.ints, self.floats, self.newest = self.ints[slots], self.floats[slots], self.newest[slots]
        self.stale = np.zeros(len(slots), dtype=np.bool_)

    def remember(self) -> bool:
        """Whether the log has what the totals hold; if nobody has asked for so long, begin anew."""
        is_known = self.left >= self._synopsis.log.base
        if not is_known:
            self.left = self.right = self._synopsis.log.base
            self.ints, self.floats = self._synopsis.layout.empty(len(self.ints))
        return is_known

    def stand_at(self, boundary: int, left: int, right: int) -> None:
        """The totals are those of the rows left … right of the log, which the window has at `boundary`."""
        self._boundary, self.left, self.right = boundary, left, right

    def advance(self, boundary: int) -> None:
        """Make the window that of `boundary`, which is on an edge and not before the last one."""
        log, panes = self._synopsis.log, self._synopsis.spec.panes
        if self.remember() and boundary == self._boundary:
            # Queries of another slide have been here.
            return
        self._boundary = boundary
        oldest = panes.number_at(boundary - self.range)
        right = log.position_after(panes.number_at(boundary))
        left = log.position_after(oldest)
        ops, base = self._synopsis.ops, log.base
        kernels.enter(
            log.slots,
            log.panes,
            log.ints,
            log.floats,
            self.right - base,
            right - base,
            ops,
            self.ints,
            self.floats,
            self.newest,
        )
        is_stale = kernels.leave(
            log.slots,
            log.panes,
            log.ints,
            self.left - base,
            left - base,
            ops,
            log.layout.float_columns > 0,
            self.ints,
            self.newest,
            self.stale,
        )
        if is_stale:
            slots = np.flatnonzero(self.stale)
            self.stale[slots] = False
            kernels.rescan(
                slots,
                log.panes,
                log.ints,
                log.floats,
                log.previous,
                log.heads,
                base,
                oldest,
                right - base,
                ops,
                self.ints,
                self.floats,
                self.newest,
            )
        self.left, self.right = left, right


class Looked:
    """The totals of a window of one length, looked up. It stands where a `Sliding` would."""

    def __init__(self, synopsis: BasicIntervalSynopsis, range_: int, store: PaneStore) -> None:
        self._synopsis = synopsis
        self._store = store
        self.range = range_
        self.left = synopsis.log.base
        self.right = synopsis.log.base
        self.ints, self.floats = synopsis.layout.empty(0)

    def reserve(self, slots: int) -> None:
        """Nothing is kept between answers."""

    @property
    def positions(self) -> list[tuple[int, int]]:
        return [(self.left, self.right)]

    @property
    def nbytes(self) -> int:
        return self.ints.nbytes + self.floats.nbytes

    def renumber(self, slots: Int64Array) -> None:
        """Groups have other slots: what was looked up is of no use any more."""
        self.ints, self.floats = self._synopsis.layout.empty(0)

    def advance(self, boundary: int) -> None:
        """Make the window that of `boundary`, which is on an edge and not before the last one."""
        log, panes = self._synopsis.log, self._synopsis.spec.panes
        oldest, newest = panes.number_at(boundary - self.range), panes.number_at(boundary)
        self.left, self.right = log.position_after(oldest), log.position_after(newest)
        self._store.reserve(self._synopsis.groups.size)
        totals = self._store.lookup(oldest, newest)
        self.ints, self.floats = totals.ints, totals.floats


class BasicIntervalSynopsis:
    def __init__(self, spec: SynopsisSpec) -> None:
        self.spec = spec
        self.layout = Layout.of(spec.measures)
        self.ops = self.layout.ops
        self.words: dict[int, Words] = {}
        self.groups = GroupTable([ARROW_TYPES[key.type] for key in self.spec.keys])
        self.log = PaneLog(self.layout)
        self.windows: dict[WindowKey, Sliding | Looked] = {}
        self._store: PaneStore | None = None
        self.filters: Filters | None = None
        self.refusal: str | None = None
        self._moved: int | None = None
        # For how many groups there is room.
        self._reserved = -1
        counting = {each.keys[-1]: each for each in spec.counting() if not each.is_hashed}
        hashing = {each.keys[-1]: each for each in spec.counting() if each.is_hashed}
        self.values: dict[Scalar | Sketched, ValueCounts] = {
            argument: ValueCounts(counting[argument]) for argument in spec.values
        }
        for sketch in spec.sketches:
            own = hashing if sketch.kind is SketchKind.DISTINCT else counting
            self.values[sketch] = ValueCounts(own[sketch.argument], sketch.kind)
        self.frequent = {
            call: FrequentItems(counting[call.argument], call.limit, self.groups)
            for call in spec.frequent
            if call.argument is not None
        }
        self.dependents: list[Dependent] = []
        self._open: list[PaneRows] = []
        self._sealed = PaneRows.none(self.layout)

    def window(self, key: WindowKey) -> Sliding | Looked:
        """The window of that length, made on first use."""
        if key not in self.windows:
            store = None if key.alone else self._store
            window = Sliding(self, key.range) if store is None else Looked(self, key.range, store)
            window.reserve(len(self.log.heads))
            self.windows[key] = window
        return self.windows[key]

    @property
    def is_ahead(self) -> bool:
        """Whether the log has all sealed panes, however far windows have come."""
        return self._store is None and self.filters is None

    @property
    def bases(self) -> list[BasicIntervalSynopsis]:
        """The synopses that have its rows: itself."""
        return [self]

    def moved(self, before: Sequence[tuple[int, int]], now: Sequence[tuple[int, int]]) -> Int64Array:
        """The groups in panes that entered or left between two states of a window."""
        (left, right), (new_left, new_right), base = before[0], now[0], self.log.base
        edges = left - base, new_left - base, right - base, new_right - base
        return kernels.slots_in(self.log.slots, *edges, self.groups.size)

    def forget_windows(self, asked: set[WindowKey]) -> None:
        """Other windows are not asked for any more."""
        self.windows = {key: window for key, window in self.windows.items() if key in asked}

    def answer_from(self, store: PaneStore | None) -> None:
        """Look windows up in `store`, which is empty and has the synopsis's measures; None: let them slide.

        What it is to look up must be in the log: a window is covered as far back as the log goes.
        """
        self._store = store
        if store is not None and self._moved is not None:
            store.reserve(self.groups.size)
            store.update(self._logged(), self._moved)
        # Windows are made anew when they are next asked for, from what the log or the store has then.
        self.windows = {key: window for key, window in self.windows.items() if key.alone}

    def find_by(self, filters: Filters | None) -> None:
        """Let groups be found by indexes, which are empty; None: look at all groups again."""
        self.filters, self.refusal = filters, None
        if self._moved is not None:
            self._feed_filters(self._logged(), self._moved)
        # Those that are still needed are made anew when they are next asked for.
        self.windows = {key: window for key, window in self.windows.items() if key.alone}

    def _feed_filters(self, rows: PaneRows, through: int) -> None:
        """Let indexes have rows; if they refuse those, go on without them."""
        if self.filters is not None:
            self.filters.feed(rows, through)
            self.refusal = self.filters.refusal
            if self.refusal is not None:
                self.filters = None
                # What windows are looked up in need not reach as far as those that are looked up now.
                self.answer_from(None)

    def _logged(self) -> PaneRows:
        log = self.log
        size = log.end - log.base
        return PaneRows(log.slots[:size], log.panes[:size], log.ints[:size], log.floats[:size])

    def between(self, left: int, right: int) -> Totals:
        """The measures of all groups over the window between two edges."""
        number_at = self.spec.panes.number_at
        return self.lookup(number_at(left), number_at(right))

    def lookup(self, left: int, right: int) -> Totals:
        """The measures of the panes in (left, right] for all groups, merged row by row.

        They are in the log, or sealed and not there yet.
        """
        log, sealed = self.log, self._sealed
        totals = Totals(*self.layout.empty(self.groups.size))
        newest = np.zeros_like(totals.ints)
        first, last = log.position_after(left) - log.base, log.position_after(right) - log.base
        kernels.enter(
            log.slots,
            log.panes,
            log.ints,
            log.floats,
            first,
            last,
            self.ops,
            totals.ints,
            totals.floats,
            newest,
        )
        first, last = np.searchsorted(sealed.panes, (left, right), side="right").tolist()
        if first < last:
            kernels.enter(
                sealed.slots,
                sealed.panes,
                sealed.ints,
                sealed.floats,
                first,
                last,
                self.ops,
                totals.ints,
                totals.floats,
                newest,
            )
        return totals

    def chained(self, slots: Int64Array, oldest: int, left: int, right: int) -> tuple[Totals, BoolArray]:
        """The measures of some groups over all panes after `oldest`, each from its chain.

        Also whether a group has rows after the position `right` of the log, or has lost some since `left`.
        """
        log = self.log
        totals = Totals(*self.layout.empty(len(slots)))
        changed = np.zeros(len(slots), dtype=np.bool_)
        kernels.merge_chains(
            slots,
            log.panes,
            log.ints,
            log.floats,
            log.previous,
            log.heads,
            log.base,
            oldest,
            left,
            right,
            self.ops,
            totals.ints,
            totals.floats,
            changed,
        )
        return totals, changed

    def absorb(self, partial: Partial) -> None:
        """Take in what a chunk adds, or counts of values. Its panes are open: after the last sealed one."""
        if partial.synopsis != self.spec.name:
            for counts in self.values.values():
                if counts.spec.name == partial.synopsis:
                    counts.absorb(partial, self.groups)
            for items in self.frequent.values():
                if items.spec.name == partial.synopsis:
                    items.absorb(partial)
            return
        ints = partial.ints.copy() if partial.words else partial.ints
        for column, vocabulary in partial.words.items():
            recode(ints[:, column], self._learn(column, vocabulary))
        slots = (
            self.groups.encode(partial.keys)[partial.groups]
            if self.spec.keys
            else np.zeros(len(partial.panes), dtype=np.int64)
        )
        self._open.append(PaneRows(slots, partial.panes, ints, partial.floats))

    def _learn(self, column: int, vocabulary: pa.Array) -> Int64Array:
        words = self.words.setdefault(column, Words())
        moved = words.insert(vocabulary)
        if moved is not None:
            for matrix in self._matrices():
                recode(matrix[:, column], moved)
        return words.codes(vocabulary)

    def _matrices(self) -> Iterator[Int64Array]:
        """Every matrix of integer measures that is held, so that codes of words can be changed."""
        yield from (rows.ints for rows in self._open)
        yield self._sealed.ints
        yield self.log.ints[: self.log.end - self.log.base]
        yield from (window.ints for window in self.windows.values())
        if self._store is not None:
            yield from self._store.matrices()
        yield from (dependent.totals() for dependent in self.dependents)

    def seal(self, through: int) -> None:
        """The clock has passed `through`: panes that end by then can receive nothing more."""
        pane = self.spec.panes.last_closed(through)
        for counts in self.values.values():
            counts.seal(pane)
        for items in self.frequent.values():
            items.seal(through)
        if self._open:
            rows = PaneRows.concatenated(self._open)
            closed = rows.panes <= pane
            is_all = bool(closed.all())
            if closed.any():
                merged = (rows if is_all else rows.where(closed)).merged(self.ops)
                self._sealed = PaneRows.concatenated([self._sealed, merged])
            self._open = [] if is_all else [rows.where(~closed)]
        if self.is_ahead:
            # Windows that slide find their rows in a log that has come farther.
            self._move_to_pane(pane)

    def next_sealed(self) -> int | None:
        """The first sealed pane that the log does not have yet."""
        return int(self._sealed.panes[0]) if len(self._sealed.panes) else None

    def move_to(self, boundary: int) -> None:
        """Let the log have every sealed pane that ends by `boundary`."""
        self._move_to_pane(self.spec.panes.number_at(boundary))

    def _move_to_pane(self, pane: int) -> None:
        count = int(np.searchsorted(self._sealed.panes, pane, side="right"))
        is_there = not count and self._moved is not None and pane <= self._moved
        if is_there and self.groups.size == self._reserved:
            return
        self._reserved = self.groups.size
        self.log.reserve_slots(self.groups.size)
        for window in self.windows.values():
            window.reserve(len(self.log.heads))
        head, self._sealed = self._sealed.split(count)
        if count:
            self.log.append(head.slots, head.panes, head.ints, head.floats)
        if self._store is not None:
            self._store.update(head, pane)
        self._feed_filters(head, pane)
        for counts in self.values.values():
            counts.reserve(self.groups.size)
        self._moved = pane if self._moved is None else max(pane, self._moved)

    def trim(self, position: int) -> None:
        """Forget what lies before `position` of the log, and groups that are in no pane and no answer."""
        oldest = self.log.pane_at(position) if position < self.log.end else None
        for counts in self.values.values():
            # Counts of values are there before the measures of their panes are.
            counts.trim(self.next_sealed() if oldest is None else oldest)
        for items in self.frequent.values():
            if oldest is not None:
                items.drop_before(oldest)
        self.log.trim(position)
        for column, words in self.words.items():
            if len(words.values) >= _LEAST_TO_COMPACT:
                self._forget_words(column, words)
        if not self.spec.keys or self.groups.size < _LEAST_TO_COMPACT:
            return
        used = np.zeros(max(self.groups.size, len(self.log.heads)), dtype=np.bool_)
        for rows in self._open:
            used[rows.slots] = True
        used[self._sealed.slots] = True
        used[self.log.slots_between(self.log.base, self.log.end)] = True
        for dependent in self.dependents:
            used[np.flatnonzero(dependent.totals()[:, 0])] = True
        if self._store is not None:
            used[np.flatnonzero(self._store.has_rows())] = True
        slots = np.flatnonzero(used)
        if 2 * len(slots) < self.groups.size:
            self._compact(slots)

    def _forget_words(self, column: int, words: Words) -> None:
        """Drop words that no row refers to, once they are the greater part."""
        used = np.zeros(len(words.values), dtype=np.bool_)
        for matrix in self._matrices():
            codes = matrix[:, column]
            used[codes[is_code(codes)]] = True
        if 2 * np.count_nonzero(used) < len(used):
            moved = words.keep(np.flatnonzero(used))
            for matrix in self._matrices():
                recode(matrix[:, column], moved)

    def _compact(self, slots: Int64Array) -> None:
        """Give the groups in `slots` the numbers 0, 1, … and forget all others."""
        keys = self.groups.keys_of(slots)
        place = np.full(self.groups.size, -1, dtype=np.int64)
        self.groups = GroupTable(self.groups.types)
        self._reserved = -1
        place[slots] = self.groups.encode(keys)
        for rows in self._open:
            rows.slots = place[rows.slots]
        self._sealed.slots = place[self._sealed.slots]
        self.log.renumber(place, len(slots))
        if self._store is not None:
            self._store.renumber(slots)
        if self.filters is not None:
            self.filters.renumber(slots)
        for window in self.windows.values():
            window.renumber(slots)
        for counts in self.values.values():
            counts.renumber(place, len(slots))
        for items in self.frequent.values():
            items.renumber(place, slots, self.groups)
        for dependent in self.dependents:
            dependent.renumber(slots)

    @property
    def live_rows(self) -> int:
        values = sum(counts.live_rows for counts in self.values.values())
        values += sum(items.pairs for items in self.frequent.values())
        waiting = sum(len(rows.panes) for rows in (self._sealed, *self._open))
        return self.log.end - self.log.base + waiting + values

    @property
    def nbytes(self) -> int:
        """Memory that its arrays take, with the totals of windows and of those who answer from them."""
        words = sum(int(words.values.nbytes) for words in self.words.values())
        totals = sum(dependent.totals().nbytes for dependent in self.dependents)
        waiting = sum(rows.nbytes for rows in (self._sealed, *self._open))
        windows = sum(window.nbytes for window in self.windows.values())
        store = 0 if self._store is None else self._store.nbytes
        store += 0 if self.filters is None else self.filters.nbytes
        values = sum(counts.nbytes for counts in self.values.values())
        values += sum(items.nbytes for items in self.frequent.values())
        return self.log.nbytes + self.groups.nbytes + words + totals + waiting + windows + store + values
