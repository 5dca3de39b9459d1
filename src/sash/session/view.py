"""The contents of a view, made of its change log.

Invariant: the contents are the bag sum of all changes so far; rows that came and went as often are not in
it. Changes are gathered and summed up together, at the latest when they outnumber the contents, so a change
costs O(1) over time and memory follows the contents.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.errors import InternalError
from sash.state.groups import canonical, plain

# Changes that are gathered however small the view is.
MOST_CHANGES = 1 << 16


class View:
    """Not for several threads at once: an inbox guards it."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._contents = schema.empty_table()
        self._in_order = True
        self._changes: list[pa.Table] = []
        self._waiting = 0

    def add(self, changes: pa.Table) -> None:
        """Take in a stretch of the change log: the columns of the view and `op`."""
        self._changes.append(changes.select(["op", *self.schema.names]))
        self._waiting += changes.num_rows
        if self._waiting > max(MOST_CHANGES, self._contents.num_rows):
            self._sum_up()

    def contents(self) -> pa.Table:
        """The rows as they are now, in the order of their values, NULL last."""
        if self._changes:
            self._sum_up()
        if not self._in_order:
            named = self._contents.rename_columns([f"c{i}" for i in range(len(self.schema))])
            keys = [(name, "ascending") for name in named.column_names]
            self._contents = self._contents.take(pc.sort_indices(named, keys)).combine_chunks()
            self._in_order = True
        return self._contents

    def begin_with(self, contents: pa.Table) -> None:
        """Rows that were there before the first change."""
        self._contents = contents.cast(self.schema)
        self._in_order = False

    def _sum_up(self) -> None:
        names = [f"c{i}" for i in range(len(self.schema))]
        parts = [_signed(self._contents.columns, names, None)]
        for changes in self._changes:
            parts.append(_signed(changes.columns[1:], names, changes.column("op")))
        # One thread: then the order of rows depends on their history alone.
        summed = pa.concat_tables(parts).group_by(names, use_threads=False).aggregate([("sign", "sum")])
        counts = summed.column("sign_sum").to_numpy()
        if (counts < 0).any():
            raise InternalError("a view lost a row that it did not have")
        rows = pa.array(np.repeat(np.arange(len(counts)), counts))
        kept = summed.select(names).take(rows)
        self._contents = pa.Table.from_arrays(kept.columns, schema=self.schema).combine_chunks()
        self._changes, self._waiting = [], 0
        self._in_order = False


def _signed(columns: list[pa.ChunkedArray], names: list[str], op: pa.ChunkedArray | None) -> pa.Table:
    """Rows under plain names with `sign`, 1 or −1."""
    rows = len(columns[0])
    if op is None:
        sign = pa.array(np.ones(rows, dtype=np.int64))
    else:
        sign = plain(pc.if_else(pc.equal(op, "+"), 1, -1).cast(pa.int64()))
    arrays = [canonical(plain(column)) for column in columns]
    return pa.Table.from_arrays([*arrays, sign], names=[*names, "sign"])
