"""A bag of rows: each different row once, with how often it is there. What views and limits are read from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sash.lang.algebra import Field
from sash.operators.delta import NEVER, Delta, Ints
from sash.operators.held import delta_of, numbers
from sash.operators.operator import arrow_types
from sash.state.fingerprints import fingerprint
from sash.state.keytable import KeyTable, distinct, first_of_each, grown
from sash.state.rowstore import RowStore


class Bag:
    """Rows are known by numbers, which stay theirs until they are forgotten."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self._keys = KeyTable()
        self._rows = RowStore(arrow_types(fields))
        self._slot = np.zeros(0, dtype=np.int64)
        self.count = np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        """The number of different rows."""
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes + self._keys.nbytes + self._slot.nbytes + self.count.nbytes

    def know(self, delta: Delta) -> Ints:
        """The numbers of the rows of a delta; new rows get one, and are there no times."""
        values = self._keys.intern(fingerprint(delta.columns, len(delta)))
        self._slot = grown(self._slot, self._keys.capacity, -1)
        self.count = grown(self.count, self._keys.capacity, 0)
        unknown = np.flatnonzero(self._slot[values] < 0)
        if len(unknown):
            added, where = first_of_each(values[unknown])
            rows = delta.take(unknown[where])
            self._slot[added] = self._rows.append(rows.ts, rows.exp, rows.columns)
        return values

    def forget(self, values: Ints) -> Ints:
        """Let go of those of some rows that are not there any more; gives them."""
        gone = distinct(values[self.count[values] == 0])
        self._rows.free(self._slot[gone])
        self._slot[gone] = -1
        self._keys.release(gone)
        return gone

    def live(self) -> Ints:
        """The numbers of the rows that are there, each once."""
        return np.flatnonzero(self.count > 0)

    def columns(self, values: Ints) -> tuple[pa.Array, ...]:
        return self._rows.gather(self._slot[values])

    def table(self) -> pa.Table:
        live = self.live()
        never = np.full(len(live), NEVER, dtype=np.int64)
        columns = {f"c{i}": column for i, column in enumerate(self.columns(live))}
        return pa.table({"count": self.count[live], "ts": live, "exp": never, **columns})

    def load(self, table: pa.Table) -> None:
        values = self.know(delta_of(table.select(table.column_names[1:])))
        self.count[values] = numbers(table, "count")
