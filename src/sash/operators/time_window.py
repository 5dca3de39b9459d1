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
from sash.plan.join_synopses import JoinSetting


def next_multiple(ts: Ints, step: int) -> Ints:
    """The first multiple of `step` that is not before each instant; what never comes stays so."""
    if step == 1:
        return ts
    fixed = (ts == NEVER) | (ts == ALWAYS)
    moved: Ints = -(-np.where(fixed, 0, ts) // step) * step
    return np.where(fixed, ts, moved)


def stretch_of(join: str | None, joins: Sequence[JoinSetting], before: int) -> int:
    """By how much the windows of a join are longer than they were made; `before`: if nobody says."""
    return next((setting.stretch for setting in joins if setting.join == join), before)


def stretched(by: int) -> State:
    """A part of a state that says how much longer windows were than they were made."""
    return {"stretch": pa.table({"stretch": [by]})} if by else {}


def stretch_in(state: State) -> int:
    return int(state["stretch"].column("stretch")[0].as_py()) if "stretch" in state else 0


def postponed(delta: Delta, by: int) -> Delta:
    """The same rows, which leave later by so much."""
    return Delta(delta.ts, delta.exp + by, delta.columns) if by else delta


class TimeWindow(Operator):
    """`length` None is UNBOUNDED. A stream whose source gives lifetimes has them in `exp`.

    The windows of a `join` that feeds join synopses become longer and shorter with who reads those.
    """

    def __init__(
        self, fields: Sequence[Field], length: int | None, offset: int, step: int, join: str | None = None
    ) -> None:
        self.fields = tuple(fields)
        self._length = length
        self._offset = offset
        self._step = step
        self._join = join
        self._stretch = 0
        self._waiting = empty_delta(fields)

    def adapt(self, joins: Sequence[JoinSetting]) -> None:
        by = stretch_of(self._join, joins, self._stretch) - self._stretch
        if by:
            self._stretch += by
            self._waiting = postponed(self._waiting, by)

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
            end = np.minimum(end, delta.ts + self._length + self._stretch)
        start = next_multiple(delta.ts + self._offset, self._step)
        end = next_multiple(end, self._step)
        return Delta(start, end, delta.columns).filter(start < end)

    def snapshot(self) -> State:
        columns = {f"c{i}": column for i, column in enumerate(self._waiting.columns)}
        waiting = {"waiting": pa.table({"ts": self._waiting.ts, "exp": self._waiting.exp, **columns})}
        return {**waiting, **stretched(self._stretch)}

    def restore(self, state: State) -> None:
        self._waiting = postponed(delta_of(state["waiting"]), self._stretch - stretch_in(state))

    @property
    def state_rows(self) -> int:
        return len(self._waiting)

    @property
    def state_bytes(self) -> int:
        return self._waiting.nbytes
