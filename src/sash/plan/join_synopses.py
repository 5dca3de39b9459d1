"""Which join synopses there are, and which queries read them (002, section 8.3.2, rule SS3).

Periodic aggregates over the same join of two time windows with the same grouping read one synopsis, whatever
the lengths of the windows, the SLIDE and the aggregates. One continuous join, of the longest windows, feeds
the synopses of all groupings.

A result lives until the first of its two tuples expires, so intervals are by expiration time. Windows of
unequal length are compared from the ends of their tuples: with W₁ and W₂ the longest windows and W the longer
of them, a tuple of input i is taken for one that is W − Wᵢ older, and a window of n panes for one that is as
much longer. After that a query whose windows are equally long needs nothing but intervals, even if they were
not so before; g is by how many panes two windows of one query still differ.

Panes are the greatest common divisor of all windows and slides. A join that they would cut too finely is
left to operators, and so is every aggregate that is not made of measures.

A query that comes into a run is a guest of a synopsis that has its groups, measures, panes and classes
(`join_guests.py`); b, and with it the windows of the join, follow whoever reads it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sash.lang import algebra
from sash.lang.algebra import Field, Node, OutputKind, WindowKind, WindowSpec
from sash.lang.bound import AggregateCall, Named, QueryDefinition, Scalar, StreamDefinition
from sash.lang.periodic import renamed
from sash.lang.types import Type
from sash.plan.canonical import canonical
from sash.plan.cost import Statistics
from sash.plan.kinds import Kind, break_even, choose_kind, executed_together
from sash.plan.measures import ROWS, Kept, Measure, algebra_of, calls_of, measures_of
from sash.plan.optimize import optimize
from sash.plan.panes import Panes
from sash.plan.physical import Choices, Exec, to_physical
from sash.plan.rules import apply_rules
from sash.plan.rules.flatten_projections import flatten_projections
from sash.plan.rules.fold_constants import fold_constants
from sash.plan.rules.push_selections import push_selections
from sash.plan.scalars import column_scalar, conjunction, passed_on

# With more panes in a window every update and answer would go through too many intervals.
MOST_PANES = 4096
FIRST, SECOND = "first", "second"
"""The columns of join results that hold the timestamps of their tuples."""
# They leave keys and arguments of aggregates as they are written, and bring conditions into one form.
_SHAPING = (fold_constants, flatten_projections, push_selections)
_RESTORING = (OutputKind.ISTREAM_RESTORE, OutputKind.RSTREAM_RESTORE)


@dataclass(frozen=True, slots=True)
class JoinAggregate:
    """What a query asks of a join, in the names that equal joins have in common.

    `source` is the join of streams without their windows, with all conditions.
    """

    source: algebra.Join
    keys: tuple[Scalar, ...]
    calls: tuple[AggregateCall, ...]
    windows: tuple[int, int]
    slide: int

    @property
    def width(self) -> int:
        """The longest panes that its windows begin and end on."""
        return math.gcd(*self.windows, self.slide)


@dataclass(frozen=True, slots=True)
class JoinReader:
    """Queries that ask the same at the same times. `lengths`: its windows in panes, as intervals count.

    Who comes into a run is told what is at the boundaries after `since`, and of results whose older tuple is
    in a pane after the pane `after`: before it not all is known.
    """

    number: int
    windows: tuple[int, int]
    lengths: tuple[int, int]
    slide: int
    calls: tuple[AggregateCall, ...]
    queries: tuple[str, ...]
    since: int | None = None
    after: int | None = None

    def lengths_at(self, newest: int) -> tuple[int, int]:
        """How far its windows reach when a pane is the newest: they grow until all of them is known."""
        most = max(self.lengths) if self.after is None else newest - self.after
        return min(self.lengths[0], most), min(self.lengths[1], most)


@dataclass(frozen=True, slots=True)
class JoinSpec:
    """A join synopsis with parameters s (`panes`), b and g, over results that a join gives.

    `keys`, `measures` and the readers' calls are over columns of the results. Timestamps of both tuples count
    `units` of microseconds; tuples are taken for older than they are by `shifts`.
    """

    name: str
    keys: tuple[Scalar, ...]
    units: tuple[int, int]
    shifts: tuple[int, int]
    panes: Panes
    b: int
    g: int
    kind: Kind
    measures: tuple[Measure, ...]
    readers: tuple[JoinReader, ...]

    @property
    def calls(self) -> tuple[AggregateCall, ...]:
        """All aggregates that it can answer."""
        return calls_of(self.measures)

    @property
    def fields(self) -> tuple[Field, ...]:
        """What readers are told: the keys, the number of the reader, all aggregates."""
        keys = (Field(f"k{i}", key.type) for i, key in enumerate(self.keys))
        calls = (Field(f"a{i}", call.type) for i, call in enumerate(self.calls))
        return (*keys, Field("reader", Type.BIGINT), *calls)

    def serving(self, readers: Iterable[JoinReader]) -> JoinSpec:
        """The same for these readers: as long as their windows, of the kind that suits them."""
        readers = tuple(readers)
        b = max(self.g + 1, *(length for reader in readers for length in reader.lengths))
        kind = choose_kind(self.measures, b, _together(readers), is_join=True)
        return replace(self, b=b, kind=kind, readers=readers)


@dataclass(frozen=True, slots=True)
class ContinuousJoin:
    """The join that feeds all synopses of one source: of the longest windows, looked at every `step`.

    In a run both windows become longer or shorter by `stretch`.
    """

    name: str
    source: algebra.Join
    windows: tuple[int, int]
    step: int
    physical: Exec
    stretch: int = 0

    @property
    def streams(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(leaf.name for leaf in _leaves(self.source)))


@dataclass(frozen=True, slots=True)
class JoinSetting:
    """What the operators of a join synopsis must know of those who read it at the moment."""

    spec: JoinSpec
    join: str
    stretch: int


@dataclass(frozen=True, slots=True)
class SharedJoin:
    """A join synopsis and the join that feeds it.

    `outputs` are made of the rows of the join: keys, arguments of aggregates, the timestamps of both tuples.
    """

    spec: JoinSpec
    join: ContinuousJoin
    outputs: tuple[Named, ...]

    @property
    def reason(self) -> str:
        return _reason(self.spec.kind, self.spec.b, _together(self.spec.readers))

    @property
    def setting(self) -> JoinSetting:
        return JoinSetting(self.spec, self.join.name, self.join.stretch)

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def queries(self) -> tuple[str, ...]:
        return tuple(name for reader in self.spec.readers for name in reader.queries)


def readers_in(joins: Iterable[SharedJoin]) -> dict[str, tuple[SharedJoin, JoinReader]]:
    """The join synopsis that each query is answered from, and as which of its readers."""
    return {name: (join, reader) for join in joins for reader in join.spec.readers for name in reader.queries}


def plan_joins(
    queries: Iterable[QueryDefinition],
    streams: Iterable[StreamDefinition],
    statistics: Statistics,
    name: str = "j",
) -> tuple[SharedJoin, ...]:
    """The join synopses of queries that run as operators; `name`: what their names begin with."""
    defined = {stream.name: stream for stream in streams}
    asked: dict[algebra.Join, list[tuple[str, JoinAggregate]]] = {}
    for query in queries:
        found = join_aggregate_of(query)
        if isinstance(found, JoinAggregate):
            asked.setdefault(found.source, []).append((query.name, found))
    shared: list[SharedJoin] = []
    for source, members in asked.items():
        times = [_timestamp(leaf, defined[leaf.name]) for leaf in _leaves(source)]
        join = _continuous(f"{name}{len(shared)}", source, [each for _, each in members], times, statistics)
        by_keys: dict[tuple[Scalar, ...], list[tuple[str, JoinAggregate]]] = {}
        for member in members:
            by_keys.setdefault(member[1].keys, []).append(member)
        for sharers in (share for alike in by_keys.values() for share in _share_panes(alike)):
            shared.append(_shared(f"{name}{len(shared)}", sharers, join, times))
    return tuple(shared)


def _timestamp(leaf: algebra.Stream, stream: StreamDefinition) -> tuple[Scalar, int]:
    """The timestamps of a stream's tuples, and how many microseconds they count."""
    field = next(f for f in leaf.fields if f.name == f"{leaf.qualifier}.{stream.timestamp}")
    return column_scalar(field), stream.unit if stream.has_integer_time else 1


