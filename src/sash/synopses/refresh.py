"""Answers of the queries that read one window of a synopsis at the boundaries of one slide.

At a boundary only groups in panes that entered or left since the last one can have changed, so a step
copies just their totals onto a stack. A flush turns stacks into answers (`answering.py`) for all queries at
once, also for those of other windows if they select the same (`Kin`).

Invariant: after a flush `_before` holds, per slot, the totals at the last boundary; where all queries have
thresholds (`Selection`), only of groups that pass the loosest. The answer at an instant is a function of
those totals alone, so nothing else of a query needs to be remembered. Aggregates that need the values of a
group (`ValueStates`) are answered in the step, and are totals like the others.

Queries that differ in thresholds alone are a `Family`, whose answers cost a sort and what they contain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sash.errors import TimeJump
from sash.lang.bound import AggregateCall, BoundSelect, OutputOperator, StreamDefinition, Window
from sash.plan.panes import first_boundary
from sash.plan.periodic import PeriodicQuery
from sash.state.keytable import distinct, grown
from sash.synopses.answering import Answering, answer_schema
from sash.synopses.basic_interval import BasicIntervalSynopsis, WindowKey
from sash.synopses.cells import roomier
from sash.synopses.collective.filters import Filters
from sash.synopses.combined import AnyWindow, Synopsis
from sash.synopses.families import families_of
from sash.synopses.multi_boundary_scan import MultiBoundaryResult, MultiBoundaryScan, boundaries_of, stride
from sash.synopses.pane_store import Totals
from sash.synopses.query_shape import QueryShape, likeness
from sash.synopses.selection import Passing, Selection
from sash.synopses.states import Read, Stack, States
from sash.synopses.value_states import ValueStates

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

# A flush handles about this many rows, so memory does not follow the number of boundaries in a batch.
FLUSH_ROWS = 1 << 20
# So many answers in a row without any input are taken for a wrong timestamp.
MOST_EMPTY_ANSWERS = 1_000_000
_NO_TESTS: Int64Array = np.zeros((0, 5), dtype=np.int64)
_NO_SUMS: Int64Array = np.zeros(0, dtype=np.int64)


class _Span:
    """The rows of a synopsis's log that the window held at the last boundary."""

    def __init__(self, synopsis: BasicIntervalSynopsis) -> None:
        self.synopsis = synopsis
        self.left = self.right = synopsis.log.base

    @property
    def is_empty(self) -> bool:
        return self.left == self.right

    def entering(self) -> int | None:
        """When the next pane that is known enters."""
        log = self.synopsis.log
        pane = log.pane_at(self.right) if self.right < log.end else self.synopsis.next_sealed()
        return None if pane is None else self.synopsis.spec.panes.right_edge(pane)

    def oldest(self) -> int:
        """When the oldest pane that it holds has ended."""
        return self.synopsis.spec.panes.right_edge(self.synopsis.log.pane_at(self.left))


