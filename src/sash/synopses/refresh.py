"""Answers of the queries that read one window of a synopsis at the boundaries of one slide.

At a boundary only groups in panes that entered or left since the last one can have changed, so a step
copies just their totals onto a stack. `flush` turns the stack into answers for all queries at once:
each row's state is compared with the state before it of the same group, HAVING and the selected
expressions are evaluated over whole columns, and equal rows that leave and enter at one instant cancel.

Invariant: after a flush `_before` holds, per slot, the totals at the last boundary. The answer at an
instant is a function of those totals alone, so nothing else of a query needs to be remembered. Aggregates
that need the values of a group (`ValueStates`) are totals like the others. They are answered in the flush,
for those states only that a query shows: where HAVING does not need them itself, it is asked first.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.errors import DataError
from sash.lang.bound import AggregateCall, BoundSelect, OutputOperator, StreamDefinition, Window
from sash.operators.evaluate import ARROW_TYPES, evaluate, evaluate_mask
from sash.plan.panes import first_boundary
from sash.plan.periodic import PeriodicQuery
from sash.state import kernels
from sash.state.groups import GroupTable, canonical, plain
from sash.synopses.basic_interval import BasicIntervalSynopsis
from sash.synopses.finalize import Values, finalize
from sash.synopses.pane_store import Totals
from sash.synopses.value_states import ValueStates

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

# A flush handles about this many rows, so memory does not follow the number of boundaries in a batch.
FLUSH_ROWS = 1 << 20
# So many answers in a row without any input are taken for a wrong timestamp.
MOST_EMPTY_ANSWERS = 1_000_000


class Refresher:
    def __init__(
        self,
        synopsis: BasicIntervalSynopsis,
        window: Window,
        queries: Sequence[PeriodicQuery],
        stream: StreamDefinition,
        since: int | None = None,
    ) -> None:
        """`since`: the queries came when everything up to then had been answered."""
        self._synopsis = synopsis
        self._since = since
        self.window = window
        self._stream = stream
        self._whole = [q for q in queries if q.select.operator is OutputOperator.RSTREAM]
        self._changing = [q for q in queries if q not in self._whole]
        # Without GROUP BY keys an aggregate has one row even over an empty window.
        self._is_global = not synopsis.spec.keys
        calls = [call for query in queries for call in query.select.aggregates]
        self._values = ValueStates(synopsis, window.range, calls)
        self._last: int | None = None
        self._left = self._right = synopsis.log.base
        self._before = self._values.empty(0)
        self._has_answered = False
        self._empty_since: int | None = None
        self._changes = _Stack()
        self._wholes = _Stack()
        synopsis.dependents.append(self)

    def drop(self, queries: Collection[str]) -> bool:
        """Go on without some queries; gives whether none is left."""
        self._whole = [query for query in self._whole if query.name not in queries]
        self._changing = [query for query in self._changing if query.name not in queries]
        if self.is_idle:
            self._synopsis.dependents.remove(self)
        return self.is_idle

    @property
    def is_idle(self) -> bool:
        return not self._whole and not self._changing

    def join(self, other: Refresher) -> None:
        """Answer the queries of another refresher of this window, too, if both have come equally far."""
        # Whoever has queries of one kind only does not keep what the others need.
        is_same = self._last == other._last and bool(self._changing) >= bool(other._changing)
        is_same = is_same and self._values.have(other._values)
        # States that only the other's HAVING lets through have no values here.
        is_same = is_same and not (other._values.is_filled and self._fills_some())
        if is_same and self._last is not None and bool(self._whole) >= bool(other._whole):
            self._whole += other._whole
            self._changing += other._changing
            other._whole, other._changing = [], []
            self._synopsis.dependents.remove(other)

    def _fills_some(self) -> bool:
        """Whether values are needed only where some HAVING lets states through."""
        asking = [s for query in (*self._whole, *self._changing) if self._asks(s := query.select)]
        return all(select.having is not None and not self._reads_values(select) for select in asking)

    def _asks(self, select: BoundSelect) -> bool:
        return any(self._values.fills(call) for call in select.aggregates)

    def _reads_values(self, select: BoundSelect) -> bool:
        """Whether HAVING needs aggregates that are filled in."""
        read = () if select.having is None else select.having.inputs
        return any(f"a{i}" in read for i, call in enumerate(select.aggregates) if self._values.fills(call))

    def _filled(self, states: _States) -> _States:
        """The states with the values that their queries show."""
        if self._values.is_filled:
            needed = np.zeros(len(states.slots), dtype=np.bool_)
            for query in (*self._whole, *self._changing):
                if self._asks(query.select):
                    is_free = self._reads_values(query.select)
                    needed |= states.exists() if is_free else states.present(query.select)
            needed[: states.carried] = False
            rows, some = np.flatnonzero(needed), self._fills_some()
            self._values.fill(states.ints, states.slots, states.instants, rows, some=some)
        return states

    def has_answered_at(self, boundary: int) -> bool:
        """Whether a run that has come to `boundary` has answered there."""
        return self._since is None or boundary > self._since

    @property
    def left(self) -> int:
        """The oldest position of the log that is still needed."""
        return self._left

    @property
    def is_full(self) -> bool:
        return self._changes.rows + self._wholes.rows >= FLUSH_ROWS

    def due(self, first: int) -> int | None:
        """The next boundary at which an answer may differ or is asked for; None: when more arrives.

        `first` is the timestamp of the stream's first tuple, before which there are no answers.
        """
        slide = self.window.slide
        if self._last is None and self._since is not None:
            # What is there already is the first answer.
            return first_boundary(max(self._since + 1, first), slide)
        if self._last is None and self._is_global:
            return first_boundary(first, slide)
        if self._last is not None and self._whole and (self._is_global or self._left < self._right):
            return self._last + slide
        entering = self._entering()
        instants = [] if entering is None else [entering]
        if self._left < self._right:
            oldest = self._synopsis.log.pane_at(self._left)
            instants.append(self._synopsis.spec.panes.right_edge(oldest) + self.window.range)
        return first_boundary(min(instants), slide) if instants else None

    def step(self, boundary: int, through: int) -> None:
        """Answer at `boundary`, to which the synopsis has moved on its way to `through`."""
        totals = self._synopsis.window(self.window.range)
        totals.advance(boundary)
        self._values.advance(boundary)
        if self._changing:
            slots = self._touched(totals.left, totals.right)
            ints = self._values.listed(totals.ints[slots], slots)
            self._changes.push(boundary, slots, ints, totals.floats[slots])
        self._left, self._right = totals.left, totals.right
        self._last = boundary
        if self._whole:
            slots = np.zeros(1, np.int64) if self._is_global else np.flatnonzero(totals.ints[:, 0])
            ints = self._values.listed(totals.ints[slots], slots)
            self._wholes.push(boundary, slots, ints, totals.floats[slots])
            self._guard_against_jumps(boundary, through)

    def _guard_against_jumps(self, boundary: int, through: int) -> None:
        """Refuse to write a row a slide over a gap that no real stream has."""
        if not self._is_global or self._left < self._right:
            self._empty_since = None
            return
        if self._empty_since is None:
            self._empty_since = boundary
        entering = self._entering()
        until = through if entering is None else min(through, entering)
        gap = (until - self._empty_since) // self.window.slide
        if gap > MOST_EMPTY_ANSWERS:
            raise DataError(
                f"{self._whole[0].name} would give {gap:,} answers in a row over an empty window: stream "
                f"{self._stream.name} has no rows there, and time goes on",
                hint="is a timestamp wrong, or has the stream ended long before another one? "
                "Without Rstream only changes are written",
                id="time-jump",
            )

    def _entering(self) -> int | None:
        """When the next pane that is known enters."""
        log, panes = self._synopsis.log, self._synopsis.spec.panes
        pane = log.pane_at(self._right) if self._right < log.end else self._synopsis.next_sealed()
        return None if pane is None else panes.right_edge(pane)

    def _touched(self, left: int, right: int) -> Int64Array:
        log = self._synopsis.log
        if self._is_global:
            changed = self._last is None or left > self._left or right > self._right
            return np.zeros(int(changed), dtype=np.int64)
        marks = np.zeros(self._synopsis.groups.size, dtype=np.bool_)
        marks[log.slots_between(self._left, left)] = True
        marks[log.slots_between(self._right, right)] = True
        return np.flatnonzero(marks)

    def catch_up(self, boundary: int) -> None:
        """After a restart: `boundary`, to which the synopsis has moved, has been answered already."""
        totals = self._synopsis.window(self.window.range)
        totals.advance(boundary)
        self._values.advance(boundary)
        self._left, self._right, self._last = totals.left, totals.right, boundary
        slots = np.zeros(1, np.int64) if self._is_global else np.flatnonzero(totals.ints[:, 0])
        self._before = self._values.empty(len(totals.ints))
        stack = _Stack()
        stack.push(boundary, slots, self._values.listed(totals.ints[slots], slots), totals.floats[slots])
        if stack.rows:
            states = self._filled(_States(self._synopsis, stack, self._values, None, self._is_global))
            self._values.settle([states.ints])
            states.remember(self._before)
        self._has_answered = True

    def renumber(self, slots: Int64Array) -> None:
        """Slot slots[i] becomes slot i; the others are gone."""
        have = len(self._before[0])
        ints, floats = self._values.empty(len(slots))
        known = slots < have
        ints[known], floats[known] = self._before[0][slots[known]], self._before[1][slots[known]]
        self._before = (ints, floats)

    def totals(self) -> Int64Array:
        return self._before[0]

    # ---------------------------------------------------------------- answers

    def flush(self) -> dict[str, pa.Table]:
        """The answers of all boundaries since the last flush, in order of instant."""
        answers: dict[str, pa.Table] = {}
        wholes = changes = None
        if self._wholes.rows:
            wholes = self._filled(_States(self._synopsis, self._wholes, self._values, None, self._is_global))
        if self._changes.rows:
            self._grow()
            changes = self._filled(
                _States(
                    self._synopsis,
                    self._changes,
                    self._values,
                    self._before,
                    self._is_global,
                    self._has_answered,
                )
            )
        both = (states.ints for states in (wholes, changes) if states is not None)
        self._values.settle([self._before[0], *both])
        self._wholes, self._changes = _Stack(), _Stack()
        if wholes is not None:
            for query in self._whole:
                answers[query.name] = self._rstream(query.select, wholes)
        if changes is not None:
            for query in self._changing:
                answers[query.name] = self._differences(query.select, changes)
            changes.remember(self._before)
            self._has_answered = True
        self._values.forget(self._before[0])
        return {name: table for name, table in answers.items() if table.num_rows}

    def _grow(self) -> None:
        """Make room for groups that are new."""
        size, have = self._synopsis.groups.size, len(self._before[0])
        if size > have:
            ints, floats = self._values.empty(max(size, 2 * have) - have)
            self._before = (
                np.concatenate([self._before[0], ints]),
                np.concatenate([self._before[1], floats]),
            )

    def _rstream(self, select: BoundSelect, states: _States) -> pa.Table:
        rows = np.flatnonzero(states.present(select))
        if _is_bag(select):
            rows = np.repeat(rows, states.ints[rows, 0])
        return self._answers(select, states, rows, states.instants[rows], None)

    def _differences(self, select: BoundSelect, states: _States) -> pa.Table:
        # A row without a row before it has −1 there, which reads the False at the end.
        present = np.append(states.present(select), False)
        now, was = present[states.carried : -1], present[states.previous[states.carried :]]
        concerned = np.flatnonzero(now | was) + states.carried
        now, was = now[concerned - states.carried], was[concerned - states.carried]
        before = states.previous[concerned]
        if _is_bag(select):
            counts = states.ints[:, 0]
            change = np.where(now, counts[concerned], 0) - np.where(was, counts[before], 0)
            minus, plus = np.maximum(-change, 0), np.maximum(change, 0)
        else:
            changed = now != was
            for call in _shown_aggregates(select):
                changed |= states.values(call).differs(concerned, before)
            minus, plus = was & changed, now & changed
        sources = np.concatenate([np.repeat(before, minus), np.repeat(concerned, plus)])
        causes = np.concatenate([np.repeat(concerned, minus), np.repeat(concerned, plus)])
        signs = np.concatenate([np.full(minus.sum(), -1), np.full(plus.sum(), 1)])
        instants = states.instants[causes]
        order = np.lexsort((signs, instants))
        return self._answers(select, states, sources[order], instants[order], signs[order])

    def _answers(
        self,
        select: BoundSelect,
        states: _States,
        rows: Int64Array,
        instants: Int64Array,
        signs: Int64Array | None,
    ) -> pa.Table:
        inputs = states.table(select, rows, [output.scalar.inputs for output in select.outputs])
        scalars = [output.scalar for output in select.outputs]
        columns = [canonical(plain(column)) for column in evaluate(inputs, scalars)]
        if signs is not None:
            if not _shows_all(select):
                kept = _uncancelled(instants, signs, columns)
                columns = [column.take(pa.array(kept)) for column in columns]
                instants, signs = instants[kept], signs[kept]
            if select.operator is not OutputOperator.VIEW:
                wanted = signs == (1 if select.operator is OutputOperator.ISTREAM else -1)
                columns = [column.filter(pa.array(wanted)) for column in columns]
                instants, signs = instants[wanted], signs[wanted]
        table = {"ts": self._timestamps(instants)}
        if select.operator is OutputOperator.VIEW and signs is not None:
            table["op"] = pa.array(["-", "+"]).take(pa.array((signs > 0).astype(np.int64)))
        for output, column in zip(select.outputs, columns, strict=True):
            table[output.name] = column
        return pa.table(table)

    def _timestamps(self, instants: Int64Array) -> pa.Array:
        if self._stream.has_integer_time:
            return pa.array(instants // self._stream.unit)
        return pa.array(instants).cast(pa.timestamp("us", tz="UTC"))


def looked_up(
    synopsis: BasicIntervalSynopsis,
    select: BoundSelect,
    stream: StreamDefinition,
    totals: Totals,
    edges: tuple[int, int],
) -> pa.Table:
    """What a query selects, from the totals of its window, which is between two edges.

    The synopsis is not answered from otherwise.
    """
    refresher = Refresher(synopsis, select.window, (), stream)
    slots = np.flatnonzero(totals.ints[:, 0]) if synopsis.spec.keys else np.zeros(1, np.int64)
    if not len(slots):
        return answer_schema(select, stream).empty_table().select([name for name, _ in select.schema])
    values = ValueStates(synopsis, edges[1] - edges[0], select.aggregates)
    values.advance(edges[1])
    stack = _Stack()
    stack.push(edges[1], slots, values.listed(totals.ints[slots], slots), totals.floats[slots])
    states = _States(synopsis, stack, values, None, not synopsis.spec.keys)
    values.fill(states.ints, slots, states.instants, np.arange(len(slots)), some=False)
    values.settle([states.ints])
    return refresher._rstream(select, states).drop_columns(["ts"])


def answer_schema(select: BoundSelect, stream: StreamDefinition) -> pa.Schema:
    """The columns of a query's answers."""
    fields = [("ts", pa.int64() if stream.has_integer_time else pa.timestamp("us", tz="UTC"))]
    if select.operator is OutputOperator.VIEW:
        fields.append(("op", pa.string()))
    fields.extend((name, ARROW_TYPES[type_]) for name, type_ in select.schema)
    return pa.schema(fields)