def _continuous(
    name: str,
    source: algebra.Join,
    asked: Sequence[JoinAggregate],
    times: Sequence[tuple[Scalar, int]],
    statistics: Statistics,
) -> ContinuousJoin:
    """The join of the longest windows, with the columns that anybody reads."""
    windows = _longest(asked)
    step = math.gcd(*(each.width for each in asked))
    inputs = tuple(
        algebra.Window(side, WindowSpec(WindowKind.RANGE, length, slide=step))
        for side, length in zip(source.inputs, windows, strict=True)
    )
    arguments = [call.argument for each in asked for call in each.calls if call.argument is not None]
    scalars = [*(key for each in asked for key in each.keys), *arguments, *(scalar for scalar, _ in times)]
    read = {name for scalar in scalars for name in scalar.inputs}
    join = replace(source, inputs=inputs)
    plan = algebra.Project(join, passed_on(field for field in join.fields if field.name in read))
    estimate = optimize(algebra.Output(plan, OutputKind.VIEW), statistics).estimate
    return ContinuousJoin(name, source, windows, step, to_physical(estimate, Choices()).inputs[0])


def _longest(asked: Iterable[JoinAggregate]) -> tuple[int, int]:
    firsts, seconds = zip(*(each.windows for each in asked), strict=True)
    return max(firsts), max(seconds)


