"""The instants at which rows enter or leave a window or a relation: Rstream without SLIDE is evaluated there.

They are known from the lives of all rows of the window, also of those that a condition drops later. A row
gives its first instant when it enters and its last when it leaves, as foreseen or by a negative tuple. Each
instant comes once, when time has reached it.

State: how many rows are foreseen to leave at each instant to come.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sash.operators.delta import FAR, NEVER, Delta, Ints
from sash.operators.held import numbers
from sash.operators.operator import Moment, Operator, State
from sash.operators.time_window import next_multiple


class Instants(Operator):
    """Gives rows without columns. `step` is the grain of time."""

    def __init__(self, step: int) -> None:
        self.fields = ()
        self._step = step
        self._ends = np.zeros(0, dtype=np.int64)
        self._counts = np.zeros(0, dtype=np.int64)

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        (delta,) = inputs
        starts = np.unique(next_multiple(delta.ts, self._step))
        waits = starts > moment.through
        self._foresee(starts[waits], np.ones(int(waits.sum()), dtype=np.int64))
        # A negative tuple takes the foreseen end of its row back.
        self._foresee(next_multiple(delta.exp, self._step), delta.signs().astype(np.int64))
        due = int(np.searchsorted(self._ends, moment.through, side="right"))
        found = np.unique(np.concatenate([starts[~waits], self._ends[:due]]))
        self._ends, self._counts = self._ends[due:], self._counts[due:]
        return instants_delta(found)

    def _foresee(self, ends: Ints, changes: Ints) -> None:
        later = ends < FAR
        ends, changes = (
            np.concatenate([self._ends, ends[later]]),
            np.concatenate([self._counts, changes[later]]),
        )
        self._ends, places = np.unique(ends, return_inverse=True)
        counts = np.bincount(places, weights=changes, minlength=len(self._ends)).astype(np.int64)
        self._ends, self._counts = self._ends[counts != 0], counts[counts != 0]

    def snapshot(self) -> State:
        return {"ends": pa.table({"end": self._ends, "count": self._counts})}

    def restore(self, state: State) -> None:
        table = state["ends"].combine_chunks()
        self._ends, self._counts = numbers(table, "end"), numbers(table, "count")

    @property
    def state_rows(self) -> int:
        return len(self._ends)

    @property
    def state_bytes(self) -> int:
        return self._ends.nbytes + self._counts.nbytes


def instants_delta(ts: Ints) -> Delta:
    return Delta(ts, np.full(len(ts), NEVER, dtype=np.int64), ())
