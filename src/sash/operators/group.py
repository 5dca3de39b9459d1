"""Grouping: the aggregates of each group of rows, renewed at every instant at which they change.

Rows come and go one by one as explicit changes; no row is kept, only what the aggregates need (002, section
2.3.1). At an instant at which a group's row changes, the old row is taken back and the new one given. A group
is there while it has rows; without keys there is one group, which is always there.

A batch is put in the order of time and every aggregate runs through it once, without a step of Python per
row. State: a number per group from a key table, the keys of groups in a row store, arrays by number in the
aggregates.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.errors import InternalError
from sash.lang.algebra import Field
from sash.lang.values import AggregateCall
from sash.operators.aggregates.calls import Calls
from sash.operators.aggregates.events import Schedule, Touches, own
from sash.operators.aggregates.frequent_lists import Cut
from sash.operators.delta import ALWAYS, NEVER, Bools, Delta, Ints, Signs, empty_delta, one_array
from sash.operators.operator import Moment, Operator, State, arrow_types
from sash.state.fingerprints import fingerprint
from sash.state.keytable import KeyTable, grown
from sash.state.rowstore import RowStore


class Grouping(Operator):
    """Columns of the input: the keys, then arguments; `arguments[i]` is where call i finds its own.

    `fifo` promises that the rows of a group leave in the order in which they came, and none is taken back,
    `endless` that none ever leaves; `cut` says where the sub-windows of FREQUENT end.
    """

    def __init__(
        self,
        keys: Sequence[Field],
        calls: Sequence[AggregateCall],
        arguments: Sequence[int | None],
        fields: Sequence[Field],
        input_types: Sequence[pa.DataType],
        *,
        fifo: bool = False,
        endless: bool = False,
        cut: Cut | None = None,
    ) -> None:
        self.fields = tuple(fields)
        self._key_count = len(keys)
        self._calls = Calls(calls, arguments, input_types, fifo=fifo, endless=endless, cut=cut)
        self._numbers = KeyTable()
        self._keys = RowStore(arrow_types(keys))
        self._slots = np.full(self._numbers.capacity, -1, dtype=np.int64)
        self._schedule = Schedule()
        # The one group without keys is shown from the first call on.
        self._is_shown = bool(keys)
        if not keys:
            self._number_rows([], 1)

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        (delta,) = inputs
        if not len(delta):
            return empty_delta(self.fields) if self._is_shown else self._show()
        ts, signs = own(delta.ts), delta.signs().astype(np.int64)
        columns = delta.columns
        if not bool((ts[1:] >= ts[:-1]).all()):
            order = np.argsort(ts, kind="stable")
            ts, signs = ts[order], signs[order]
            indices = pa.array(order)
            columns = tuple(column.take(indices) for column in columns)
        numbers = self._number_rows(columns[: self._key_count], len(delta))
        events, touches, firsts = self._schedule.plan(ts, numbers, signs, self._numbers.capacity)
        self._keep_keys(events.groups, firsts, columns)
        self._calls.follow(events, columns)
        result = self._changes(touches)
        self._forget(events.groups)
        return result

    def _number_rows(self, keys: Sequence[pa.Array], rows: int) -> Ints:
        numbers = self._numbers.intern(fingerprint(keys, rows))
        self._slots = grown(self._slots, self._numbers.capacity, -1)
        return numbers

    def _keep_keys(self, groups: Ints, firsts: Ints, columns: Sequence[pa.Array]) -> None:
        """Keep the keys of groups that are new."""
        new = self._slots[groups] < 0
        if self._key_count and new.any():
            rows = pa.array(firsts[new])
            keys = [_plain(column.take(rows)) for column in columns[: self._key_count]]
            none = np.zeros(len(rows), dtype=np.int64)
            self._slots[groups[new]] = self._keys.append(none, none, keys)

    def _show(self) -> Delta:
        """The one group before anything happened."""
        events, touches = self._schedule.still(0, self._numbers.capacity)
        empty = [pa.array([], type_) for type_ in self._calls.types]
        self._calls.follow(events, empty)
        result = self._changes(touches)
        self._calls.settle()
        return result

    def _changes(self, touches: Touches) -> Delta:
        """What the samples say has changed, in the order of time."""
        values = self._calls.values()
        was, has = self._presence(touches)
        differs: Bools = was != has
        for column in values:
            differs |= column.differs(touches.samples, touches.previous)
        # For each touch the row that goes and the row that comes.
        shown: Bools = np.stack([was & differs, has & differs], axis=1).reshape(-1)
        places = np.flatnonzero(shown)
        samples = np.stack([touches.previous, touches.samples], axis=1).reshape(-1)[places]
        touched = places >> 1
        ts, numbers = touches.ts[touched], touches.numbers[touched]
        sign: Signs = np.where(places & 1, 1, -1).astype(np.int8)
        if not self._is_shown:
            self._is_shown = True
            if not len(ts) or ts[0] != ALWAYS:
                samples, ts = np.append(0, samples), np.append(ALWAYS, ts)
                numbers, sign = np.append(0, numbers), np.append(np.int8(1), sign)
        keys = self._keys.gather(self._slots[numbers]) if self._key_count else ()
        never = np.full(len(ts), NEVER, dtype=np.int64)
        return Delta(ts, never, (*keys, *(column.take(samples) for column in values)), sign)

    def _presence(self, touches: Touches) -> tuple[Bools, Bools]:
        """Whether the group of each touch was there before it, and is after it."""
        if self._key_count:
            rows = self._calls.row_counts
            return rows[touches.previous] > 0, rows[touches.samples] > 0
        was: Bools = np.ones(len(touches.ts), dtype=np.bool_)
        has = was.copy()
        if not self._is_shown and len(was) and touches.ts[0] == ALWAYS:
            was[0] = False
        return was, has

    def _forget(self, groups: Ints) -> None:
        """Let go of samples, and of groups without rows."""
        self._calls.settle()
        rows = self._calls.rows_now(groups)
        if (rows < 0).any():
            raise InternalError("a negative tuple takes back a row that is not there")
        gone = groups[rows == 0]
        if len(gone) and self._key_count:
            self._calls.reset(gone)
            self._keys.free(self._slots[gone])
            self._slots[gone] = -1
            self._numbers.release(gone)

    def snapshot(self) -> State:
        if not self._is_shown:
            # Nothing has been processed yet.
            return {}
        numbers = np.flatnonzero(self._slots >= 0) if self._key_count else np.zeros(1, dtype=np.int64)
        rows = np.full(self._numbers.capacity, -1, dtype=np.int64)
        rows[numbers] = np.arange(len(numbers))
        keys = self._keys.gather(self._slots[numbers]) if self._key_count else ()
        table = pa.table(
            {
                **{f"k{i}": column for i, column in enumerate(keys)},
                "is_shown": np.full(len(numbers), self._is_shown, dtype=np.bool_),
            }
        )
        return {"groups": table, **self._calls.snapshot(numbers, rows)}

    def restore(self, state: State) -> None:
        table = state["groups"]
        keys = [one_array(table.column(i)) for i in range(self._key_count)]
        numbers = self._number_rows(keys, table.num_rows)
        none = np.zeros(len(numbers), dtype=np.int64)
        if self._key_count:
            self._slots[numbers] = self._keys.append(none, none, keys)
        else:
            self._is_shown = bool(table.column("is_shown")[0].as_py())
        self._calls.restore(state, numbers, self._numbers.capacity)

    @property
    def state_rows(self) -> int:
        """Groups, and values that aggregates hold one by one."""
        return len(self._numbers) + self._calls.entries

    @property
    def state_bytes(self) -> int:
        held = self._numbers.nbytes + self._keys.nbytes + self._slots.nbytes + self._schedule.nbytes
        return held + self._calls.nbytes


def _plain(column: pa.Array) -> pa.Array:
    """A column of keys with one zero and one NaN, whichever came first."""
    if not pa.types.is_floating(column.type):
        return column
    return pc.if_else(pc.is_nan(column), pa.scalar(float("nan")), pc.add(column, 0.0))
