"""A dataflow with its inputs: rows wait there until the clock has passed them.

Rows that are older may still come within the SLACK. What is complete passes through the dataflow in slices of
time, so that memory does not follow the size of a batch: what lies in files is read when its time has come.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np

from sash.engine.durability.wire import Packed
from sash.engine.stopping import keep_on
from sash.operators.dataflow import Dataflow, Tally
from sash.operators.delta import ALWAYS, Delta, Ints, concat
from sash.operators.operator import Moment, State, part, prefixed
from sash.operators.resample import waiting_delta, waiting_table

# Rows that pass through the dataflow at once.
SLICE_ROWS = 1 << 16


class _Run:
    """Rows of an input that have come together, in the order of time; those before `at` have been taken."""

    def __init__(self, rows: Delta | Packed) -> None:
        self._packed = rows if isinstance(rows, Packed) else None
        self._delta = None if isinstance(rows, Packed) else rows.sorted()
        self._at = 0

    def __len__(self) -> int:
        return len(self._packed or self.delta) - self._at

    @property
    def delta(self) -> Delta:
        if self._delta is None:
            assert self._packed is not None
            self._delta, self._packed = self._packed.load(), None
        return self._delta

    @property
    def next(self) -> int:
        """The first instant that has not been taken."""
        return self._packed.first if self._packed is not None else int(self.delta.ts[self._at])

    def instants(self, most: int) -> Ints:
        """The instants of the next rows, so many of them."""
        return self.delta.ts[self._at : self._at + most]

    def take(self, end: int) -> Delta:
        """The rows up to an instant, which go."""
        start, self._at = self._at, int(np.searchsorted(self.delta.ts, end, side="right"))
        return self.delta.slice(start, self._at)

    def rest(self) -> Delta:
        """What has not been taken, in arrays of its own if it is only a part."""
        if not self._at:
            return self.delta
        return self.delta.take(np.arange(self._at, len(self.delta)))


class BufferedDataflow:
    """`look` is called before an operator works on a slice, and may raise to give a batch up."""

    def __init__(self, flow: Dataflow, look: Callable[[], None] = keep_on) -> None:
        self.flow = flow
        self._look = look
        self._fields = {v.source: v.fields for v in flow.vertices if v.source is not None}
        self._waiting: dict[str, list[_Run]] = {name: [] for name in self._fields}

    def keep(self, outputs: Collection[str]) -> None:
        """Let go of what no other output needs."""
        self.flow.keep(outputs)
        self._fields = {name: f for name, f in self._fields.items() if name in self.flow.sources}
        self._waiting = {name: self._waiting[name] for name in self._fields}

    def absorb(self, name: str, rows: Delta | Packed) -> None:
        """Take in rows of an input, in the order in which they arrived."""
        if name in self._waiting and len(rows):
            self._waiting[name].append(_Run(rows))

    def advance(self, first: Mapping[str, int], through: int) -> Iterator[tuple[str, Delta]]:
        """Move to `through`, the last instant about which everything is known; gives what leaves."""
        is_last = False
        while not is_last:
            end = _end_of_slice([run for runs in self._waiting.values() for run in runs], through)
            is_last = end == through
            sources = {name: self._take(name, end) for name in self._waiting}
            for given in self.flow.advance(sources, Moment(end, first, self._look)):
                yield from ((name, changes) for name, changes in given.items() if len(changes))
        for name, runs in self._waiting.items():
            if runs:
                self._waiting[name] = [_Run(concat([run.rest() for run in runs], self._fields[name]))]

    def _take(self, name: str, end: int) -> Delta:
        """The rows of an input up to an instant, in the order of time and then of arrival."""
        runs = self._waiting[name]
        taken = concat([run.take(end) for run in runs if run.next <= end], self._fields[name])
        self._waiting[name] = [run for run in runs if len(run)]
        return taken.sorted()

    # ------------------------------------------------------------------ state

    def snapshot(self) -> State:
        state = prefixed("flow", self.flow.snapshot())
        for name, runs in self._waiting.items():
            if runs:
                waiting = concat([run.rest() for run in runs], self._fields[name])
                state[f"waiting.{name}"] = waiting_table(waiting.sorted())
        return state

    def restore(self, state: State) -> None:
        self.flow.restore(part("flow", state))
        for name, table in part("waiting", state).items():
            if name in self._waiting:
                self._waiting[name] = [_Run(waiting_delta(table))]

    @property
    def waiting(self) -> Tally:
        """What waits for the clock."""
        deltas = [run.delta for runs in self._waiting.values() for run in runs]
        return Tally(state_rows=sum(map(len, deltas)), state_bytes=sum(delta.nbytes for delta in deltas))

    @property
    def state_bytes(self) -> int:
        """What operators hold, and what waits for them."""
        return self.flow.state_bytes + self.waiting.state_bytes


def _end_of_slice(runs: Sequence[_Run], through: int) -> int:
    """Where a slice of time ends that has about `SLICE_ROWS` of the rows up to `through`."""
    instants: list[Ints] = []
    count, end = 0, through
    for run in sorted(runs, key=lambda run: run.next):
        if run.next > end:
            # All that comes first is known.
            break
        found = run.instants(SLICE_ROWS + 1)
        # What was there before everything is not divided.
        found = found[(found > ALWAYS) & (found <= end)]
        instants.append(found)
        count += len(found)
        if count > SLICE_ROWS:
            instants = [np.partition(np.concatenate(instants), SLICE_ROWS - 1)[:SLICE_ROWS]]
            count, end = SLICE_ROWS, int(instants[0].max())
    return end
