"""δ*: duplicate elimination in space proportional to the output (002, sections 3.2.2 and 3.5.2).

For each value it keeps the row that stands in the answer and, as auxiliary output state, the youngest row
of the same value that has come since. When the first expires, the second takes its place; as all duplicates
that came between expire before the youngest, none of them is needed. Input expires as foreseen; so does the
output.

    input  a: 1────────5          answer  a: 1────────5─────────8
           a:    3────────6                  (the row of 4 takes over at 5; that of 3 was never kept)
           a:      4─────────8

Time O(1) per row and per replacement.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sash.lang.algebra import Field
from sash.operators.delta import Delta, Ints, empty_delta
from sash.operators.held import delta_of, numbers
from sash.operators.operator import Moment, Operator, State, arrow_types
from sash.state.expirations import Expirations
from sash.state.fingerprints import fingerprint
from sash.state.jit import kernel
from sash.state.keytable import KeyTable, first_of_each, grown
from sash.state.rowstore import RowStore

_GONE = np.iinfo(np.int64).min


@kernel
def _replace(value: int, through: int, first: Ints, second: Ints, out: Ints, count: int) -> int:
    """Let the auxiliary row take over when the answer's row has expired by `through`; gives the new count."""
    while first[value] != _GONE and first[value] <= through:
        if second[value] > first[value]:
            out[0, count] = value
            out[1, count] = first[value]
            out[2, count] = second[value]
            count += 1
            first[value] = second[value]
        else:
            first[value] = _GONE
        second[value] = _GONE
    return count


@kernel
def _enter(
    values: Ints, ts: Ints, exp: Ints, due: Ints, through: int, first: Ints, second: Ints, out: Ints
) -> int:
    """Rows in the order of time; then what expires by `through` of the values that are due or new."""
    count = 0
    for i in range(values.shape[0]):
        value = values[i]
        count = _replace(value, ts[i], first, second, out, count)
        if first[value] == _GONE:
            out[0, count] = value
            out[1, count] = ts[i]
            out[2, count] = exp[i]
            count += 1
            first[value] = exp[i]
        elif exp[i] > first[value] and exp[i] > second[value]:
            second[value] = exp[i]
    for i in range(due.shape[0]):
        count = _replace(due[i], through, first, second, out, count)
    return count


class DeltaStar(Operator):
    """`buffer` holds the rows of the answer."""

    def __init__(self, fields: Sequence[Field], buffer: Expirations) -> None:
        self.fields = tuple(fields)
        self._rows = RowStore(arrow_types(fields))
        self._buffer = buffer
        self._values = KeyTable()
        # By the number of a value: when its two rows expire, and where its columns are.
        self._first = np.zeros(0, dtype=np.int64)
        self._second = np.zeros(0, dtype=np.int64)
        self._slot = np.zeros(0, dtype=np.int64)
        self._value_of = np.zeros(0, dtype=np.int64)

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        delta = inputs[0].sorted()
        values = self._values.intern(fingerprint(delta.columns, len(delta)))
        added = self._remember(delta, values)
        due = self._value_of[self._buffer.due(moment.through)]
        if not len(values) and not len(due):
            return empty_delta(self.fields)
        changing = np.concatenate([due, added])
        out = np.empty((3, 2 * len(values) + len(due)), dtype=np.int64)
        count = _enter(values, delta.ts, delta.exp, changing, moment.through, self._first, self._second, out)
        given = Delta(
            out[1, :count].copy(), out[2, :count].copy(), self._rows.gather(self._slot[out[0, :count]])
        )
        self._settle(changing)
        return given

    def _remember(self, delta: Delta, values: Ints) -> Ints:
        """Keep the columns of values that were not known; gives their numbers."""
        size = self._values.capacity
        self._first = grown(self._first, size, _GONE)
        self._second = grown(self._second, size, _GONE)
        self._slot = grown(self._slot, size, -1)
        unknown = np.flatnonzero(self._slot[values] < 0)
        if not len(unknown):
            return unknown
        added, where = first_of_each(values[unknown])
        rows = delta.take(unknown[where])
        slots = self._rows.append(rows.ts, rows.exp, rows.columns)
        self._slot[added] = slots
        self._value_of = grown(self._value_of, self._rows.capacity, -1)
        self._value_of[slots] = added
        return added

    def _settle(self, values: Ints) -> None:
        """Await the expiration of new answers; forget values that have none."""
        is_live = self._first[values] != _GONE
        live, dead = values[is_live], values[~is_live]
        self._buffer.push(self._slot[live], self._first[live])
        self._rows.free(self._slot[dead])
        self._slot[dead] = -1
        self._values.release(dead)

    def snapshot(self) -> State:
        slots = self._rows.live_slots()
        values = self._value_of[slots]
        columns = {f"c{i}": column for i, column in enumerate(self._rows.gather(slots))}
        return {
            "rows": pa.table(
                {"second": self._second[values], "ts": values, "exp": self._first[values], **columns}
            )
        }

    def restore(self, state: State) -> None:
        table = state["rows"].combine_chunks()
        delta = delta_of(table.select(table.column_names[1:]))
        values = self._values.intern(fingerprint(delta.columns, len(delta)))
        self._remember(delta, values)
        self._first[values] = delta.exp
        self._second[values] = numbers(table, "second")
        self._buffer.push(self._slot[values], delta.exp)

    @property
    def state_rows(self) -> int:
        """Rows of the answer and of the auxiliary state."""
        return len(self._rows) + int((self._second != _GONE).sum())

    @property
    def state_bytes(self) -> int:
        arrays = self._first.nbytes + self._second.nbytes + self._slot.nbytes + self._value_of.nbytes
        return self._rows.nbytes + self._buffer.nbytes + self._values.nbytes + arrays
