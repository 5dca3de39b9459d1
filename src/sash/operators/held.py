"""Rows that an operator holds: a row store, the buffer that finds what leaves, and an index by value.

The index by value finds the row that a negative tuple takes back. It is kept only where there can be one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sash.errors import InternalError
from sash.operators.delta import NEVER, Delta, Ints
from sash.state.chains import Chains
from sash.state.expirations import Expirations
from sash.state.fingerprints import Keys, fingerprint
from sash.state.jit import kernel
from sash.state.rowstore import RowStore


@kernel
def _match(
    numbers: Ints, ts: Ints, heads: Ints, following: Ints, start: Ints, exp: Ints, end: Ints, out: Ints
) -> None:
    """For each negative tuple a row of its key that is there at the time and not taken back yet."""
    for i in range(numbers.shape[0]):
        out[i] = -1
        if numbers[i] < 0:
            continue
        slot = heads[numbers[i]]
        while slot >= 0:
            if start[slot] <= ts[i] and end[slot] == exp[slot]:
                out[i] = slot
                end[slot] = ts[i]
                break
            slot = following[slot]


class HeldRows:
    def __init__(self, types: Sequence[pa.DataType], buffer: Expirations, *, by_row: bool) -> None:
        self.rows = RowStore(types)
        self._buffer = buffer
        self._by_row = Chains() if by_row else None

    @property
    def nbytes(self) -> int:
        index = 0 if self._by_row is None else self._by_row.nbytes
        return self.rows.nbytes + self._buffer.nbytes + index

    def enter(self, delta: Delta) -> Ints:
        """Hold rows that enter; gives their slots."""
        slots = self.rows.append(delta.ts, delta.exp, delta.columns)
        self._buffer.push(slots, delta.exp)
        if self._by_row is not None:
            self._by_row.add(slots, row_keys(delta))
        return slots

    def match(self, leaving: Delta) -> Ints:
        """The slots of the rows that negative tuples take back; `end` is set to when. Rows stay held."""
        if self._by_row is None:
            raise InternalError("a negative tuple came where none can")
        order = np.argsort(leaving.ts, kind="stable")
        numbers = self._by_row.keys.find(row_keys(leaving))[order]
        found = np.empty(len(leaving), dtype=np.int64)
        chains = self._by_row
        _match(
            numbers,
            leaving.ts[order],
            chains.heads,
            chains.following,
            self.rows.start,
            self.rows.exp,
            self.rows.end,
            found,
        )
        if (found < 0).any():
            raise InternalError("a negative tuple takes back a row that is not there")
        slots = np.empty(len(leaving), dtype=np.int64)
        slots[order] = found
        return slots

    def due(self, through: int) -> Ints:
        """Slots of rows that leave as foreseen by `through`; they must be removed then."""
        return self._buffer.due(through)

    def forget(self, slots: Ints) -> None:
        """Rows that leave before their time will not be due."""
        if len(slots):
            self._buffer.remove(slots)

    def remove(self, slots: Ints, *, is_due: bool) -> None:
        """Let rows go: those that `due` gave or that were forgotten, or others."""
        if not len(slots):
            return
        if not is_due:
            self.forget(slots)
        if self._by_row is not None:
            self._by_row.remove(slots)
        self.rows.free(slots)

    def postpone(self, by: int) -> None:
        """All rows leave later by so much, or earlier."""
        if not by:
            return
        slots = self._buffer.due(NEVER - 1)
        self.rows.exp[slots] += by
        self.rows.end[slots] += by
        self._buffer.push(slots, self.rows.exp[slots])

    def table(self, chosen: Ints | None = None) -> pa.Table:
        """Rows, or all of them, in the order in which they leave."""
        slots = self.rows.live_slots() if chosen is None else chosen
        order = np.lexsort((self.rows.start[slots], self.rows.end[slots]))
        slots = slots[order]
        columns = {f"c{i}": column for i, column in enumerate(self.rows.gather(slots))}
        return pa.table({"ts": self.rows.start[slots], "exp": self.rows.end[slots], **columns})

    def load(self, table: pa.Table) -> Ints:
        return self.enter(delta_of(table))


def numbers(table: pa.Table, name: str) -> Ints:
    """An integer column of a state."""
    return np.array(_array(table.column(name)))


def delta_of(table: pa.Table) -> Delta:
    """Rows that enter, from a table of `HeldRows`."""
    whole = table.combine_chunks()
    columns = [_array(whole.column(name)) for name in whole.column_names]
    return Delta(np.asarray(columns[0]), np.asarray(columns[1]), tuple(columns[2:]))


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def row_keys(delta: Delta) -> Keys:
    """What a negative tuple and its row have in common: the values and the foreseen end."""
    return fingerprint([pa.array(delta.exp), *delta.columns], len(delta))
