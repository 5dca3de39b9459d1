"""The operator that keeps a join synopsis and answers all of its readers (002, section 8.3.2).

Results of the continuous join come in pre-aggregated by interval and class (`partials.py`). At each boundary
of a reader the synopsis is updated and its totals are looked up, for all readers that are due at once (CS4,
CS5); groups whose aggregates are not what they were are told. So no result is held as a row, and none is
taken back when it expires.

While nothing is live boundaries are passed over. Cells that would take more than `MOST_BYTES` are given up
for rows (`rows.py`).

Readers come and go (`adapt`), and the synopsis becomes as long as they need it. Who came later is told of the
boundaries after that, and never of results that may not all be known: so it does not matter at which moment
the operator hears of a reader, or if its input is repeated as if the reader had always been there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.lang.algebra import Field
from sash.lang.bound import AggregateCall
from sash.operators.delta import ALWAYS, ARROW_TYPES, NEVER, Delta, Ints, concat, empty_delta
from sash.operators.operator import Moment, Operator, State, part, prefixed
from sash.plan.join_synopses import JoinReader, JoinSetting, JoinSpec
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
    """What a reader knows: the totals at its last boundary, by slot, and if it has been told of any."""

    def __init__(self, reader: JoinReader, synopsis: JoinSynopsis) -> None:
        self.reader = reader
        self.has_begun = False
        self._layout = synopsis.layout
        self.ints, self.floats = self._layout.empty(synopsis.groups.size)

    @property
    def first(self) -> int:
        """The first boundary of a reader that came later."""
        assert self.reader.since is not None
        return first_boundary(self.reader.since + 1, self.reader.slide)

    def is_due(self, boundary: int) -> bool:
        is_there = self.reader.since is None or boundary > self.reader.since
        return is_there and boundary % self.reader.slide == 0

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

    # Results wait in the synopsis for their boundary.
    takes_early = True
    gives_early = False

    def __init__(self, spec: JoinSpec) -> None:
        self.spec = spec
        self.fields = spec.fields
        self._calls = spec.calls
        self._summary = summary_of(spec)
        self.synopsis = self._empty(1)
        self._told = [_Told(reader, self.synopsis) for reader in spec.readers]
        self.synopsis.dependents.extend(self._told)
        # The last boundary, and when the newest result will have left.
        self._last: int | None = None
        self._until = ALWAYS

    def _empty(self, slots: int) -> JoinSynopsis:
        """A synopsis without results for so many groups."""
        return _KINDS[self.spec.kind](self._summary, self.spec.g) if self._fits(slots) else self._rows()

    def _fits(self, slots: int) -> bool:
        measures = 2 * len(self._summary.measures)
        intervals = (2 if self.spec.kind is Kind.IJ else 1) * self.spec.b * class_count(self.spec.g)
        return 8 * measures * intervals * slots <= MOST_BYTES

    def _rows(self) -> JoinSynopsis:
        return JoinRows(self._summary, self.spec.g)

    def adapt(self, joins: Sequence[JoinSetting]) -> None:
        spec = next((setting.spec for setting in joins if setting.spec.name == self.spec.name), self.spec)
        known = {told.reader.number: told for told in self._told}
        self._told = [known.get(r.number) or _Told(r, self.synopsis) for r in spec.readers]
        self.synopsis.dependents[:] = self._told
        is_other = (spec.b, spec.kind) != (self.spec.b, self.spec.kind)
        self.spec = spec
        if is_other:
            before, self._summary = self._summary.longest, summary_of(spec)
            self.synopsis = self._empty(max(1, self.synopsis.groups.size)).copied_from(self.synopsis)
            if self._until != ALWAYS:
                self._until += self._summary.longest - before

    # ------------------------------------------------------------------ a batch

    def process(self, inputs: Sequence[Delta], moment: Moment) -> Delta:
        changes: list[Delta] = []
        for told in self._told:
            if not told.has_begun and told.reader.since is None:
                told.has_begun = True
                # Without keys there is one row from the start.
                changes += [] if self.spec.keys else [self._row(told)]
        if len(inputs[0]):
            self._absorb(inputs[0])
        for boundary in self._boundaries(moment.through):
            self.synopsis.advance(boundary)
            newest = self.spec.panes.number_at(boundary)
            due = [told for told in self._told if told.is_due(boundary)]
            totals = self.synopsis.totals_of([told.reader.lengths_at(newest) for told in due])
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
            next_ones = [told.first for told in self._told if not told.has_begun]
            if self._last is not None and self._is_live():
                next_ones.append(first_boundary(self._last + 1, step))
            elif (pane := self.synopsis.next_arrival) is not None:
                next_ones.append(first_boundary(self.spec.panes.right_edge(pane), step))
            if not next_ones or min(next_ones) > through:
                return
            self._last = min(next_ones)
            yield self._last

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
        was_told, told.has_begun = told.has_begun, True
        if not self.spec.keys:
            # There is one row, whatever it says.
            changed |= not was_told
        slots = np.flatnonzero(changed)
        if not len(slots):
            return
        count = len(slots)
        all_ints = np.concatenate([told.ints[slots], ints[slots]])
        all_floats = np.concatenate([told.floats[slots], floats[slots]])
        told.ints[slots], told.floats[slots] = ints[slots], floats[slots]
        values = self._values(told, all_ints, all_floats)
        has = all_ints[:, 0] > 0
        if not self.spec.keys:
            has[:count], has[count:] = was_told, True
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
            shown[call] if call in shown else pa.nulls(count, ARROW_TYPES[call.type]) for call in self._calls
        )
        ts, never = np.full(count, instant, dtype=np.int64), np.full(count, NEVER, dtype=np.int64)
        number = pa.array(np.full(count, told.reader.number, dtype=np.int64))
        return Delta(ts, never, (*keys, number, *aggregates), signs)

    # ------------------------------------------------------------------ state

    def snapshot(self) -> State:
        times = {"last": pa.array([self._last], pa.int64()), "until": pa.array([self._until])}
        begun = [told.reader.number for told in self._told if told.has_begun]
        state = {"times": pa.table(times), "begun": pa.table({"reader": pa.array(begun, pa.int64())})}
        state.update(prefixed(_STATE, self.synopsis.snapshot()))
        for told in self._told:
            slots = np.flatnonzero(told.ints[:, 0])
            ints = {f"i{i}": column for i, column in enumerate(told.ints[slots].T)}
            floats = {f"f{i}": column for i, column in enumerate(told.floats[slots].T)}
            state[f"reader {told.reader.number}"] = pa.table({"slot": slots, **ints, **floats})
        return state

    def restore(self, state: State) -> None:
        times = state["times"].to_pylist()[0]
        self._last, self._until = times["last"], times["until"]
        saved = part(_STATE, state)
        self.synopsis = self._empty(max(1, saved["groups"].num_rows))
        self.synopsis.dependents.extend(self._told)
        self.synopsis.restore(saved)
        begun = set(state["begun"].column("reader").to_pylist())
        for told in self._told:
            told.has_begun = told.reader.number in begun
            table = state.get(f"reader {told.reader.number}")
            if table is None:
                # It came later.
                continue
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


def join_operators(spec: JoinSpec, inputs: Sequence[Field], step: int) -> tuple[Operator, Operator]:
    """The operator that pre-aggregates join results where they are, and the one that keeps the synopsis.

    Results are seen at multiples of `step` only.
    """
    partials = JoinPartials(spec, inputs, step)
    return partials, JoinAggregates(spec)
