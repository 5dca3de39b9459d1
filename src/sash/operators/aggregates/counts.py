"""Counts of rows or of values: distributive, subtractable, eight bytes per group."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.operators.aggregates.arguments import Given
from sash.operators.aggregates.events import Events
from sash.operators.aggregates.measure import Measure
from sash.operators.delta import Ints
from sash.operators.operator import State
from sash.state.jit import kernel
from sash.state.keytable import grown


@kernel
def _count(numbers: Ints, signs: Ints, marks: Ints, counts: Ints, out: Ints) -> None:
    for i in range(len(numbers)):
        counts[numbers[i]] += signs[i]
        if marks[i] >= 0:
            out[marks[i]] = counts[numbers[i]]


class Counts(Measure):
    def __init__(self) -> None:
        self._counts = np.zeros(0, dtype=np.int64)
        self.samples = self._counts

    def follow(self, events: Events, given: Given) -> None:
        self._counts = grown(self._counts, events.capacity, 0)
        self.samples = np.empty(events.samples, dtype=np.int64)
        self.samples[: len(events.groups)] = self._counts[events.groups]
        _count(events.numbers, given.signs, events.marks, self._counts, self.samples)

    def now(self, numbers: Ints) -> Ints:
        """The counts of some groups."""
        return self._counts[numbers]

    def settle(self) -> None:
        self.samples = np.zeros(0, dtype=np.int64)

    def reset(self, numbers: Ints) -> None:
        self._counts[numbers] = 0

    def snapshot(self, numbers: Ints, rows: Ints) -> State:
        return {"groups": pa.table({"count": self._counts[numbers]})}

    def restore(self, state: State, numbers: Ints, capacity: int) -> None:
        self._counts = grown(self._counts, capacity, 0)
        self._counts[numbers] = state["groups"].column("count").to_numpy()

    @property
    def nbytes(self) -> int:
        return self._counts.nbytes
