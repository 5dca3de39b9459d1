"""A dataflow with its inputs: rows wait there until the clock has passed them.

Rows that are older may still come within the SLACK. What is complete passes through the dataflow in slices of
time, so that memory does not follow the size of a batch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from sash.operators.dataflow import Dataflow, Tally
from sash.operators.delta import ALWAYS, Delta, Ints, concat
from sash.operators.operator import Moment, State, part, prefixed
from sash.operators.resample import waiting_delta, waiting_table

# Rows that pass through the dataflow at once.
SLICE_ROWS = 1 << 16


class Fragment:
    def __init__(self, flow: Dataflow) -> None:
        self.flow = flow
        self._fields = {v.source: v.fields for v in flow.vertices if v.source is not None}
        self._waiting: dict[str, list[Delta]] = {name: [] for name in self._fields}

    def keep(self, outputs: Collection[str]) -> None:
        """Let go of what no other output needs."""
        self.flow.keep(outputs)
        self._fields = {name: f for name, f in self._fields.items() if name in self.flow.sources}
        self._waiting = {name: self._waiting[name] for name in self._fields}

    def absorb(self, name: str, delta: Delta) -> None:
        """Take in rows of an input, in the order in which they arrived."""
        if name in self._waiting and len(delta):
            self._waiting[name].append(delta)

    def advance(self, first: Mapping[str, int], through: int) -> Iterator[tuple[str, Delta]]:
        """Move to `through`, the last instant about which everything is known; gives what leaves."""
        ready = {name: self._ready(name, through) for name in self._waiting}
        last = dict.fromkeys(ready, 0)
        for end in _slices([delta.ts for delta in ready.values()], through):
            sources = {}
            for name, delta in ready.items():
                stop = int(np.searchsorted(delta.ts, end, side="right"))
                sources[name] = delta.slice(last[name], stop)
                last[name] = stop
            for name, changes in self.flow.advance(sources, Moment(end, first)).items():
                if len(changes):
                    yield name, changes

    def _ready(self, name: str, through: int) -> Delta:
        """The rows of an input up to an instant, in the order of time and then of arrival."""
        waiting = concat(self._waiting[name], self._fields[name]).sorted()
        stop = int(np.searchsorted(waiting.ts, through, side="right"))
        self._waiting[name] = [waiting.slice(stop, len(waiting))] if stop < len(waiting) else []
        return waiting.slice(0, stop)

    # ------------------------------------------------------------------ state

    def snapshot(self) -> State:
        state = prefixed("flow", self.flow.snapshot())
        for name, deltas in self._waiting.items():
            if deltas:
                state[f"waiting.{name}"] = waiting_table(concat(deltas, self._fields[name]))
        return state

    def restore(self, state: State) -> None:
        self.flow.restore(part("flow", state))
        for name, table in part("waiting", state).items():
            if name in self._waiting:
                self._waiting[name] = [waiting_delta(table)]

    @property
    def waiting(self) -> Tally:
        """What waits for the clock."""
        deltas = [delta for deltas in self._waiting.values() for delta in deltas]
        return Tally(state_rows=sum(map(len, deltas)), state_bytes=sum(delta.nbytes for delta in deltas))

    @property
    def state_bytes(self) -> int:
        """What operators hold, and what waits for them."""
        return self.flow.state_bytes + self.waiting.state_bytes


def _slices(instants: Sequence[Ints], through: int) -> Iterator[int]:
    """Ends of slices of time that hold about `SLICE_ROWS` rows each; the last is `through`."""
    merged = np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *instants]))
    ends = np.unique(merged[SLICE_ROWS - 1 :: SLICE_ROWS])
    yield from (int(end) for end in ends if ALWAYS < end < through)
    yield through
