"""A relation from its feed of changes: insert, update and delete by key become rows that enter and leave.

A row replaces the one with its key, whether it is called an insert or an update; a delete without a row is
nothing. Of several changes of one key at one instant the last counts. A feed without keys only adds rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.errors import DataError
from sash.lang.algebra import Field
from sash.operators.delta import NEVER, Delta, Ints, empty_delta
from sash.operators.held import delta_of, numbers
from sash.operators.operator import Moment, Operator, State, arrow_types
from sash.state.fingerprints import fingerprint, keys_from
from sash.state.jit import kernel
from sash.state.keytable import KeyTable, grown
from sash.state.rowstore import RowStore

OPERATIONS = ("insert", "update", "delete")


@kernel
def _apply(keys: Ints, ts: Ints, slots: Ints, is_delete: Ints, current: Ints, out: Ints) -> int:
    """Changes in the order of (key, ts, arrival); writes slot, ts and sign of what leaves and enters."""
    count = 0
    i = 0
    while i < keys.shape[0]:
        key, instant = keys[i], ts[i]
        while i + 1 < keys.shape[0] and keys[i + 1] == key and ts[i + 1] == instant:
            i += 1
        if current[key] >= 0:
            out[0, count], out[1, count], out[2, count] = current[key], instant, -1
            count += 1
        current[key] = -1
        if not is_delete[i]:
            out[0, count], out[1, count], out[2, count] = slots[i], instant, 1
            count += 1
            current[key] = slots[i]
        i += 1
    return count


class RelationFeed(Operator):
    """Input has the columns of the relation and then, with `has_operation`, the operation.

    `key` has the positions of the key's columns. `is_final`: a key that was deleted may not come back, which
    makes a relation non-retroactive (002, section 3.3.1).
    """

    def __init__(
        self, fields: Sequence[Field], key: Sequence[int], *, has_operation: bool, is_final: bool, name: str
    ) -> None:
        self.fields = tuple(fields)
        self._key = tuple(key)
        self._has_operation = has_operation
        self._is_final = is_final
        self._name = name
        self._keys = KeyTable()
        self._rows = RowStore(arrow_types(fields))
        self._current = np.zeros(0, dtype=np.int64)
        self._deleted = np.zeros(0, dtype=np.bool_)

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        delta = inputs[0].sorted()
        if not len(delta):
            return empty_delta(self.fields)
        is_delete = np.zeros(len(delta), dtype=np.int64)
        if self._has_operation:
            is_delete = self._operations(delta.columns[-1])
            delta = delta.with_columns(delta.columns[:-1])
        if not self._key:
            return delta
        keys = self._keys.intern(fingerprint([delta.columns[i] for i in self._key], len(delta)))
        self._current = grown(self._current, self._keys.capacity, -1)
        self._deleted = grown(self._deleted, self._keys.capacity, False)
        order = np.argsort(keys, kind="stable")
        delta, keys, is_delete = delta.take(order), keys[order], is_delete[order]
        if self._is_final:
            self._check_return(delta, keys, is_delete)
        return self._changes(delta, keys, is_delete)

    def _operations(self, column: pa.Array) -> Ints:
        lowered = pc.utf8_lower(pc.utf8_trim_whitespace(column))
        known = pc.is_in(lowered, value_set=pa.array(OPERATIONS)).to_numpy(zero_copy_only=False)
        if not known.all():
            wrong = column[int(np.flatnonzero(~known)[0])].as_py()
            raise DataError(
                f"relation '{self._name}' has a change that is neither insert, update nor delete",
                expected=", ".join(OPERATIONS),
                got=repr(wrong),
                id="relation-operation",
            )
        is_delete: Ints = pc.equal(lowered, "delete").to_numpy(zero_copy_only=False).astype(np.int64)
        return is_delete

    def _check_return(self, delta: Delta, keys: Ints, is_delete: Ints) -> None:
        """Rows stand by key and time, so a key has come back if a row follows its deletion."""
        after = np.zeros(len(keys), dtype=np.bool_)
        after[1:] = (keys[1:] == keys[:-1]) & (is_delete[:-1] == 1)
        wrong = np.flatnonzero((after | self._deleted[keys]) & (is_delete == 0))
        if len(wrong):
            values = [delta.columns[i][int(wrong[0])].as_py() for i in self._key]
            raise DataError(
                f"a deleted key comes back in the non-retroactive relation '{self._name}'",
                got=", ".join(map(repr, values)),
                hint="declare the relation without NON RETROACTIVE, or give the row a key of its own",
                id="relation-key-returns",
            )
        self._deleted[keys[is_delete == 1]] = True

    def _changes(self, delta: Delta, keys: Ints, is_delete: Ints) -> Delta:
        slots = self._rows.append(delta.ts, delta.exp, delta.columns)
        out = np.empty((3, 2 * len(keys)), dtype=np.int64)
        before = self._current[keys]
        count = _apply(keys, delta.ts, slots, is_delete, self._current, out)
        given = Delta(
            out[1, :count].copy(),
            np.full(count, NEVER, dtype=np.int64),
            self._rows.gather(out[0, :count]),
            out[2, :count].astype(np.int8),
        )
        touched = np.unique(np.concatenate([slots, before[before >= 0]]))
        kept = self._current[np.unique(keys)]
        self._rows.free(np.setdiff1d(touched, kept))
        return given

    def snapshot(self) -> State:
        known = np.flatnonzero((self._current >= 0) | self._deleted)
        current = self._current[known]
        keys = self._keys.keys_of(known)
        live = current[current >= 0]
        columns = {f"c{i}": column for i, column in enumerate(self._rows.gather(live))}
        never = np.full(len(live), NEVER, dtype=np.int64)
        return {
            "keys": pa.table({"first": keys.first, "second": keys.second, "has_row": current >= 0}),
            "rows": pa.table({"ts": self._rows.start[live], "exp": never, **columns}),
        }

    def restore(self, state: State) -> None:
        table, rows = state["keys"].combine_chunks(), delta_of(state["rows"])
        known = self._keys.intern(keys_from(table))
        self._current = grown(self._current, self._keys.capacity, -1)
        self._deleted = grown(self._deleted, self._keys.capacity, False)
        has_row = numbers(table, "has_row").astype(np.bool_)
        self._current[known[has_row]] = self._rows.append(rows.ts, rows.exp, rows.columns)
        self._deleted[known[~has_row]] = True

    @property
    def state_rows(self) -> int:
        return len(self._rows)

    @property
    def state_bytes(self) -> int:
        return self._rows.nbytes + self._keys.nbytes + self._current.nbytes + self._deleted.nbytes
