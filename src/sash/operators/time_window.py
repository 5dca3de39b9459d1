"""Time windows: each row of a stream gets its lifetime when it arrives (002, section 2.3.2).

A row is in `[RANGE t OFFSET d]` on [ts + d, ts + t). A window that slides every l is looked at when the time
is a multiple of l, so both ends move up to the next one; the same holds for the grain of integer time. A row
enters when its time has come: the window keeps rows that wait for it, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sash.lang.algebra import Field
from sash.operators.delta import ALWAYS, NEVER, Delta, Ints, concat, empty_delta
from sash.operators.held import delta_of
from sash.operators.operator import Moment, Operator, State


def next_multiple(ts: Ints, step: int) -> Ints:
    """The first multiple of `step` that is not before each instant; what never comes stays so."""
    if step == 1:
        return ts
    fixed = (ts == NEVER) | (ts == ALWAYS)
    moved: Ints = -(-np.where(fixed, 0, ts) // step) * step
    return np.where(fixed, ts, moved)


class TimeWindow(Operator):
    """`length` None is UNBOUNDED. A stream whose source gives lifetimes has them in `exp`."""

    def __init__(self, fields: Sequence[Field], length: int | None, offset: int, step: int) -> None:
        self.fields = tuple(fields)
        self._length = length
        self._offset = offset
        self._step = step
        self._waiting = empty_delta(fields)

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        delta = self._with_lifetimes(inputs[0])
        if len(self._waiting):
            delta = concat([self._waiting, delta], self.fields)
            self._waiting = empty_delta(self.fields)
        if not len(delta) or int(delta.ts.max()) <= moment.through:
            return delta
        self._waiting = delta.filter(delta.ts > moment.through)
        return delta.filter(delta.ts <= moment.through)

    def _with_lifetimes(self, delta: Delta) -> Delta:
        """A lifetime that the source gives counts from the arrival, as the window does."""
        if not len(delta):
            return delta
        end = delta.exp
        if self._length is not None:
            end = np.minimum(end, delta.ts + self._length)
        start = next_multiple(delta.ts + self._offset, self._step)
        end = next_multiple(end, self._step)
        return Delta(start, end, delta.columns).filter(start < end)

    def snapshot(self) -> State:
        columns = {f"c{i}": column for i, column in enumerate(self._waiting.columns)}
        return {"waiting": pa.table({"ts": self._waiting.ts, "exp": self._waiting.exp, **columns})}

    def restore(self, state: State) -> None:
        self._waiting = delta_of(state["waiting"])

    @property
    def state_rows(self) -> int:
        return len(self._waiting)

    @property
    def state_bytes(self) -> int:
        return self._waiting.nbytes
