"""Announcing: every departure becomes a negative tuple (the negative tuple approach, 002, section 2.3.3).

Rows that are foreseen to leave are kept until they do, in the state buffer that fits their update pattern; a
negative tuple for a row that leaves before its time takes it out of there. What comes out is explicit: rows
enter with `exp` NEVER, and each that leaves is named.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sash.lang.algebra import Field
from sash.operators.delta import NEVER, Delta, Ints, concat
from sash.operators.held import HeldRows
from sash.operators.operator import Moment, Operator, State, arrow_types
from sash.state.expirations import Expirations


class Announcer(Operator):
    """`may_be_negative`: whether negative tuples for rows with a foreseen end can come."""

    def __init__(self, fields: Sequence[Field], buffer: Expirations, *, may_be_negative: bool) -> None:
        self.fields = tuple(fields)
        self._held = HeldRows(arrow_types(fields), buffer, by_row=may_be_negative)

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        (delta,) = inputs
        signs = delta.signs()
        foreseen = delta.exp != NEVER
        if foreseen.any():
            self._held.enter(delta.filter(foreseen & (signs > 0)))
            leaving = delta.filter(foreseen & (signs < 0)) if delta.sign is not None else None
            if leaving is not None and len(leaving):
                slots = self._held.match(leaving)
                self._held.remove(slots, is_due=False)
        given = Delta(delta.ts, np.full(len(delta), NEVER, dtype=np.int64), delta.columns, delta.sign)
        due = self._held.due(moment.through)
        if not len(due):
            return given
        gone = self._gone(due)
        self._held.remove(due, is_due=True)
        return concat([given, gone], self.fields)

    def _gone(self, slots: Ints) -> Delta:
        rows = self._held.rows
        never = np.full(len(slots), NEVER, dtype=np.int64)
        return Delta(rows.exp[slots], never, rows.gather(slots), np.full(len(slots), -1, dtype=np.int8))

    def snapshot(self) -> State:
        return {"rows": self._held.table()}

    def restore(self, state: State) -> None:
        self._held.load(state["rows"])

    @property
    def state_rows(self) -> int:
        return len(self._held.rows)

    @property
    def state_bytes(self) -> int:
        return self._held.nbytes
