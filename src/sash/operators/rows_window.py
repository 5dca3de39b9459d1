"""Windows counted in rows: the n newest of a stream, or of each of its partitions (002, section 2.3.2).

Rows are numbered 1, 2, … in the order of (ts, arrival) within their partition. `[ROWS n SLIDE m]` shows,
after row number k·m, the rows with numbers in (k·m − n, k·m]. So row i enters with row number ⌈i/m⌉·m and
leaves with number ⌈(i + n)/m⌉·m; when that is cannot be known before, so departures are negative tuples.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sash.lang.algebra import Field
from sash.operators.delta import NEVER, Delta, Ints, Signs, empty_delta
from sash.operators.held import delta_of, numbers
from sash.operators.operator import Moment, Operator, State, arrow_types, before_of
from sash.state.fingerprints import fingerprint, keys_from
from sash.state.jit import kernel
from sash.state.keytable import KeyTable, grown
from sash.state.rowstore import RowStore


@kernel
def _advance(
    partitions: Ints,
    bounds: Ints,
    slots: Ints,
    ts: Ints,
    rows: int,
    slide: int,
    unknown: Ints,
    arrived: Ints,
    oldest: Ints,
    newest: Ints,
    waiting: Ints,
    newer: Ints,
    group_of: Ints,
    number_of: Ints,
    entered: Ints,
    out_slot: Ints,
    out_ts: Ints,
    out_sign: Ints,
    gone: Ints,
) -> tuple[int, int]:
    """Partition by partition: append rows, show those whose turn it is, take back those that fall out.

    Rows of partition p stand at bounds[p]..bounds[p + 1] of `slots` and `ts`. Its first rows, so many as are
    `unknown`, are not there.
    """
    count, left = 0, 0
    for p in range(partitions.shape[0]):
        group = partitions[p]
        before = arrived[group]
        for k in range(bounds[p], bounds[p + 1]):
            slot = slots[k]
            group_of[slot] = group
            number_of[slot] = before + 1 + k - bounds[p]
            newer[slot] = -1
            if newest[group] >= 0:
                newer[newest[group]] = slot
            else:
                oldest[group] = slot
            newest[group] = slot
            if waiting[group] < 0:
                waiting[group] = slot
        total = before + bounds[p + 1] - bounds[p]
        arrived[group] = total
        shown_before = before // slide * slide
        shown = total // slide * slide
        # The row that shows number i is number ⌈i/m⌉·m, which is in this batch.
        for number in range(max(shown_before, unknown[group]) + 1, shown + 1):
            slot = waiting[group]
            waiting[group] = newer[slot]
            turn = -(-number // slide) * slide
            when = ts[bounds[p] + turn - before - 1]
            entered[slot] = when
            out_slot[count] = slot
            out_ts[count] = when
            out_sign[count] = 1
            count += 1
        for number in range(max(shown_before - rows, unknown[group]) + 1, shown - rows + 1):
            slot = oldest[group]
            oldest[group] = newer[slot]
            if oldest[group] < 0:
                newest[group] = -1
            turn = -(-(number + rows) // slide) * slide
            out_slot[count] = slot
            out_ts[count] = ts[bounds[p] + turn - before - 1]
            out_sign[count] = -1
            count += 1
            gone[left] = slot
            left += 1
    return count, left


@kernel
def _relink(
    slots: Ints,
    group: Ints,
    number: Ints,
    slide: int,
    arrived: Ints,
    oldest: Ints,
    newest: Ints,
    waiting: Ints,
    newer: Ints,
) -> None:
    """Make the lists of partitions anew from rows in the order of partition and number."""
    for i in range(slots.shape[0]):
        slot, owner = slots[i], group[slots[i]]
        newer[slot] = -1
        if newest[owner] >= 0:
            newer[newest[owner]] = slot
        else:
            oldest[owner] = slot
        newest[owner] = slot
        if waiting[owner] < 0 and number[slot] > arrived[owner] // slide * slide:
            waiting[owner] = slot


class RowsWindow(Operator):
    """`partition` has the positions of the columns of PARTITION BY. Partitions are never forgotten.

    `marks`: equal rows must be told apart. A row that is not foreseen to leave gets an end of its own, after
    all time, by which its negative tuple finds it. `in_order`: in a window without SLIDE, rows of different
    partitions enter in the order in which they came. `stream`: the window is over that, all of it; the first
    rows may have come before anybody kept them here, and count where the window moves by several rows.
    """

    def __init__(
        self,
        fields: Sequence[Field],
        rows: int,
        slide: int,
        partition: Sequence[int],
        *,
        marks: bool = False,
        in_order: bool = False,
        stream: str | None = None,
    ) -> None:
        self.fields = tuple(fields)
        self._stream = stream
        self._rows = rows
        self._slide = slide
        self._partition = tuple(partition)
        self._marks = marks
        self._in_order = in_order and bool(partition)
        self._first_mark, self._stride = NEVER - 1, 1
        self._store = RowStore(arrow_types(fields))
        self._keys = KeyTable()
        self._unknown = np.zeros(0, dtype=np.int64)
        self._arrived = np.zeros(0, dtype=np.int64)
        self._oldest = np.zeros(0, dtype=np.int64)
        self._newest = np.zeros(0, dtype=np.int64)
        self._waiting = np.zeros(0, dtype=np.int64)
        self._newer = np.zeros(0, dtype=np.int64)
        self._group = np.zeros(0, dtype=np.int64)
        self._number = np.zeros(0, dtype=np.int64)
        self._entered = np.zeros(0, dtype=np.int64)

    def placed(self, partition: int, of: int) -> None:
        """Marks differ between partitions."""
        self._first_mark, self._stride = NEVER - 1 - partition, of

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        delta = inputs[0].sorted()
        if not len(delta):
            return empty_delta(self.fields)
        if self._marks:
            before = int(self._arrived.sum())
            marks = self._first_mark - self._stride * np.arange(before, before + len(delta), dtype=np.int64)
            delta = Delta(delta.ts, np.where(delta.exp == NEVER, marks, delta.exp), delta.columns)
        keys = fingerprint([delta.columns[i] for i in self._partition], len(delta))
        is_first = not len(self._keys)
        groups = self._keys.intern(keys)
        self._make_room()
        if not self._partition:
            if is_first and self._stream is not None:
                # How many moves were before does not matter.
                unknown = moment.first.get(before_of(self._stream), 0) % self._slide
                self._unknown[0] = self._arrived[0] = unknown
            return self._append(delta, groups, None)
        order = np.argsort(groups, kind="stable")
        return self._append(delta.take(order), groups[order], order if self._in_order else None)

    def _append(self, delta: Delta, groups: Ints, places: Ints | None) -> Delta:
        """Take in rows of one partition after the other; `places` is how they came, if that matters."""
        slots = self._store.append(delta.ts, delta.exp, delta.columns)
        self._make_room()
        starts = np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))
        bounds = np.concatenate([starts, [len(groups)]]).astype(np.int64)
        # A batch shows and takes back at most as many rows as it brings, and a slide's worth that waited.
        most = 2 * (len(delta) + len(starts) * self._slide)
        out = np.empty((3, most), dtype=np.int64)
        gone = np.empty(most, dtype=np.int64)
        count, left = _advance(
            groups[starts],
            bounds,
            slots,
            delta.ts,
            self._rows,
            self._slide,
            self._unknown,
            self._arrived,
            self._oldest,
            self._newest,
            self._waiting,
            self._newer,
            self._group,
            self._number,
            self._entered,
            out[0],
            out[1],
            out[2],
            gone,
        )
        found, ts, sign = out[0, :count], out[1, :count], out[2, :count].astype(np.int8)
        if places is not None:
            # What enters came in this batch.
            at = np.zeros(self._store.capacity, dtype=np.int64)
            at[slots] = places
            order = np.lexsort((at[found], ts))
            found, ts, sign = found[order], ts[order], sign[order]
        gone = gone[:left]
        given = self._changes(found, ts, sign)
        self._store.free(gone)
        return given

    def _changes(self, slots: Ints, ts: Ints, sign: Signs) -> Delta:
        """Without rows that came and went within one instant, or whose lifetime had ended before."""
        passing = slots[(sign < 0) & (ts == self._entered[slots])]
        kept = (ts < self._store.exp[slots]) & ~np.isin(slots, passing)
        slots, ts, sign = slots[kept], ts[kept], sign[kept]
        return Delta(ts, self._store.exp[slots], self._store.gather(slots), sign)

    def _make_room(self) -> None:
        size = self._keys.capacity
        self._unknown = grown(self._unknown, size, 0)
        self._arrived = grown(self._arrived, size, 0)
        self._oldest = grown(self._oldest, size, -1)
        self._newest = grown(self._newest, size, -1)
        self._waiting = grown(self._waiting, size, -1)
        self._newer = grown(self._newer, self._store.capacity, -1)
        self._group = grown(self._group, self._store.capacity, -1)
        self._number = grown(self._number, self._store.capacity, 0)
        self._entered = grown(self._entered, self._store.capacity, NEVER)

    def snapshot(self) -> State:
        """Rows by partition and number, and how many rows each partition has had."""
        live = self._store.live_slots()
        live = live[np.lexsort((self._number[live], self._group[live]))]
        named = {f"c{i}": column for i, column in enumerate(self._store.gather(live))}
        times = {"ts": self._store.start[live], "exp": self._store.exp[live]}
        places = {"entered": self._entered[live], "number": self._number[live], "group": self._group[live]}
        known = np.arange(len(self._keys), dtype=np.int64)
        keys = self._keys.keys_of(known)
        counts = {"arrived": self._arrived[: len(known)], "unknown": self._unknown[: len(known)]}
        return {
            "rows": pa.table({**places, **times, **named}),
            "partitions": pa.table({"first": keys.first, "second": keys.second, **counts}),
        }

    def restore(self, state: State) -> None:
        partitions, rows = state["partitions"].combine_chunks(), state["rows"].combine_chunks()
        self._keys.intern(keys_from(partitions))
        delta = delta_of(rows.select(rows.column_names[3:]))
        slots = self._store.append(delta.ts, delta.exp, delta.columns)
        self._make_room()
        self._arrived[: partitions.num_rows] = numbers(partitions, "arrived")
        self._unknown[: partitions.num_rows] = numbers(partitions, "unknown")
        self._entered[slots] = numbers(rows, "entered")
        self._number[slots] = numbers(rows, "number")
        self._group[slots] = numbers(rows, "group")
        _relink(
            slots,
            self._group,
            self._number,
            self._slide,
            self._arrived,
            self._oldest,
            self._newest,
            self._waiting,
            self._newer,
        )

    @property
    def state_rows(self) -> int:
        return len(self._store)

    @property
    def state_bytes(self) -> int:
        return self._store.nbytes + self._keys.nbytes + 5 * self._arrived.nbytes + 4 * self._newer.nbytes
