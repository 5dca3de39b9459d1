"""Joins that look a row up in a relation when it comes: with static and with non-retroactive relations
(⋈NRR).

A row joins the relation as it was when the row arrived; a result of a join of rows, when the last of them did
(the timestamp of the result: 002, definition 3.1). Results live as long as the row; later changes of the
relation touch only later rows (sections 3.3.1 and 3.5.1). So nothing of the stream is kept, only the
relation. Where windows slide or have an OFFSET, rows come here later than they arrived, by a `delay` at most:
they say when that was, and what has left the relation is kept for so long. An outer join keeps rows without a
match, with NULL for the relation's columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sash.lang.algebra import Field
from sash.lang.values import Scalar
from sash.operators.arrivals import ARRIVED
from sash.operators.delta import ARROW_TYPES, Delta, Ints, as_table, concat, empty_delta, one_array
from sash.operators.evaluate import evaluate, evaluate_mask
from sash.operators.join import JoinInput, Side
from sash.operators.operator import Moment, Operator, State
from sash.operators.probing import ALL, collect, probe_all, probe_chains
from sash.state.expirations import Silent
from sash.state.fingerprints import fingerprint

_NONE = np.zeros(0, dtype=np.int64)


class LookupJoin(Operator):
    def __init__(
        self,
        left: Sequence[Field],
        right: Sequence[Field],
        left_keys: Sequence[Scalar],
        right_keys: Sequence[Scalar],
        residual: Scalar | None,
        *,
        is_outer: bool,
        delay: int = 0,
    ) -> None:
        """With a `delay` the rows of the left have a column ARRIVED."""
        self.fields = (*left, *right)
        self._left = tuple(left)
        self._right = tuple(right)
        self._left_keys = tuple(left_keys)
        self._key = tuple(right_keys)
        self._residual = residual
        self._is_outer = is_outer
        relation = JoinInput(self._right, Silent(), may_be_negative=True)
        self._side = Side(relation, [self._key] if self._key else [])
        self._delay = delay
        self._arrived = self._left.index(ARRIVED) if delay else None
        self._batch = 0

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        left, right = inputs
        self._batch += 1
        entering, leaving = self._side.widened(right.entering), right.leaving
        if len(entering):
            self._side.enter(entering, self._batch)
        gone = _NONE if leaving is None else self._side.held.match(self._side.widened(leaving))
        given = self._joined(left) if len(left) else empty_delta(self.fields)
        self._side.put_aside(gone, is_due=False)
        # Rows that arrived by then have been looked up.
        is_over = self._side.held.rows.end[self._side.aside] <= moment.through - self._delay
        self._side.remove(self._side.take_aside(is_over), is_due=True)
        return given

    def _joined(self, left: Delta) -> Delta:
        origin, slots = self._matches(left)
        found = left.take(origin)
        columns = self._side.held.rows.gather(slots, range(len(self._right)))
        pairs = found.with_columns((*found.columns, *columns))
        if self._residual is not None and len(pairs):
            table = as_table(pairs.columns, self.names, len(pairs))
            mask = evaluate_mask(table, self._residual).to_numpy(zero_copy_only=False)
            pairs, origin = pairs.filter(mask), origin[mask]
        if not self._is_outer:
            return pairs
        alone = np.ones(len(left), dtype=np.bool_)
        alone[origin] = False
        rest = left.filter(alone) if alone.any() else empty_delta(self._left)
        padding = (pa.nulls(len(rest), ARROW_TYPES[field.type]) for field in self._right)
        return concat([pairs, rest.with_columns((*rest.columns, *padding))], self.fields)

    def _matches(self, left: Delta) -> tuple[Ints, Ints]:
        """Pairs of a position on the left and a slot of the relation."""
        rows = self._side.held.rows
        times = (rows.start, rows.exp, rows.end, rows.born)
        at = left.ts if self._arrived is None else left.columns[self._arrived].to_numpy()
        until = at + 1
        if not self._key:
            live = rows.live_slots()
            nobody = np.zeros(len(left), dtype=np.int64)
            return collect(
                lambda origin, slots: probe_all(
                    nobody, at, until, live, _NONE, False, *times, ALL, self._batch, origin, slots
                ),
                len(left),
            )
        table = as_table(left.columns, [field.name for field in self._left], len(left))
        keys = fingerprint([one_array(c) for c in evaluate(table, self._left_keys)], len(left))
        index = self._side.indexes[self._side.places(self._key)]
        numbers = index.keys.find(keys)
        if keys.nulls is not None:
            numbers = np.where(keys.nulls, -1, numbers)
        arrays = (index.heads, index.following, *times)
        return collect(
            lambda origin, slots: probe_chains(
                numbers, at, until, *arrays, ALL, self._batch, False, origin, slots
            ),
            len(left),
        )

    def snapshot(self) -> State:
        return {f"relation{name}": rows for name, rows in self._side.snapshot().items()}

    def restore(self, state: State) -> None:
        self._side.restore(state["relation"], state.get("relation.aside"))

    @property
    def state_rows(self) -> int:
        return len(self._side.held.rows)

    @property
    def state_bytes(self) -> int:
        return self._side.nbytes