def join_aggregate_of(query: QueryDefinition) -> JoinAggregate | str | None:
    """What a query asks of a join; why operators answer it; None if it is no periodic aggregate of a join."""
    aggregate = _aggregate_in(query.plan)
    if aggregate is None:
        return None
    windows = [node for node in aggregate.walk() if isinstance(node, algebra.Window)]
    is_join = any(isinstance(node, algebra.Join) for node in aggregate.walk())
    if not is_join or not any(window.spec.slide for window in windows):
        return None
    forced = {name for name, _ in query.options} & {"strategy", "join"}
    if forced:
        return f"WITH ({' and '.join(sorted(forced))}) asks for operators"
    if query.archive is not None:
        return "an archive needs the rows themselves"
    if query.plan.kind in _RESTORING:
        return "what came and went between two slides is asked for, too"
    shaped = apply_rules(query.plan, _SHAPING).plan
    assert isinstance(shaped, algebra.Output)
    aggregate = _aggregate_in(shaped)
    return None if aggregate is None else _recognised(aggregate)


def _aggregate_in(plan: algebra.Output) -> algebra.Aggregate | None:
    """The aggregate of a query, not of a sub-query."""
    node = plan.input
    while isinstance(node, algebra.Limit | algebra.Project | algebra.Select | algebra.Distinct):
        node = node.input
    return node if isinstance(node, algebra.Aggregate) else None


def _recognised(aggregate: algebra.Aggregate) -> JoinAggregate | str:
    join = aggregate.input
    above = join.predicate if isinstance(join, algebra.Select) else None
    if isinstance(join, algebra.Select):
        join = join.input
    if not isinstance(join, algebra.Join) or len(join.inputs) != 2:
        return "intervals by expiration time are kept for joins of two windows only"
    for call in aggregate.calls:
        if algebra_of(call).kept is not Kept.MEASURES:
            return f"{call.function.value} needs the values themselves"
    windows: list[algebra.Window] = []
    for side in join.inputs:
        refusal = _refusal(side)
        if refusal is not None:
            return refusal
        assert isinstance(side, algebra.Window)
        windows.append(side)
    first, second = (window.spec for window in windows)
    residual = conjunction([part for part in (join.residual, above) if part is not None])
    bare = algebra.Join(tuple(window.input for window in windows), join.equalities, residual)
    source = canonical(bare)
    names = dict(zip(bare.names, source.names, strict=True))
    assert isinstance(source, algebra.Join)
    assert first.range is not None
    assert second.range is not None
    assert first.slide is not None
    found = JoinAggregate(
        source,
        tuple(renamed(key, names) for key in aggregate.keys),
        tuple(
            replace(call, argument=None if call.argument is None else renamed(call.argument, names))
            for call in aggregate.calls
        ),
        (first.range, second.range),
        first.slide,
    )
    panes = max(found.windows) // found.width
    if panes > MOST_PANES:
        return f"the windows would be {panes:,} panes, more than {MOST_PANES:,}"
    return found


def _refusal(side: Node) -> str | None:
    """Why tuples of an input of a join cannot be told apart by panes; None if they can."""
    if not isinstance(side, algebra.Window):
        return "an input of the join is no window"
    below = side.input.input if isinstance(side.input, algebra.Select) else side.input
    if not isinstance(below, algebra.Stream):
        return "a window of the join is over a sub-query"
    spec = side.spec
    if spec.kind is not WindowKind.RANGE:
        return f"a window of the join is not one of RANGE but [{spec.kind.value.upper()}]"
    if spec.offset:
        return "a window of the join has an OFFSET"
    if spec.is_internal:
        return "a window of the join is INTERNAL"
    return "rows of the join have lifetimes of their own" if below.has_lifetime else None