def _is_bag(select: BoundSelect) -> bool:
    return not select.is_grouped and not select.distinct


def _shown_aggregates(select: BoundSelect) -> list[AggregateCall]:
    """The aggregates on which the output depends; those that only HAVING reads are not among them."""
    read = {name for output in select.outputs for name in output.scalar.inputs}
    return [call for i, call in enumerate(select.aggregates) if f"a{i}" in read]


def _shows_all(select: BoundSelect) -> bool:
    """Whether the output tells groups and their states apart, so that no two changes can be equal."""
    shown = {output.scalar.column for output in select.outputs}
    read = {name for output in select.outputs for name in output.scalar.inputs}
    keys = {f"k{i}" for i in range(len(select.keys))}
    return keys | read <= shown


def _uncancelled(instants: Int64Array, signs: Int64Array, columns: Sequence[pa.Array]) -> Int64Array:
    """The rows that remain when equal rows with opposite signs at one instant cancel, in order."""
    if len(signs) == 0:
        return np.zeros(0, dtype=np.int64)
    groups = GroupTable([pa.int64(), *(column.type for column in columns)])
    ids = groups.encode([pa.array(instants), *columns])
    net = np.bincount(ids, weights=signs, minlength=groups.size).astype(np.int64)
    candidates = np.flatnonzero(signs == np.sign(net)[ids])
    order = candidates[np.argsort(ids[candidates], kind="stable")]
    starts = np.flatnonzero(np.diff(ids[order], prepend=-1))
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    return np.sort(order[rank < np.abs(net)[ids[order]]])


