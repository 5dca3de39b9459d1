"""Resampling: a relation that changes at any time is looked at when the time is a multiple of a step.

It commutes with every operator that gives a combination the common life of its parts, so an eager join
below it gives what a lazy join of sliding windows gives (002, section 5.2).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sash.lang.algebra import Field
from sash.operators.delta import Delta, concat, empty_delta
from sash.operators.held import delta_of, numbers
from sash.operators.net import net_foreseen
from sash.operators.operator import Moment, Operator, State
from sash.operators.time_window import next_multiple


class Resample(Operator):
    def __init__(self, fields: Sequence[Field], step: int) -> None:
        self.fields = tuple(fields)
        self._step = step
        self._waiting = empty_delta(fields)

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        (delta,) = inputs
        start = next_multiple(delta.ts, self._step)
        end = next_multiple(delta.exp, self._step)
        moved = Delta(start, end, delta.columns, delta.sign).filter(start < end)
        moved = concat([self._waiting, moved], self.fields)
        self._waiting = empty_delta(self.fields)
        if len(moved) and int(moved.ts.max()) > moment.through:
            self._waiting = moved.filter(moved.ts > moment.through)
            moved = moved.filter(moved.ts <= moment.through)
        return net_foreseen(moved)

    def snapshot(self) -> State:
        return {"waiting": waiting_table(self._waiting)}

    def restore(self, state: State) -> None:
        self._waiting = waiting_delta(state["waiting"])

    @property
    def state_rows(self) -> int:
        return len(self._waiting)

    @property
    def state_bytes(self) -> int:
        return self._waiting.nbytes


def waiting_table(delta: Delta) -> pa.Table:
    """A delta as a state."""
    columns = {f"c{i}": column for i, column in enumerate(delta.columns)}
    return pa.table({"sign": delta.signs(), "ts": delta.ts, "exp": delta.exp, **columns})


def waiting_delta(table: pa.Table) -> Delta:
    table = table.combine_chunks()
    rows = delta_of(table.select(table.column_names[1:]))
    sign = numbers(table, "sign").astype(np.int8)
    return Delta(rows.ts, rows.exp, rows.columns, sign if (sign < 0).any() else None)
