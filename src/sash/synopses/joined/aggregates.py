"""The operator that keeps a join synopsis and answers all of its readers (002, section 8.3.2).

Results of the continuous join come in pre-aggregated by interval and class (`partials.py`). At each boundary
of a reader the synopsis is updated and its totals are looked up, for all readers that are due at once (CS4,
CS5); groups whose aggregates are not what they were are told. So no result is held as a row, and none is
taken back when it expires.

While nothing is live boundaries are passed over. Cells that would take more than `MOST_BYTES` are given up
for rows (`rows.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.lang.algebra import Field
from sash.lang.bound import AggregateCall
from sash.lang.types import Type
from sash.operators.delta import ALWAYS, ARROW_TYPES, NEVER, Delta, Ints, concat, empty_delta
from sash.operators.operator import Moment, Operator, State, part, prefixed
from sash.operators.reading import Reading
from sash.plan.join_synopses import JoinReader, JoinSpec
from sash.plan.kinds import Kind
from sash.plan.panes import first_boundary
from sash.plan.periodic import SynopsisSpec
from sash.state.groups import plain
from sash.synopses.finalize import Values, finalize
from sash.synopses.joined.bij import BasicIntervalJoinSynopsis
from sash.synopses.joined.ij import IntervalJoinSynopsis
from sash.synopses.joined.partials import JoinPartials, partial_of, summary_of
from sash.synopses.joined.results import class_count
from sash.synopses.joined.rj import RunningJoinSynopsis
from sash.synopses.joined.rows import JoinRows
from sash.synopses.joined.synopsis import JoinSynopsis

Floats = npt.NDArray[np.float64]

MOST_BYTES = 1 << 26
_KINDS: dict[Kind, Callable[[SynopsisSpec, int], JoinSynopsis]] = {
    Kind.RJ: RunningJoinSynopsis,
    Kind.IJ: IntervalJoinSynopsis,
    Kind.BIJ: BasicIntervalJoinSynopsis,
}
_STATE = "synopsis"


class _Told:
    """What a reader knows: the totals at its last boundary, by slot."""

    def __init__(self, reader: JoinReader, synopsis: JoinSynopsis) -> None:
        self.reader = reader
        self._layout = synopsis.layout
        self.ints, self.floats = self._layout.empty(synopsis.groups.size)

    def totals(self) -> Ints:
        return self.ints

    def renumber(self, slots: Ints) -> None:
        self.reserve(int(slots.max(initial=-1)) + 1)
        self.ints, self.floats = self.ints[slots], self.floats[slots]

    def reserve(self, slots: int) -> None:
        missing = slots - len(self.ints)
        if missing > 0:
            ints, floats = self._layout.empty(max(missing, len(self.ints)))
            self.ints, self.floats = np.concatenate([self.ints, ints]), np.concatenate([self.floats, floats])

    @property
    def is_empty(self) -> bool:
        return not self.ints[:, 0].any()


class JoinAggregates(Operator):
    """`fields`: the keys, the number of the reader, all aggregates; NULL where a reader asks for others."""

    def __init__(self, spec: JoinSpec, inputs: Sequence[Field]) -> None:
        self.spec = spec
        calls = (Field(f"a{i}", call.type) for i, call in enumerate(spec.calls))
        self.fields = (*inputs[: len(spec.keys)], Field("reader", Type.BIGINT), *calls)
        self._summary = summary_of(spec)
        self.synopsis = _KINDS[spec.kind](self._summary, spec.g) if self._fits(1) else self._rows()
        self._told = [_Told(reader, self.synopsis) for reader in spec.readers]
        self.synopsis.dependents.extend(self._told)
        # The last boundary, and when the newest result will have left.
        self._last: int | None = None
        self._until = ALWAYS
        self._is_shown = bool(spec.keys)

    def _fits(self, slots: int) -> bool:
        measures = 2 * len(self._summary.measures)
        intervals = (2 if self.spec.kind is Kind.IJ else 1) * self.spec.b * class_count(self.spec.g)
        return 8 * measures * intervals * slots <= MOST_BYTES

    def _rows(self) -> JoinSynopsis:
        return JoinRows(self._summary, self.spec.g)

    def keep(self, readers: Sequence[Operator]) -> None:
        """Answer only those who still ask."""
        asking = {each.reader for each in readers if isinstance(each, Reading)}
        self._told = [told for told in self._told if told.reader.number in asking]
        self.synopsis.dependents[:] = self._told

    # ------------------------------------------------------------------ a batch

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        changes: list[Delta] = []
        if not self._is_shown:
            # Without keys there is one row from the start.
            self._is_shown = True
            changes += [self._row(told) for told in self._told]
        if len(inputs[0]):
            self._absorb(inputs[0])
        for boundary in self._boundaries(moment.through):
            self.synopsis.advance(boundary)
            due = [told for told in self._told if boundary % told.reader.slide == 0]
            totals = self.synopsis.totals_of([told.reader.lengths for told in due])
            for told, (ints, floats) in zip(due, totals, strict=True):
                changes += self._compared(told, boundary, ints, floats)
        return concat(changes, self.fields) if changes else empty_delta(self.fields)

    def _absorb(self, delta: Delta) -> None:
        self.synopsis.absorb(partial_of(delta, self._summary))
        if not isinstance(self.synopsis, JoinRows) and not self._fits(self.synopsis.groups.size):
            self.synopsis = self._rows().copied_from(self.synopsis)
        self._until = max(self._until, int(delta.ts.max()) + self._summary.longest)

    def _boundaries(self, through: int) -> Iterator[int]:
        """Those up to `through` at which a reader is due and something may have changed."""
        if not self._told:
            return
        step = int(np.gcd.reduce([told.reader.slide for told in self._told]))
        while True:
            if self._last is not None and self._is_live():
                boundary = first_boundary(self._last + 1, step)
            else:
                pane = self.synopsis.next_arrival
                if pane is None:
                    return
                boundary = first_boundary(self.spec.panes.right_edge(pane), step)
            if boundary > through:
                return
            self._last = boundary
            yield boundary

    def _is_live(self) -> bool:
        assert self._last is not None
        return self._last < self._until or not all(told.is_empty for told in self._told)

    # ------------------------------------------------------------------ answers

    def _row(self, told: _Told) -> Delta:
        """The row of a reader over empty windows, before the first instant."""
        values = self._values(told, told.ints, told.floats)
        return self._rows_told(told, ALWAYS, np.zeros(1, np.int64), np.ones(1, np.int8), values)

    def _compared(self, told: _Told, boundary: int, ints: Ints, floats: Floats) -> Iterator[Delta]:
        """What has changed for a reader, and remember it."""
        size = len(ints)
        told.reserve(size)
        changed = (told.ints[:size] != ints).any(axis=1) | (told.floats[:size] != floats).any(axis=1)
        slots = np.flatnonzero(changed)
        if not len(slots):
            return
        count = len(slots)
        all_ints = np.concatenate([told.ints[slots], ints[slots]])
        all_floats = np.concatenate([told.floats[slots], floats[slots]])
        told.ints[slots], told.floats[slots] = ints[slots], floats[slots]
        values = self._values(told, all_ints, all_floats)
        has = all_ints[:, 0] > 0 if self.spec.keys else np.ones(2 * count, dtype=np.bool_)
        old, new = np.arange(count), np.arange(count, 2 * count)
        differs = has[old] != has[new]
        for value in values.values():
            differs |= value.differs(new, old)
        rows = np.concatenate([old[has[old] & differs], new[has[new] & differs]])
        if len(rows):
            signs = np.where(rows < count, -1, 1).astype(np.int8)
            yield self._rows_told(told, boundary, slots[rows % count], signs, values, rows)

    def _values(self, told: _Told, ints: Ints, floats: Floats) -> dict[AggregateCall, Values]:
        layout, words = self.synopsis.layout, self.synopsis.words
        return {call: finalize(call, layout, ints, floats, words) for call in told.reader.calls}

    def _rows_told(
        self,
        told: _Told,
        instant: int,
        slots: Ints,
        signs: npt.NDArray[np.int8],
        values: Mapping[AggregateCall, Values],
        rows: Ints | None = None,
    ) -> Delta:
        """Rows of a reader; `rows` are their places among the values, None: all."""
        count = len(slots)
        keys = self.synopsis.groups.keys_of(slots) if self.spec.keys else ()
        shown = {call: each.array if rows is None else each.take(rows) for call, each in values.items()}
        aggregates = (
            shown[call] if call in shown else pa.nulls(count, ARROW_TYPES[call.type])
            for call in self.spec.calls
        )
        ts, never = np.full(count, instant, dtype=np.int64), np.full(count, NEVER, dtype=np.int64)
        number = pa.array(np.full(count, told.reader.number, dtype=np.int64))
        return Delta(ts, never, (*keys, number, *aggregates), signs)

    # ------------------------------------------------------------------ state

    def snapshot(self) -> State:
        times = {"last": pa.array([self._last], pa.int64()), "until": pa.array([self._until])}
        state = {"times": pa.table({**times, "is_shown": pa.array([self._is_shown])})}
        state.update(prefixed(_STATE, self.synopsis.snapshot()))
        for told in self._told:
            slots = np.flatnonzero(told.ints[:, 0])
            ints = {f"i{i}": column for i, column in enumerate(told.ints[slots].T)}
            floats = {f"f{i}": column for i, column in enumerate(told.floats[slots].T)}
            state[f"reader {told.reader.number}"] = pa.table({"slot": slots, **ints, **floats})
        return state

    def restore(self, state: State) -> None:
        times = state["times"].to_pylist()[0]
        self._last, self._until, self._is_shown = times["last"], times["until"], times["is_shown"]
        saved = part(_STATE, state)
        if not self._fits(max(1, saved["groups"].num_rows)):
            self.synopsis = self._rows()
            self.synopsis.dependents.extend(self._told)
        self.synopsis.restore(saved)
        for told in self._told:
            table = state[f"reader {told.reader.number}"]
            slots, *columns = (np.asarray(plain(column)) for column in table.columns)
            told.reserve(self.synopsis.groups.size)
            width = told.ints.shape[1]
            for place, column in enumerate(columns):
                if place < width:
                    told.ints[slots, place] = column
                else:
                    told.floats[slots, place - width] = column

    @property
    def state_rows(self) -> int:
        """Groups; what is kept of each is the same whatever comes."""
        return self.synopsis.groups.size

    @property
    def state_bytes(self) -> int:
        return self.synopsis.nbytes + sum(told.ints.nbytes + told.floats.nbytes for told in self._told)


def join_operators(spec: JoinSpec, inputs: Sequence[Field]) -> tuple[Operator, Operator]:
    """The operator that pre-aggregates join results where they are, and the one that keeps the synopsis."""
    partials = JoinPartials(spec, inputs)
    return partials, JoinAggregates(spec, partials.fields)