class _Stack:
    """Totals of the groups that a boundary concerns, boundary after boundary."""

    def __init__(self) -> None:
        self.rows = 0
        self.instants: list[Int64Array] = []
        self.slots: list[Int64Array] = []
        self.ints: list[Int64Array] = []
        self.floats: list[npt.NDArray[np.float64]] = []

    def push(
        self, boundary: int, slots: Int64Array, ints: Int64Array, floats: npt.NDArray[np.float64]
    ) -> None:
        if len(slots):
            self.rows += len(slots)
            self.instants.append(np.full(len(slots), boundary))
            self.slots.append(slots)
            self.ints.append(ints)
            self.floats.append(floats)


class _States:
    """A stack as columns, preceded by the states that its groups had before; aggregates on demand."""

    def __init__(
        self,
        synopsis: BasicIntervalSynopsis,
        stack: _Stack,
        calls: ValueStates,
        before: tuple[Int64Array, npt.NDArray[np.float64]] | None,
        is_global: bool,
        has_answered: bool = False,
    ) -> None:
        self._synopsis = synopsis
        self._calls = calls
        self._is_global = is_global
        slots = np.concatenate(stack.slots)
        carried = np.zeros(0, dtype=np.int64)
        if before is not None:
            if is_global:
                carried = np.zeros(int(has_answered), dtype=np.int64)
            else:
                marks = np.zeros(len(before[0]), dtype=np.bool_)
                marks[slots] = True
                carried = np.flatnonzero(marks & (before[0][:, 0] > 0))
            self.ints = np.concatenate([before[0][carried], *stack.ints])
            self.floats = np.concatenate([before[1][carried], *stack.floats])
        else:
            self.ints, self.floats = np.concatenate(stack.ints), np.concatenate(stack.floats)
        self.carried = len(carried)
        self.slots = np.concatenate([carried, slots])
        self.instants = np.concatenate([np.zeros(len(carried), dtype=np.int64), *stack.instants])
        self.previous = np.empty(len(self.slots), dtype=np.int64)
        self._latest = np.full(synopsis.groups.size, -1, dtype=np.int64)
        kernels.link_states(self.slots, self._latest, self.previous)
        self._values: dict[AggregateCall, Values] = {}
        self._present: dict[int, BoolArray] = {}

    def remember(self, before: tuple[Int64Array, npt.NDArray[np.float64]]) -> None:
        """Store the last state of each group in `before`."""
        slots = np.flatnonzero(self._latest >= 0)
        rows = self._latest[slots]
        before[0][slots], before[1][slots] = self.ints[rows], self.floats[rows]

    def values(self, call: AggregateCall) -> Values:
        if call not in self._values:
            self._values[call] = (
                self._calls.values(call, self.ints)
                if call in self._calls
                else finalize(call, self._synopsis.layout, self.ints, self.floats, self._synopsis.words)
            )
        return self._values[call]

    def exists(self) -> BoolArray:
        """Which states are of groups that are there."""
        if self._is_global:
            return np.ones(len(self.slots), dtype=np.bool_)
        exists: BoolArray = self.ints[:, 0] > 0
        return exists

    def present(self, select: BoundSelect) -> BoolArray:
        """Which states are in the answer: the group exists and passes HAVING."""
        if id(select) not in self._present:
            self._present[id(select)] = self._passing(select)
        return self._present[id(select)]

    def _passing(self, select: BoundSelect) -> BoolArray:
        present = self.exists()
        if select.having is not None:
            rows = None if present.all() else np.flatnonzero(present)
            table = self.table(select, rows, [select.having.inputs])
            passed = np.asarray(plain(evaluate_mask(table, select.having)))
            if rows is None:
                return passed
            present[rows] = passed
        return present

    def table(
        self, select: BoundSelect, rows: Int64Array | None, inputs: Sequence[Sequence[str]]
    ) -> pa.Table:
        """The columns k0, … and a0, … that are named in `inputs`, for the given rows (None: for all)."""
        names = {name for group in inputs for name in group}
        columns: dict[str, pa.Array] = {}
        if any(f"k{i}" in names for i in range(len(select.keys))):
            slots = self.slots if rows is None else self.slots[rows]
            keys = self._synopsis.groups.keys_of(slots)
            columns.update({f"k{i}": key for i, key in enumerate(keys) if f"k{i}" in names})
        for i, call in enumerate(select.aggregates):
            if f"a{i}" in names:
                values = self.values(call)
                columns[f"a{i}"] = values.array if rows is None else values.take(rows)
        if not columns:
            # A constant expression still has one value a row.
            columns["row"] = pa.nulls(len(self.slots) if rows is None else len(rows), pa.int8())
        return pa.table(columns)