def _share_panes(members: Sequence[tuple[str, JoinAggregate]]) -> Iterator[list[tuple[str, JoinAggregate]]]:
    """Queries gathered greedily, coarse panes first, as long as the longest window has few enough."""
    shares: list[list[tuple[str, JoinAggregate]]] = []
    for member in sorted(members, key=lambda each: -each[1].width):
        for share in shares:
            together = [asked for _, asked in (*share, member)]
            width = math.gcd(*(asked.width for asked in together))
            if max(length for asked in together for length in asked.windows) // width <= MOST_PANES:
                share.append(member)
                break
        else:
            shares.append([member])
    yield from shares


def _shared(
    name: str,
    members: Sequence[tuple[str, JoinAggregate]],
    join: ContinuousJoin,
    times: Sequence[tuple[Scalar, int]],
) -> SharedJoin:
    asked = [each for _, each in members]
    keys, windows = asked[0].keys, _longest(asked)
    width, longest = math.gcd(*(each.width for each in asked)), max(windows)
    shifts = longest - windows[0], longest - windows[1]
    arguments = dict.fromkeys(call.argument for each in asked for call in each.calls)
    outputs = [Named(f"k{i}", key) for i, key in enumerate(keys)]
    read = [Named(f"x{i}", scalar) for i, scalar in enumerate(filter(None, arguments))]
    places = places_of(read)
    stamps = [Named(label, scalar) for label, (scalar, _) in zip((FIRST, SECOND), times, strict=True)]
    gathered: dict[tuple[tuple[int, int], int, tuple[AggregateCall, ...]], list[str]] = {}
    for query, each in members:
        calls = calls_over(each.calls, places)
        gathered.setdefault((each.windows, each.slide, calls), []).append(query)
    readers = tuple(
        JoinReader(
            number,
            lengths,
            ((lengths[0] + shifts[0]) // width, (lengths[1] + shifts[1]) // width),
            slide,
            calls,
            tuple(queries),
        )
        for number, ((lengths, slide, calls), queries) in enumerate(gathered.items())
    )
    b, g = longest // width, max(abs(reader.lengths[0] - reader.lengths[1]) for reader in readers)
    measures = measures_in(call for reader in readers for call in reader.calls)
    kind = choose_kind(measures, b, _together(readers), is_join=True)
    spec = JoinSpec(
        name,
        tuple(_column(f"k{i}", key) for i, key in enumerate(keys)),
        (times[0][1], times[1][1]),
        shifts,
        Panes(width, (width,)),
        b,
        g,
        kind,
        measures,
        readers,
    )
    return SharedJoin(spec, join, (*outputs, *read, *stamps))


def _together(readers: Iterable[JoinReader]) -> float:
    """How many queries are executed together."""
    return executed_together(reader.slide for reader in readers for _ in reader.queries)


def _reason(kind: Kind, b: int, together: float) -> str:
    match kind:
        case Kind.RJ:
            return "all aggregates can be subtracted"
        case Kind.BIJ:
            return f"{_queries(together)} at once, b / log b = {break_even(b):.3g}"
        case _:
            return f"{_queries(together)} at once, fewer than b / log b = {break_even(b):.3g}"


def _queries(together: float) -> str:
    return "1 query" if together == 1 else f"{together:.3g} queries"


def measures_in(calls: Iterable[AggregateCall]) -> tuple[Measure, ...]:
    """What must be kept of results to answer some aggregates, their number first."""
    return tuple(dict.fromkeys((ROWS, *(measure for call in calls for measure in measures_of(call)))))


def _leaves(join: algebra.Join) -> tuple[algebra.Stream, ...]:
    return tuple(leaf for leaf in join.walk() if isinstance(leaf, algebra.Stream))


def _column(name: str, scalar: Scalar) -> Scalar:
    """A column of join results, called as people know what is in it."""
    return replace(column_scalar(Field(name, scalar.type)), text=scalar.text)


def places_of(outputs: Iterable[Named]) -> dict[Scalar, Scalar]:
    """The columns of join results, by what is in them."""
    return {output.scalar: _column(output.name, output.scalar) for output in outputs}


def calls_over(calls: Iterable[AggregateCall], places: Mapping[Scalar, Scalar]) -> tuple[AggregateCall, ...]:
    """Aggregates of the columns of join results."""
    return tuple(
        call if call.argument is None else replace(call, argument=places[call.argument]) for call in calls
    )