class Refresher:
    def __init__(
        self,
        synopsis: Synopsis,
        window: Window,
        queries: Sequence[PeriodicQuery],
        stream: StreamDefinition,
        since: int | None = None,
        *,
        is_elastic: bool = False,
        behind: int = 0,
        is_part: bool = False,
    ) -> None:
        """`since`: the queries came when everything up to then had been answered.

        `is_elastic`: boundaries may be passed over, so the window moves on when others of its length do not.
        So does that of queries which are `behind` the others so far.
        `is_part`: other groups are elsewhere, and `changes.merged` puts the answers together.
        """
        self.synopsis = synopsis
        self.since = since
        self.window = window
        self._stream = stream
        self._whole = [q for q in queries if q.select.operator is OutputOperator.RSTREAM]
        self._changing = [q for q in queries if q.select.operator is not OutputOperator.RSTREAM]
        # Without GROUP BY keys an aggregate has one row even over an empty window.
        self._is_global = not synopsis.spec.keys
        calls = [call for query in queries for call in query.select.aggregates]
        self.is_elastic = is_elastic
        self._answering = Answering(stream, is_part)
        self.key = WindowKey(window.range, window.slide if is_elastic or behind else 0, behind)
        self.values = ValueStates(synopsis, self.key, calls)
        self._last: int | None = None
        self._spans = [_Span(base) for base in synopsis.bases]
        self._before = self.values.empty(0)
        self._has_answered = False
        self._empty_since: int | None = None
        # The first boundary of queries that came into a run: what Istream and Dstream tell comes after it.
        self._begun_at: int | None = None
        self._changes = Stack()
        self._wholes = Stack()
        # Whether each group passed the selection at the last boundary, and which did: where it is known.
        self._held: BoolArray | None = None
        self._passed: Int64Array | None = None
        self._whole_rows = 0
        self._arrange()
        synopsis.dependents.append(self)

    def _arrange(self) -> None:
        """Find out what the queries have in common."""
        self._families_whole, self._alone_whole = families_of(self._whole)
        self._families_changing, self._alone_changing = families_of(self._changing)
        alike = tuple(likeness(query.select) for query in self._alone_changing)
        # Who has a family is like nobody else.
        self.kind = object() if self._families_changing else _kind_of(alike, self.values.calls)
        queries = (*self._whole, *self._changing)
        self.selection = None if self._is_global else Selection.of([query.select for query in queries])
        self._passing = None if self.selection is None else Passing(self.selection, self.synopsis.layout)
        if self._passing is not None:
            slots = np.arange(len(self._before[0]))
            self._forget(slots[~self._passing.among(slots, *self._before)])
        self.values.follows_some = self.selection is not None
        self._held = self._passed = None

    def drop(self, queries: Collection[str]) -> bool:
        """Go on without some queries; gives whether none is left."""
        self._whole = [query for query in self._whole if query.name not in queries]
        self._changing = [query for query in self._changing if query.name not in queries]
        self._arrange()
        if self.is_idle:
            self.synopsis.dependents.remove(self)
        return self.is_idle

    @property
    def is_idle(self) -> bool:
        return not self._whole and not self._changing

    def join(self, other: Refresher) -> None:
        """Answer the queries of another refresher of this window, too, if both have come equally far."""
        # Whoever has queries of one kind only does not keep what the others need.
        is_same = self._last == other._last and bool(self._changing) >= bool(other._changing)
        is_same = is_same and self.values.have(other.values)
        # Whoever has selected groups does not know the states of the others.
        is_same = is_same and (self.selection is None or self.values.is_empty)
        if is_same and self._last is not None and bool(self._whole) >= bool(other._whole):
            if self.selection is not None:
                self._reserve(len(other._before[0]))
                slots = np.flatnonzero(other._before[0][:, 0])
                self._before[0][slots], self._before[1][slots] = (
                    other._before[0][slots],
                    other._before[1][slots],
                )
            self._whole += other._whole
            self._changing += other._changing
            other._whole, other._changing = [], []
            self._arrange()
            self.synopsis.dependents.remove(other)

    @property
    def last(self) -> int | None:
        """The boundary that was last answered."""
        return self._last

    @property
    def is_alone(self) -> bool:
        """Whether its window moves on when others of its length do not."""
        return self.key.alone > 0

    def keep_step(self) -> None:
        """All have come equally far: move the window on with others of its length, unless it is elastic."""
        if self.is_alone and not self.is_elastic:
            self.key = WindowKey(self.window.range)
            self.values.read(self.key)

    @property
    def queries(self) -> tuple[PeriodicQuery, ...]:
        return (*self._whole, *self._changing)

    def has_answered_at(self, boundary: int) -> bool:
        """Whether a run that has come to `boundary` has answered there."""
        return self.since is None or boundary > self.since

    def left_in(self, synopsis: BasicIntervalSynopsis) -> int:
        """The oldest position of a synopsis's log that is still needed."""
        return next(span.left for span in self._spans if span.synopsis is synopsis)

    @property
    def _is_empty(self) -> bool:
        return all(span.is_empty for span in self._spans)

    @property
    def width(self) -> int:
        """How many panes the window has, at the most."""
        return self.synopsis.spec.panes.count_in(self.window.range)

    @property
    def passing(self) -> int:
        """How many groups are beyond the loosest thresholds."""
        return int(np.count_nonzero(self._holding())) if self._changing else self._whole_rows

    @property
    def is_whole(self) -> bool:
        """Whether all groups of an answer are asked for at every boundary."""
        return bool(self._whole)

    @property
    def is_changing(self) -> bool:
        """Whether what has changed is asked for."""
        return bool(self._changing)

    @property
    def waiting(self) -> int:
        """How many states wait for a flush."""
        return self._changes.rows + self._wholes.rows

    @property
    def is_full(self) -> bool:
        return self.waiting >= FLUSH_ROWS

    def due(self, first: int) -> int | None:
        """The next boundary at which an answer may differ or is asked for; None: when more arrives.

        `first` is the timestamp of the stream's first tuple, before which there are no answers.
        """
        slide = self.window.slide
        if self._last is None and self.since is not None:
            # What is there already is the first answer.
            return first_boundary(max(self.since + 1, first), slide)
        if self._last is None and self._is_global:
            return first_boundary(first, slide)
        if self._last is not None and self._whole and (self._is_global or not self._is_empty):
            return self._last + slide
        entering = self._entering()
        instants = [] if entering is None else [entering]
        instants += [span.oldest() + self.window.range for span in self._spans if not span.is_empty]
        return first_boundary(min(instants), slide) if instants else None

    def step(self, boundary: int, through: int) -> None:
        """Answer at `boundary`, to which the synopsis has moved on its way to `through`."""
        if self._last is None and self.since is not None:
            self._begun_at = boundary
        self.values.advance(boundary)
        filters, selection = self.synopsis.filters, self.selection
        newest = self.synopsis.spec.panes.number_at(boundary)
        if filters is not None and selection is not None and filters.cover(selection, self.width, newest):
            self._find(boundary, filters, selection)
        else:
            self._look(boundary)
        self._last = boundary
        if self._whole and not self.is_elastic:
            self._guard_against_jumps(boundary, through)

    @property
    def strides(self) -> bool:
        """Whether it can be taken to many boundaries at once (`multi_boundary_scan.py`)."""
        if self._last is None or self._whole or self.is_alone:
            return False
        tests = _NO_TESTS if self._passing is None else self._passing.tests
        is_tested = tests is not None and (len(tests) > 0) == (self._passing is not None)
        return is_tested and self.values.strides

    def strider(self, edges: Int64Array, through: int) -> MultiBoundaryScan:
        """What it asks for up to `through`, where the panes of the log have these right edges."""
        assert self._last is not None
        (span,) = self._spans
        boundaries = boundaries_of(edges, self.window.range, self.window.slide, self._last, through)
        groups = self.synopsis.groups.size
        if self._passing is None or self._passing.tests is None:
            return MultiBoundaryScan(
                boundaries, span.left, span.right, _NO_TESTS, _NO_SUMS, np.zeros(groups, np.bool_)
            )
        tests, sums, held = self._passing.tests, self._passing.sums, self._holding()[:groups]
        return MultiBoundaryScan(boundaries, span.left, span.right, tests, sums, held)

    def go_on(self, strode: MultiBoundaryResult) -> None:
        """Answer at the boundaries that it was taken to."""
        self._changes.extend(strode.boundaries, strode.counts, strode.slots, strode.ints, strode.floats)
        if self._passing is not None:
            self._holding()[: len(strode.held)] = strode.held
            self._passed = None
        self._move([(strode.left, strode.right)])
        self._last = int(strode.boundaries[-1])

    def select(self, slots: Int64Array, totals: AnyWindow) -> BoolArray:
        """Which of some groups may be in an answer."""
        if self._passing is None:
            return np.ones(len(slots), dtype=np.bool_)
        return self._passing.among(slots, totals.ints, totals.floats)

    def _look(self, boundary: int) -> None:
        """Look at the totals of all groups that have changed, or for Rstream of all."""
        totals = self.synopsis.window(self.key)
        totals.advance(boundary)
        if self._changing:
            slots = self._relevant(self._touched(totals.positions), totals)
            self._push(self._changes, boundary, slots, totals.ints[slots], totals.floats[slots])
        self._move(totals.positions)
        if self._whole:
            slots = self._present(totals)
            self._whole_rows = len(slots)
            self._push(self._wholes, boundary, slots, totals.ints[slots], totals.floats[slots])

    def _find(self, boundary: int, filters: Filters, selection: Selection) -> None:
        """Find the groups that pass by indexes, and look at those and at the ones that passed before."""
        panes = self.synopsis.spec.panes
        oldest, newest = panes.number_at(boundary - self.window.range), panes.number_at(boundary)
        slots = filters.candidates(selection, oldest, newest)
        if self._changing:
            passed = np.flatnonzero(self._holding()) if self._passed is None else self._passed
            slots = distinct(np.concatenate([slots, passed]))
        (span,) = self._spans
        totals, changed = span.synopsis.chained(slots, oldest, span.left, span.right)
        assert self._passing is not None
        passes = self._passing.among(np.arange(len(slots)), totals.ints, totals.floats)
        if self._changing:
            held = self._holding()
            rows = np.flatnonzero(changed & (passes | held[slots]))
            self._push(self._changes, boundary, slots[rows], totals.ints[rows], totals.floats[rows])
            held[slots] = passes
            self._passed = slots[passes]
        log = span.synopsis.log
        self._move([(log.position_after(oldest), log.position_after(newest))])
        if self._whole:
            self._whole_rows = int(np.count_nonzero(passes))
            self._push(self._wholes, boundary, slots[passes], totals.ints[passes], totals.floats[passes])

    def _push(
        self,
        stack: Stack,
        boundary: int,
        slots: Int64Array,
        ints: Int64Array,
        floats: npt.NDArray[np.float64],
    ) -> None:
        stack.push(boundary, slots, self.values.beside(ints, slots), floats)

    def _present(self, totals: AnyWindow) -> Int64Array:
        """The groups that may be in an answer."""
        if self._is_global:
            return np.zeros(1, dtype=np.int64)
        slots = np.flatnonzero(totals.ints[:, 0])
        return slots[self.select(slots, totals)]

    def _relevant(self, slots: Int64Array, totals: AnyWindow) -> Int64Array:
        """Those of some groups that have changed which may be in an answer, or were."""
        if self._passing is None:
            return slots
        held = self._holding()
        passes = self.select(slots, totals)
        found = slots[passes | held[slots]]
        held[slots] = passes
        self._passed = None
        return found

    def _holding(self) -> BoolArray:
        """Of each group whether it passed the selection at the last boundary."""
        held = self._before[0][:, 0] > 0 if self._held is None else self._held
        if len(held) < self.synopsis.groups.size:
            held = grown(held, roomier(len(held), self.synopsis.groups.size), False)
        self._held = held
        return held

    def _guard_against_jumps(self, boundary: int, through: int) -> None:
        """Refuse to write a row a slide over a gap that no real stream has."""
        if not self._is_global or not self._is_empty:
            self._empty_since = None
            return
        if self._empty_since is None:
            self._empty_since = boundary
        entering = self._entering()
        until = through if entering is None else min(through, entering)
        gap = (until - self._empty_since) // self.window.slide
        if gap > MOST_EMPTY_ANSWERS:
            raise TimeJump(self._whole[0].name, self._stream.name, gap)

    def _entering(self) -> int | None:
        """When the next pane that is known enters."""
        instants = (span.entering() for span in self._spans)
        return min((instant for instant in instants if instant is not None), default=None)

    def _move(self, positions: Sequence[tuple[int, int]]) -> None:
        for span, (left, right) in zip(self._spans, positions, strict=True):
            span.left, span.right = left, right

    def _touched(self, positions: Sequence[tuple[int, int]]) -> Int64Array:
        before = [(span.left, span.right) for span in self._spans]
        if self._is_global:
            return np.zeros(int(self._last is None or before != list(positions)), dtype=np.int64)
        return self.synopsis.moved(before, positions)

    def catch_up(self, boundary: int) -> None:
        """After a restart: `boundary`, to which the synopsis has moved, has been answered already."""
        totals = self.synopsis.window(self.key)
        totals.advance(boundary)
        self.values.advance(boundary)
        self._move(totals.positions)
        self._last = boundary
        slots = self._present(totals)
        self._before = self.values.empty(len(totals.ints))
        self._before[0][slots] = self.values.beside(totals.ints[slots], slots)
        self._before[1][slots] = totals.floats[slots]
        self.values.settle([self._before[0]])
        self._held = self._passed = None
        self._has_answered = True

    def renumber(self, slots: Int64Array) -> None:
        """Slot slots[i] becomes slot i; the others are gone."""
        have = len(self._before[0])
        ints, floats = self.values.empty(len(slots))
        known = slots < have
        ints[known], floats[known] = self._before[0][slots[known]], self._before[1][slots[known]]
        self._before = (ints, floats)
        self._held = self._passed = None

    def totals(self) -> Int64Array:
        return self._before[0]

    # ---------------------------------------------------------------- answers

    def _flush_wholes(self) -> Iterator[tuple[str, pa.Table]]:
        if self._wholes.rows:
            states = States(self.synopsis, [Read(self._wholes, self.values)], self._is_global)
            for family in self._families_whole:
                yield from self._answering.whole_of(family, states)
            for query in self._alone_whole:
                yield query.name, self._answering.whole(query.select, states)
            self._wholes = Stack()

    def _news_after(self) -> Iterator[tuple[str, int]]:
        """The queries that have just come into a run and tell differences, and after which boundary."""
        if self._begun_at is not None:
            for query in self._changing:
                if query.select.operator in (OutputOperator.ISTREAM, OutputOperator.DSTREAM):
                    yield query.name, self._begun_at

    def _later(self, table: pa.Table, boundary: int | None) -> pa.Table:
        """The rows of answers after a boundary; None: all."""
        if boundary is None:
            return table
        unit = self._stream.unit if self._stream.has_integer_time else 1
        return table.filter(pc.greater(table.column("ts").cast(pa.int64()), boundary // unit))

    def _reserve(self, slots: int) -> None:
        have = len(self._before[0])
        if slots > have:
            ints, floats = self.values.empty(max(slots, 2 * have) - have)
            self._before = (
                np.concatenate([self._before[0], ints]),
                np.concatenate([self._before[1], floats]),
            )

    def _forget(self, slots: Int64Array) -> None:
        """These groups are in no answer."""
        self._before[0][slots], self._before[1][slots] = self.values.empty(len(slots))


# What a question is behind, which nobody else is: its window is its own.
_ASKED = -1


@lru_cache(maxsize=16_384)
def _kind_of(alike: Hashable, calls: tuple[AggregateCall, ...]) -> object:
    """The same thing for refreshers whose queries are alike: to compare those costs more than an answer."""
    return object()


def stride_together(
    refreshers: Sequence[Refresher], edges: Int64Array, through: int
) -> Iterator[tuple[str, pa.Table]]:
    """Take refreshers of one window that all stride to `through`; gives answers if they become many.

    `edges` are the right edges of the panes in the log.
    """
    for _ in stride(refreshers, edges, through, FLUSH_ROWS):
        if sum(refresher.waiting for refresher in refreshers) >= FLUSH_ROWS:
            yield from flush_together(refreshers)


def flush_together(refreshers: Iterable[Refresher]) -> Iterator[tuple[str, pa.Table]]:
    """The answers of all boundaries since the last flush, of each query in order of instant.

    All read the same synopsis. Those whose queries are alike are answered in one go.
    """
    alike: dict[object, list[Refresher]] = defaultdict(list)
    for refresher in refreshers:
        alike[refresher.kind].append(refresher)
    for those in alike.values():
        rows, some = 0, []
        for refresher in those:
            some.append(refresher)
            rows += refresher.waiting
            if rows >= FLUSH_ROWS:
                yield from _flush(some)
                rows, some = 0, []
        yield from _flush(some)


def _flush(refreshers: Sequence[Refresher]) -> Iterator[tuple[str, pa.Table]]:
    """The answers of refreshers of one kind."""
    for refresher in refreshers:
        refresher.values.settle([refresher._before[0], *refresher._wholes.ints, *refresher._changes.ints])
    for refresher in refreshers:
        yield from _not_empty(refresher._flush_wholes())
    changing = [refresher for refresher in refreshers if refresher._changes.rows]
    if changing:
        yield from _not_empty(_flush_changes(changing))
    for refresher in refreshers:
        refresher.values.forget(refresher._before[0])


def _flush_changes(refreshers: Sequence[Refresher]) -> Iterator[tuple[str, pa.Table]]:
    one = refreshers[0]
    for refresher in refreshers:
        refresher._reserve(one.synopsis.groups.size)
    reads = [Read(each._changes, each.values, each._before, each._has_answered) for each in refreshers]
    states = States(one.synopsis, reads, one._is_global)
    begun = {name: at for refresher in refreshers for name, at in refresher._news_after()}
    for family in one._families_changing:
        # Who has a family is alone.
        for name, table in one._answering.changes_of(family, states):
            yield name, one._later(table, begun.get(name))
    for queries in zip(*(refresher._alone_changing for refresher in refreshers), strict=True):
        for name, table in one._answering.changes(QueryShape(queries), states):
            yield name, one._later(table, begun.get(name))
    for owner, refresher in enumerate(refreshers):
        slots = states.remember(owner, refresher._before)
        if refresher._held is not None:
            refresher._forget(slots[~refresher._held[slots]])
        refresher._has_answered = True
        refresher._begun_at = None
        refresher._changes = Stack()


def _not_empty(answers: Iterable[tuple[str, pa.Table]]) -> Iterator[tuple[str, pa.Table]]:
    return ((name, table) for name, table in answers if table.num_rows)


def looked_up(
    synopsis: Synopsis,
    select: BoundSelect,
    stream: StreamDefinition,
    totals: Totals,
    edges: tuple[int, int],
) -> pa.Table:
    """What a query selects, from the totals of its window, which is between two edges.

    Others may answer from the synopsis: their windows stay where they are.
    """
    slots = np.flatnonzero(totals.ints[:, 0]) if synopsis.spec.keys else np.zeros(1, np.int64)
    if not len(slots):
        return answer_schema(select, stream).empty_table().select([name for name, _ in select.schema])
    values = ValueStates(synopsis, WindowKey(edges[1] - edges[0], 0, _ASKED), select.aggregates)
    try:
        values.advance(edges[1])
        ints = values.beside(totals.ints[slots], slots)
        values.settle([ints])
        stack = Stack()
        stack.push(0, slots, ints, totals.floats[slots])
        states = States(synopsis, [Read(stack, values)], not synopsis.spec.keys)
        return Answering(stream).whole(select, states).drop_columns(["ts"])
    finally:
        values.leave()
