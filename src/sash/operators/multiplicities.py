"""Operators that count equal rows: EXCEPT ALL, INTERSECT ALL and the counting form of DISTINCT (002, 2.2.2).

Of a value that stands l times on the left and r times on the right the answer has

    EXCEPT ALL      max(0, l − r)
    INTERSECT ALL   min(l, r)
    DISTINCT        min(l, 1)

copies. At each instant the number before and after is compared, so rows that come and go at one instant
leave no trace. Input and output are explicit: every departure is a negative tuple. Space is one row per
value and two counters, time O(1) per change, after sorting a batch.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sash.lang.algebra import Field
from sash.operators.delta import NEVER, Delta, Ints, concat, empty_delta
from sash.operators.held import delta_of, numbers
from sash.operators.operator import Moment, Operator, State, arrow_types
from sash.state.fingerprints import fingerprint
from sash.state.jit import kernel
from sash.state.keytable import KeyTable, distinct, first_of_each, grown
from sash.state.rowstore import RowStore


class Counted(enum.IntEnum):
    EXCEPT = 0
    INTERSECT = 1
    DISTINCT = 2


@kernel
def _copies(kind: int, left: int, right: int) -> int:
    if kind == 0:
        return max(0, left - right)
    if kind == 1:
        return min(left, right)
    return min(left, 1)


@kernel
def _count(
    kind: int, values: Ints, ts: Ints, is_right: Ints, signs: Ints, left: Ints, right: Ints, out: Ints
) -> int:
    """Changes in the order of (value, ts); writes value, ts and by how many copies the answer changes."""
    count = 0
    i = 0
    while i < values.shape[0]:
        value, instant = values[i], ts[i]
        before = _copies(kind, left[value], right[value])
        while i < values.shape[0] and values[i] == value and ts[i] == instant:
            if is_right[i]:
                right[value] += signs[i]
            else:
                left[value] += signs[i]
            i += 1
        change = _copies(kind, left[value], right[value]) - before
        if change != 0:
            out[0, count] = value
            out[1, count] = instant
            out[2, count] = change
            count += 1
    return count


class Multiplicities(Operator):
    def __init__(self, fields: Sequence[Field], kind: Counted) -> None:
        self.fields = tuple(fields)
        self._kind = kind
        self._values = KeyTable()
        self._rows = RowStore(arrow_types(fields))
        self._slot = np.zeros(0, dtype=np.int64)
        self._left = np.zeros(0, dtype=np.int64)
        self._right = np.zeros(0, dtype=np.int64)

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        delta = concat(inputs, self.fields)
        if not len(delta):
            return empty_delta(self.fields)
        is_right = np.repeat(np.arange(len(inputs)), [len(each) for each in inputs])
        values = self._values.intern(fingerprint(delta.columns, len(delta)))
        self._remember(delta, values)
        order = np.lexsort((delta.ts, values))
        out = np.empty((3, len(values)), dtype=np.int64)
        signs = delta.signs().astype(np.int64)
        count = _count(
            self._kind,
            values[order],
            delta.ts[order],
            is_right[order],
            signs[order],
            self._left,
            self._right,
            out,
        )
        given = self._changes(out[:, :count])
        self._forget(distinct(values))
        return given

    def _remember(self, delta: Delta, values: Ints) -> None:
        size = self._values.capacity
        self._slot = grown(self._slot, size, -1)
        self._left = grown(self._left, size, 0)
        self._right = grown(self._right, size, 0)
        unknown = np.flatnonzero(self._slot[values] < 0)
        if len(unknown):
            added, where = first_of_each(values[unknown])
            rows = delta.take(unknown[where])
            self._slot[added] = self._rows.append(rows.ts, rows.exp, rows.columns)

    def _changes(self, out: Ints) -> Delta:
        copies = np.abs(out[2])
        values, ts, change = (np.repeat(part, copies) for part in out)
        never = np.full(len(ts), NEVER, dtype=np.int64)
        return Delta(ts, never, self._rows.gather(self._slot[values]), np.sign(change).astype(np.int8))

    def _forget(self, values: Ints) -> None:
        gone = values[(self._left[values] == 0) & (self._right[values] == 0)]
        self._rows.free(self._slot[gone])
        self._slot[gone] = -1
        self._values.release(gone)

    def snapshot(self) -> State:
        live = np.flatnonzero(self._slot >= 0)
        columns = {f"c{i}": column for i, column in enumerate(self._rows.gather(self._slot[live]))}
        counts = {"left": self._left[live], "right": self._right[live]}
        never = np.full(len(live), NEVER, dtype=np.int64)
        return {"rows": pa.table({**counts, "ts": live, "exp": never, **columns})}

    def restore(self, state: State) -> None:
        table = state["rows"].combine_chunks()
        delta = delta_of(table.select(table.column_names[2:]))
        values = self._values.intern(fingerprint(delta.columns, len(delta)))
        self._remember(delta, values)
        self._left[values] = numbers(table, "left")
        self._right[values] = numbers(table, "right")

    @property
    def state_rows(self) -> int:
        return len(self._rows)

    @property
    def state_bytes(self) -> int:
        arrays = self._slot.nbytes + self._left.nbytes + self._right.nbytes
        return self._rows.nbytes + self._values.nbytes + arrays
