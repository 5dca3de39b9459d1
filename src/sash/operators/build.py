"""From physical plans to a dataflow: which operators, over which state buffers (002, section 3.5.2).

An edge between operators has three properties, which decide how the operator above it keeps its rows:

- `is_ordered`: rows leave in the order in which they came (WKS): a FIFO queue will do;
- `is_foreseen`: rows say when they leave, so a buffer must find those that are due;
- `is_negative`: negative tuples come, so rows must be found by their values;
- `is_internal`: in a query with windows of both kinds, the rows of an INTERNAL one. A join lets them go
  without their results; whatever else they come to, they stay;
- `is_net`: no row enters while an equal one leaves, so the answer need not look for such pairs.

The negative tuple approach (NT) makes everything explicit right above the windows. DIRECT and UPA differ in
the buffer for rows that leave in another order than they came: a list that is scanned, or a calendar queue.
Operators that count (grouping, EXCEPT, DISTINCT over strict input) take explicit changes; what is foreseen
is announced to them first, from the buffer that fits its pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from sash.errors import InternalError, at_place
from sash.lang import algebra
from sash.lang.algebra import Equality, Field, Node, OutputKind, WindowKind, WindowSpec
from sash.lang.growth import is_stream
from sash.lang.types import Type
from sash.lang.values import Named, Scalar
from sash.operators.aggregates.frequent_lists import SUB_WINDOWS, Cut
from sash.operators.announce import Announcer
from sash.operators.answers import (
    Answers,
    ChangeLog,
    LifetimeOutput,
    Limited,
    Once,
    Restored,
    Sequenced,
    Snapshots,
)
from sash.operators.anti_join import AntiJoin
from sash.operators.arrivals import ARRIVED, Arrivals
from sash.operators.dataflow import Dataflow, Place, Vertex
from sash.operators.delta_star import DeltaStar
from sash.operators.division import (
    IN_ORDER,
    WHOLE,
    Division,
    Free,
    Negated,
    by_columns,
    by_row,
    column,
    joined,
    positional,
    projected,
    unchanged,
    widened,
)
from sash.operators.group import Grouping
from sash.operators.identify import ROW, Identify
from sash.operators.instants import Instants
from sash.operators.join import JoinInput, WindowJoin
from sash.operators.lookup_join import LookupJoin
from sash.operators.multiplicities import Counted, Multiplicities
from sash.operators.non_expiring import NonExpiring
from sash.operators.operator import Operator, arrow_types
from sash.operators.projection import Projection
from sash.operators.reading import Guests, Reading
from sash.operators.relation_feed import RelationFeed
from sash.operators.resample import Resample
from sash.operators.rows_window import RowsWindow
from sash.operators.selection import Selection
from sash.operators.time_window import TimeWindow
from sash.operators.union import MergeUnion
from sash.plan.canonical import canonical
from sash.plan.cost import Strategy, strategy_below
from sash.plan.digests import digest
from sash.plan.join_synopses import JoinReader, JoinSpec, SharedJoin, readers_in
from sash.plan.lifetimes import longest_life
from sash.plan.patterns import Pattern, pattern_of
from sash.plan.physical import Exec, JoinAlgorithm, JoinExec
from sash.plan.row_order import has_partitions, in_order_of_arrival, row_order
from sash.plan.run_plan import (
    ContinuousQuery,
    RunPlan,
    is_internal,
    is_scan,
    leaf_of,
    moves_by_rows,
    slide_of,
    watched_apart,
    whole_stream,
    windows_of,
)
from sash.plan.scalars import passed_on, quoted
from sash.state.expirations import CalendarQueue, Expirations, Fifo, ScanList, Silent

# Lazy expiration happens when so much of a window has passed (002, section 3.6.1).
LAZY_SHARE = 20
_RESTORING = (OutputKind.ISTREAM_RESTORE, OutputKind.RSTREAM_RESTORE)


@dataclass(frozen=True, slots=True)
class Edge:
    vertex: int
    fields: tuple[Field, ...]
    is_ordered: bool = False
    is_foreseen: bool = False
    is_negative: bool = False
    is_internal: bool = False
    is_net: bool = False


@dataclass(frozen=True, slots=True)
class Level:
    """What holds for one query or sub-query: its strategy, and how often its windows are looked at."""

    strategy: Strategy
    unit: int
    step: int
    slide: int | None
    streams: tuple[str, ...]
    is_mixed: bool = False
    # The join that feeds join synopses which this is part of: it has windows of its own.
    join: str | None = None
    # Whether rows come in order of arrival, though windows count those of each partition.
    in_order: bool = False
    # Windows move after so many rows: the first move is the first instant.
    by_moves: bool = False
    # Whether rows say when they arrived, in a column after the others.
    has_arrivals: bool = False


JoinSynopses = Callable[[JoinSpec, Sequence[Field], int], tuple[Operator, Operator]]
"""Makes the operator that pre-aggregates join results with some fields, which are looked at every so often,
and that which keeps the synopsis."""


def build(plan: RunPlan, join_synopsis: JoinSynopses | None = None) -> Dataflow:
    """The dataflow of all continuous queries of a plan; those that read join synopses need who makes them.

    What join synopses tell guests of other plans leaves, too (`guests_of`). The plan's own are elsewhere.
    """
    builder = _Builder(plan, join_synopsis)
    for query in plan.continuous:
        if query.name not in plan.readers:
            with at_place(query.definition.place):
                builder.add(query)
    for query in plan.one_time:
        with at_place(query.definition.place):
            builder.add(query, is_once=True)
    for join in plan.joins:
        builder.add_guests(join)
    return builder.flow


def build_guests(plan: RunPlan) -> Dataflow:
    """The dataflow of queries that read join synopses of other plans: those are its sources, by name."""
    builder = _Builder(plan, None)
    for query in plan.continuous:
        if query.name in plan.readers:
            builder.add(query)
    return builder.flow


def guests_of(synopsis: str) -> str:
    """What that which a join synopsis tells guests leaves a dataflow as."""
    return f"guests of {synopsis}"


_Read = tuple[JoinSpec, JoinReader, SharedJoin | None]
"""A join synopsis, as which of its readers a query is answered, and the join; None: that is elsewhere."""


class _Builder:
    def __init__(self, plan: RunPlan, join_synopsis: JoinSynopses | None) -> None:
        self.flow = Dataflow()
        self._join_synopsis = join_synopsis
        self._readers: dict[str, _Read] = {
            name: (join.spec, reader, join) for name, (join, reader) in readers_in(plan.joins).items()
        }
        self._readers.update({name: (g.spec, g.reader, None) for name, g in plan.readers.items()})
        # Where the joins are that feed join synopses.
        self._fed: dict[Node, dict[Node, Place]] = {}
        # The join synopsis that the query at hand is answered from.
        self._reading: _Read | None = None
        self._scans = {canonical(scan.node): scan.name for scan in plan.scans}
        self._relations = {relation.name: relation for relation in plan.relations}
        self._streams = {stream.name: stream for stream in plan.streams}
        self._feed_of = plan.feed
        self._known: dict[object, Edge] = {}
        # The vertices that were made for a node, by what is known of it.
        self._made: dict[object, tuple[int, ...]] = {}
        self._places: dict[Node, Place] = {}

    def add(self, query: ContinuousQuery, *, is_once: bool = False) -> None:
        level = _level(query.physical.logical, query.choices.strategy, query.unit)
        self._places = self.flow.places[query.name] = {}
        self._reading = None if is_once else self._readers.get(query.name)
        if self._reading is not None and self._reading[2] is None:
            # Its first instant is that of the synopsis.
            level = replace(level, streams=(self._reading[0].name,))
        first = len(self.flow.vertices)
        archive = query.definition.archive
        if archive is not None:
            edge = self._archived(query.physical, level, archive.every)
        else:
            edge = (self._once if is_once else self._answer)(query.physical, level)
        vertex = edge.vertex
        self.flow.outputs[query.name] = vertex
        tops = [vertex]
        if isinstance(query.physical.inputs[0].logical, algebra.Limit):
            tops.extend(self.flow.vertices[vertex].inputs)
        for number in tops:
            top = self.flow.vertices[number].operator
            if isinstance(top, Answers):
                top.query = query.name
        made = {number for place in self._places.values() for number in place.made}
        rest = (number for number in range(first, len(self.flow.vertices)) if number not in made)
        self._places[query.physical.logical] = Place(vertex, tuple(rest))

    def add_guests(self, join: SharedJoin) -> None:
        """Let what a join synopsis tells others than its own readers leave."""
        edge = self._known["joined", join.name]
        keys = len(join.spec.keys)
        guests = Guests(edge.fields, keys, 1 + max(reader.number for reader in join.spec.readers))
        vertex = self._vertex(guests, [edge], by_columns(range(keys), edge.fields))
        self.flow.outputs[guests_of(join.name)] = vertex

    # ------------------------------------------------------------------ vertices

    def _vertex(self, operator: Operator, inputs: Sequence[Edge], division: Division = WHOLE) -> int:
        vertices = self.flow.vertices
        read = tuple(edge.vertex for edge in inputs)
        vertices.append(Vertex(operator, read, operator.fields, division=division))
        return len(vertices) - 1

    def _put(self, operator: Operator, division: Division, *inputs: Edge) -> Edge:
        """An operator whose output has the properties that its inputs have together, in no order."""
        return Edge(
            self._vertex(operator, inputs, division),
            operator.fields,
            False,
            any(edge.is_foreseen for edge in inputs),
            any(edge.is_negative for edge in inputs),
        )

    def _same(self, operator: Operator, edge: Edge, division: Division | None = None) -> Edge:
        """An operator that leaves times as they are and, without a division of its own, columns, too."""
        vertex = self._vertex(operator, [edge], division or unchanged(edge.fields))
        return replace(edge, vertex=vertex, fields=operator.fields)

    def _projected(self, edge: Edge, outputs: Sequence[Named]) -> Edge:
        division = projected(edge.fields, [output.scalar for output in outputs])
        return self._same(Projection(edge.fields, outputs), edge, division)

    def _announced(self, edge: Edge, strategy: Strategy) -> Edge:
        """The same changes, each departure a negative tuple."""
        if not edge.is_foreseen:
            return edge
        key = ("announced", edge.vertex, strategy)
        if key not in self._known:
            buffer = _buffer(edge, strategy)
            operator = Announcer(edge.fields, buffer, may_be_negative=edge.is_negative)
            vertex = self._vertex(operator, [edge], unchanged(edge.fields))
            self._known[key] = Edge(vertex, edge.fields, is_negative=True, is_internal=edge.is_internal)
        return self._known[key]

    def _source(self, name: str, fields: Sequence[Field], **properties: bool) -> Edge:
        key = ("source", name)
        if key not in self._known:
            self.flow.vertices.append(Vertex(None, (), tuple(fields), name))
            self._known[key] = Edge(len(self.flow.vertices) - 1, tuple(fields), **properties)
        return replace(self._known[key], fields=tuple(fields))

    # ------------------------------------------------------------------ answers

    def _once(self, node: Exec, level: Level) -> Edge:
        below, order, limit = _limited(node.inputs[0])
        edge = self._announced(self._relation(below, level), level.strategy)
        once = Once(edge.fields, level.streams, level.step, order, limit, by_moves=level.by_moves)
        return self._end(once, edge, self._moves(node, level))

    def _archived(self, node: Exec, level: Level, every: int) -> Edge:
        """What an archive is given: rows with their lives where all are foreseen, else each departure."""
        below, order, limit = _limited(node.inputs[0])
        edge = self._relation(below, level)
        life = None
        # A union may have rows that are announced beside others whose ends are foreseen.
        has_union = any(isinstance(each, algebra.Union) for each in below.logical.walk())
        may_be_mixed = edge.is_negative and has_union
        if edge.is_foreseen and limit is None and not may_be_mixed:
            life = longest_life(below.logical, self._streams, level.unit, level.step)
        if life is None:
            edge = self._announced(edge, level.strategy)
        if limit is not None:
            edge = self._first_rows(node, level, edge, order, limit)
        lives = LifetimeOutput(
            edge.fields,
            level.streams,
            level.step,
            every,
            life,
            may_be_taken_back=edge.is_negative,
            by_moves=level.by_moves,
        )
        return self._end(lives, edge, self._moves(node, level))

    def _first_rows(
        self, node: Exec, level: Level, edge: Edge, order: Sequence[algebra.SortKey], limit: int
    ) -> Edge:
        limited = Limited(edge.fields, level.streams, level.step, order, limit, by_moves=level.by_moves)
        return self._explicit(limited, WHOLE, edge, *self._moves(node, level))

    def _answer(self, node: Exec, level: Level) -> Edge:
        output = node.logical
        assert isinstance(output, algebra.Output)
        below, order, limit = _limited(node.inputs[0])
        is_ordered = in_order_of_arrival(output)
        if output.kind is OutputKind.WSTREAM:
            assert output.window is not None
            elements = self._elements(below, level)
            edge = self._announced(self._window(elements, output.window, level), level.strategy)
            return self._end(ChangeLog(edge.fields, level.streams, level.unit), edge)
        slides = level.slide is not None
        moves = self._moves(node, level)
        if is_internal(output):
            edge = self._elements(below, level)
            if output.kind is OutputKind.RSTREAM:
                operator: Operator = Snapshots(
                    edge.fields, level.streams, level.step, slides=slides, by_moves=level.by_moves
                )
                return self._end(operator, edge, moves if slides else self._instants(node, level))
            kind = OutputKind.DSTREAM if output.kind is OutputKind.DSTREAM else OutputKind.ISTREAM
            operator = ChangeLog(edge.fields, level.streams, level.step, kind, by_moves=level.by_moves)
            return self._end(operator, edge, moves, is_ordered=is_ordered)
        edge = self._announced(self._relation(below, level), level.strategy)
        if limit is not None and output.kind is not OutputKind.RSTREAM:
            edge = self._first_rows(node, level, edge, order, limit)
        match output.kind:
            case OutputKind.RSTREAM if is_ordered:
                operator = ChangeLog(edge.fields, level.streams, level.step, output.kind)
            case OutputKind.RSTREAM:
                moves = moves if slides else self._instants(node, level)
                operator = Snapshots(
                    edge.fields,
                    level.streams,
                    level.step,
                    slides=slides,
                    order=order,
                    limit=limit,
                    by_moves=level.by_moves,
                )
            case OutputKind.ISTREAM_RESTORE | OutputKind.RSTREAM_RESTORE:
                assert level.slide is not None
                whole = output.kind is OutputKind.RSTREAM_RESTORE
                operator = Restored(edge.fields, level.streams, level.slide, whole=whole)
            case _:
                operator = ChangeLog(
                    edge.fields,
                    level.streams,
                    level.step,
                    output.kind,
                    is_net=edge.is_net,
                    by_moves=level.by_moves,
                )
        return self._end(operator, edge, moves, is_ordered=is_ordered)

    def _end(
        self, operator: Operator, edge: Edge, moves: Sequence[Edge] = (), *, is_ordered: bool = False
    ) -> Edge:
        # A change log only needs equal rows together; whatever looks at a whole relation needs all of it.
        division = by_row(edge.fields) if isinstance(operator, ChangeLog) and not moves else WHOLE
        division = IN_ORDER if is_ordered else division
        return Edge(self._vertex(operator, [edge, *moves], division), edge.fields, is_negative=True)

    # ------------------------------------------------------------------ instants

    def _moves(self, node: Exec, level: Level) -> tuple[Edge, ...]:
        """When windows move that do so after some rows; nothing for other queries."""
        if not level.by_moves:
            return ()
        windows = (self._relation(window, level, keeps_internal=True) for window in _level_windows(node))
        return tuple(self._instants_of(window, level) for window in windows)

    def _instants(self, node: Exec, level: Level) -> tuple[Edge, ...]:
        """When a row enters or leaves a window or a relation of a query.

        Where a condition has come to stand below a window, it takes another one that has all rows.
        """
        output = node.logical
        assert isinstance(output, algebra.Output)
        apart = watched_apart(output)
        narrowed = {leaf_of(window.input).qualifier for window in apart}
        windows = [
            self._relation(window, level, keeps_internal=True)
            for window in _level_windows(node)
            if not (is_scan(below := window.inputs[0].logical) and leaf_of(below).qualifier in narrowed)
        ]
        for each in apart:
            has_lifetimes = leaf_of(each.input).has_lifetime
            source = self._scans[canonical(each.input)]
            rows = self._source(source, each.input.fields, is_foreseen=has_lifetimes)
            windows.append(self._window(rows, each.spec, level, whole_stream(each.input)))
        relations = dict.fromkeys(
            each.name for each in _until_windows(output) if isinstance(each, algebra.Relation)
        )
        feeds = (self._known.get(("feed", name)) for name in relations)
        return tuple(self._instants_of(edge, level) for edge in (*windows, *feeds) if edge is not None)

    def _instants_of(self, edge: Edge, level: Level) -> Edge:
        key = ("instants", edge.vertex, level.unit)
        if key not in self._known:
            self._known[key] = Edge(self._vertex(Instants(level.unit), [edge], Free(())), ())
        return self._known[key]

    def _elements(self, node: Exec, level: Level) -> Edge:
        """The append-only stream of a query's results (002, sections 3.3.2 and 3.3.3).

        A sliding aggregate gives its value at every slide, also if it is the value from before; everything
        else gives what is new.
        """
        edge = self._announced(self._relation(node, level), level.strategy)
        has_values = any(isinstance(below, algebra.Aggregate) for below in _until_windows(node.logical))
        if level.slide is not None and has_values:
            operator: Operator = Snapshots(edge.fields, level.streams, level.step, slides=True)
        else:
            operator = ChangeLog(
                edge.fields, level.streams, level.step, OutputKind.ISTREAM, by_moves=level.by_moves
            )
        stream = Edge(self._vertex(operator, [edge, *self._moves(node, level)]), edge.fields)
        order = None if in_order_of_arrival(node.logical) else ()
        name = stream_name(node.logical, level.unit)
        return self._same(Sequenced(edge.fields, name, order), stream, WHOLE)

    # ------------------------------------------------------------------ relations

    def _relation(
        self, node: Exec, level: Level, *, defer: bool = False, keeps_internal: bool = False
    ) -> Edge:
        """The edge that leaves a node.

        `defer`: an NT window leaves its announcements to the node above. `keeps_internal`: that node knows
        what to do with rows of INTERNAL windows.
        """
        reader = None if self._reading is None else (self._reading[0].name, self._reading[1].number)
        key = (canonical(node.logical), level, defer, _algorithms(node), reader)
        if key not in self._known:
            first = len(self.flow.vertices)
            self._known[key] = self._build(node, level, defer)
            below = {number for place in self._places.values() for number in place.made}
            made = (number for number in range(first, len(self.flow.vertices)) if number not in below)
            self._made[key] = tuple(made)
        edge = self._known[key]
        self._places[node.logical] = Place(edge.vertex, self._made[key])
        # Who shares it may call the columns otherwise; they stand in the same places.
        edge = replace(edge, fields=_fields(node.logical, level))
        return self._lasting(edge) if edge.is_internal and not keeps_internal else edge

    def _build(self, node: Exec, level: Level, defer: bool) -> Edge:
        logical = node.logical
        match logical:
            case algebra.Window():
                edge = self._stream(node.inputs[0], level)
                if level.has_arrivals:
                    edge = self._same(Arrivals(edge.fields), edge, widened(edge.fields, 1))
                edge = self._window(edge, logical.spec, level, whole_stream(logical.input))
                edge = replace(edge, is_internal=level.is_mixed and logical.spec.is_internal)
                if level.strategy is Strategy.NT and not defer:
                    edge = self._announced(edge, level.strategy)
                return edge
            case algebra.Relation():
                return self._relation_rows(logical, level)
            case algebra.Select():
                edge = self._relation(node.inputs[0], level, defer=defer, keeps_internal=True)
                return self._same(Selection(edge.fields, logical.predicate), edge)
            case algebra.Project():
                edge = self._relation(node.inputs[0], level, defer=defer, keeps_internal=True)
                kept = {output.scalar.column for output in logical.outputs}
                is_net = edge.is_net and all(field.name in kept for field in edge.fields)
                outputs = [*logical.outputs, *passed_on(edge.fields[-1:] if level.has_arrivals else ())]
                return self._projected(replace(edge, is_net=is_net), outputs)
            case algebra.Union():
                inputs = [self._relation(below, level) for below in node.inputs]
                fields = _fields(logical, level)
                division = unchanged(fields, len(inputs))
                edge = self._put(MergeUnion(fields), division, *inputs)
                return replace(edge, is_ordered=pattern_of(logical) is Pattern.WKS)
            case algebra.Except() | algebra.Intersect():
                kind = Counted.EXCEPT if isinstance(logical, algebra.Except) else Counted.INTERSECT
                inputs = [self._announced(self._relation(b, level), level.strategy) for b in node.inputs]
                counted = Multiplicities(logical.fields, kind)
                return self._explicit(counted, by_row(logical.fields, len(inputs)), *inputs)
            case algebra.Distinct():
                return self._distinct(self._relation(node.inputs[0], level), level.strategy)
            case algebra.Aggregate() if self._reading is not None:
                return self._read(logical, level, *self._reading)
            case algebra.Aggregate():
                return self._aggregate(logical, self._relation(node.inputs[0], level), level)
            case algebra.Join():
                assert isinstance(node, JoinExec)
                return self._join(node, logical, level)
            case algebra.Limit():
                return self._limit(node, logical, level)
            case algebra.SemiJoin():
                return self._semi_join(node, logical, level)
            case algebra.RelationJoin():
                return self._relation_join(node, logical, level)
        raise InternalError(f"no operator for {type(logical).__name__}")

    def _lasting(self, edge: Edge) -> Edge:
        """Rows of an INTERNAL window stay: they never leave, neither as foreseen nor before."""
        vertex = self._vertex(NonExpiring(edge.fields), [edge], unchanged(edge.fields))
        return Edge(vertex, edge.fields)

    def _explicit(self, operator: Operator, division: Division, *inputs: Edge) -> Edge:
        """An operator that compares what was there before an instant with what is there after it."""
        vertex = self._vertex(operator, inputs, division)
        return Edge(vertex, operator.fields, is_negative=True, is_net=True)

    # ------------------------------------------------------------------ windows

    def _stream(self, node: Exec, level: Level) -> Edge:
        """The rows below a window: of a stream, or those that a sub-query gives."""
        logical = node.logical
        if is_scan(logical):
            has_lifetimes = any(isinstance(n, algebra.Stream) and n.has_lifetime for n in logical.walk())
            edge = self._source(self._scans[canonical(logical)], logical.fields, is_foreseen=has_lifetimes)
            self._places[logical] = Place(edge.vertex, ())
            return edge
        inner = _level(logical, level.strategy, level.unit)
        if isinstance(logical, algebra.Output):
            edge = self._answer(node, inner)
            sequenced = Sequenced(edge.fields, stream_name(logical, level.unit), row_order(logical))
            return self._same(sequenced, replace(edge, is_negative=False), WHOLE)
        if is_stream(logical):
            edge = self._over_streams(logical, [self._stream(below, level) for below in node.inputs])
            self._places[logical] = Place(edge.vertex, (edge.vertex,))
            return edge
        if not is_internal(logical):
            raise InternalError("a window over a sub-query whose windows are not internal")
        return self._elements(node, inner)

    def _over_streams(self, logical: Node, inputs: Sequence[Edge]) -> Edge:
        """What filters, projects and unites the rows of streams before a window sees them."""
        match logical:
            case algebra.Select():
                return self._same(Selection(inputs[0].fields, logical.predicate), inputs[0])
            case algebra.Project():
                return self._projected(inputs[0], logical.outputs)
            case algebra.Union():
                united = MergeUnion(logical.fields, of_streams=True)
                return self._put(united, unchanged(logical.fields, len(inputs)), *inputs)
        raise InternalError(f"a {type(logical).__name__} is no part of a stream")

    def _window(
        self, edge: Edge, spec: WindowSpec, level: Level, stream: algebra.Stream | None = None
    ) -> Edge:
        if spec.kind is WindowKind.ROWS:
            assert spec.rows is not None
            names = [field.name for field in edge.fields]
            partition = [names.index(name) for name in spec.partition]
            rows = RowsWindow(
                edge.fields,
                spec.rows,
                spec.slide or 1,
                partition,
                marks=level.is_mixed,
                in_order=level.in_order,
                stream=None if stream is None else stream.name,
            )
            division = IN_ORDER if level.in_order else by_columns(partition, edge.fields)
            vertex = self._vertex(rows, [edge], division)
            return Edge(vertex, edge.fields, is_foreseen=edge.is_foreseen, is_negative=True)
        length = spec.range
        if spec.kind is WindowKind.NOW:
            length = level.unit
        if spec.kind is WindowKind.UNBOUNDED:
            length = None
        window = TimeWindow(edge.fields, length, spec.offset, level.step, level.join)
        is_foreseen = edge.is_foreseen or length is not None
        return Edge(
            self._vertex(window, [edge], unchanged(edge.fields)),
            edge.fields,
            is_ordered=not edge.is_foreseen,
            is_foreseen=is_foreseen,
        )

    def _relation_rows(self, logical: algebra.Relation, level: Level) -> Edge:
        definition = self._relations[logical.name]
        if definition.is_static:
            return self._source(f"relation {logical.name}", logical.fields)
        visible = [column.name for column in definition.visible]
        key = [visible.index(name) for name in definition.key]
        known = ("feed", logical.name)
        if known not in self._known:
            fields = tuple(Field(column.name, column.type) for column in definition.schema)
            source = self._source(self._feed_of(logical.name), fields)
            ordered = [
                *visible,
                *([definition.operation] if definition.operation is not None else []),
            ]
            types = {column.name: column.type for column in definition.schema}
            outputs = [Named(n, Scalar(f'"{n}"', types[n], (n,), n)) for n in ordered]
            feed = RelationFeed(
                logical.fields,
                key,
                has_operation=definition.operation is not None,
                is_final=not definition.is_retroactive,
                name=logical.name,
            )
            changes = self._explicit(feed, WHOLE, self._projected(source, outputs))
            self._known[known] = replace(changes, is_net=False)
        edge = replace(self._known[known], fields=logical.fields)
        if level.step > 1 and logical.is_revised:
            edge = self._same(Resample(logical.fields, level.step), edge)
        return edge

    # ------------------------------------------------------------------ operators with state

    def _distinct(self, edge: Edge, strategy: Strategy) -> Edge:
        if edge.is_negative or strategy is not Strategy.UPA:
            counted = Multiplicities(edge.fields, Counted.DISTINCT)
            return self._explicit(counted, by_row(edge.fields), self._announced(edge, strategy))
        buffer: Expirations = CalendarQueue() if edge.is_foreseen else Silent()
        return self._put(DeltaStar(edge.fields, buffer), by_row(edge.fields), edge)

    def _aggregate(self, logical: algebra.Aggregate, edge: Edge, level: Level) -> Edge:
        arguments = [call.argument for call in logical.calls]
        scalars = list(dict.fromkeys(argument for argument in arguments if argument is not None))
        outputs = [Named(f"k{i}", key) for i, key in enumerate(logical.keys)]
        outputs += [Named(f"x{i}", scalar) for i, scalar in enumerate(scalars)]
        needed = self._projected(edge, outputs)
        explicit = self._announced(needed, level.strategy)
        places = [
            None if argument is None else len(logical.keys) + scalars.index(argument)
            for argument in arguments
        ]
        grouping = Grouping(
            logical.fields[: len(logical.keys)],
            logical.calls,
            places,
            logical.fields,
            arrow_types(explicit.fields),
            fifo=_comes_in_order(logical.input, edge),
            endless=not explicit.is_negative,
            cut=_sub_windows(logical.input, level.unit),
        )
        return self._explicit(grouping, by_columns(range(len(logical.keys)), explicit.fields), explicit)

    def _read(
        self,
        logical: algebra.Aggregate,
        level: Level,
        spec: JoinSpec,
        reader: JoinReader,
        shared: SharedJoin | None,
    ) -> Edge:
        """What the operator that keeps a join synopsis tells one of its readers."""
        if shared is None:
            kept = self._source(spec.name, spec.fields, is_negative=True, is_net=True)
        else:
            kept = self._kept(shared, level)
            self._places.update(self._places_in(logical, shared, kept.vertex))
        calls, keys = spec.calls, len(spec.keys)
        places = [*range(keys), *(keys + 1 + calls.index(call) for call in reader.calls)]
        division = Free(tuple(column(place, kept.fields) for place in places))
        return self._explicit(Reading(logical.fields, places, keys, reader.number), division, kept)

    def _places_in(self, logical: Node, shared: SharedJoin, kept: int) -> dict[Node, Place]:
        """Where the join and the windows of a query are that reads a join synopsis, kept beside the join."""
        found: dict[Node, Place] = {}
        there = {_what(node): place for node, place in self._fed[shared.join.source].items()}
        for node in logical.walk():
            place = there.get(_what(node))
            if place is not None:
                made = (*place.made, kept) if isinstance(node, algebra.Join) else place.made
                found[node] = Place(place.vertex, made)
        return found

    def _kept(self, shared: SharedJoin, level: Level) -> Edge:
        """The join synopsis over the continuous join of the longest windows."""
        key = ("joined", shared.name)
        if key not in self._known:
            if self._join_synopsis is None:
                raise InternalError(f"nobody makes the join synopsis {shared.name}")
            reading, self._reading = self._reading, None
            join = shared.join
            below = Level(Strategy.UPA, level.unit, join.step, join.step, join.streams, join=join.name)
            edge = self._projected(self._relation(join.physical, below), shared.outputs)
            self._reading = reading
            nodes = [node for node in join.physical.logical.walk() if node in self._places]
            self._fed.setdefault(join.source, {node: self._places[node] for node in nodes})
            partials, operator = self._join_synopsis(shared.spec, edge.fields, join.step)
            keys = len(shared.spec.keys)
            kept = [column(i, edge.fields) for i in range(keys)]
            added = Free((*kept, *[None] * (len(partials.fields) - keys)))
            edge = Edge(self._vertex(partials, [edge], added), partials.fields)
            self._known[key] = self._explicit(operator, by_columns(range(keys), edge.fields), edge)
        return self._known[key]

    def _join(self, node: JoinExec, logical: algebra.Join, level: Level) -> Edge:
        # What an INTERNAL window held between two slides would stay in the result.
        is_eager = node.algorithm is not JoinAlgorithm.LAZY and not level.is_mixed
        below = replace(level, step=level.unit) if is_eager and level.slide is not None else level
        edges = [self._relation(child, below, keeps_internal=True) for child in node.inputs]
        arrived = [replace(ARRIVED, name=f"{ARRIVED.name}{i}") for i in range(len(edges))]
        if level.has_arrivals:
            edges = [replace(e, fields=(*e.fields[:-1], own)) for e, own in zip(edges, arrived, strict=True)]
        inputs = [
            JoinInput(e.fields, _buffer(e, level.strategy), e.is_ordered, e.is_negative, e.is_internal)
            for e in edges
        ]
        every = 0
        if node.algorithm is JoinAlgorithm.EAGER_LAZY_EXPIRATION:
            lengths = [w.spec.range for w in windows_of(logical) if w.spec.range is not None]
            every = min(lengths, default=0) // LAZY_SHARE
        join = WindowJoin(inputs, logical.equalities, logical.residual, expire_every=every, name=level.join)
        edge = Edge(
            self._vertex(join, edges, joined([edge.fields for edge in edges], logical.equalities)),
            join.fields,
            False,
            any(each.is_foreseen for each in edges if not each.is_internal),
            any(each.is_negative for each in edges if not each.is_internal),
        )
        if level.has_arrivals:
            # Rows that are joined arrive when the last of them does.
            names = tuple(field.name for field in arrived)
            last = Scalar(f"greatest({', '.join(map(quoted, names))})", ARRIVED.type, names)
            edge = self._projected(edge, [*passed_on(logical.fields), Named(ARRIVED.name, last)])
        # What reads a join synopsis sees its results at boundaries only: they need not wait until then.
        if below.step != level.step and level.join is None:
            edge = self._same(Resample(edge.fields, level.step), edge)
        return edge

    def _limit(self, node: Exec, logical: algebra.Limit, level: Level) -> Edge:
        """The first rows of a sub-query; its order alone means nothing to who reads it."""
        edge = self._relation(node.inputs[0], level)
        if logical.count is None:
            return edge
        limited = Limited(edge.fields, level.streams, level.step, logical.order, logical.count)
        return self._explicit(limited, WHOLE, self._announced(edge, level.strategy))

    def _semi_join(self, node: Exec, logical: algebra.SemiJoin, level: Level) -> Edge:
        left = self._relation(node.inputs[0], level)
        right = self._relation(node.inputs[1], replace(level, has_arrivals=False))
        if not logical.is_anti:
            return self._matching(logical, left, right, level.strategy)
        if logical.nulls_match:
            edge = self._not_in(logical, left, right, level.strategy)
        else:
            edge = self._without(left, right, logical.left_keys, logical.right_keys, level.strategy)
        if node.estimate.announces or level.strategy is Strategy.NT:
            edge = self._announced(edge, level.strategy)
        return edge

    def _matching(self, logical: algebra.SemiJoin, left: Edge, right: Edge, strategy: Strategy) -> Edge:
        """EXISTS is a join with each key of the right side once; results end with the youngest match."""
        keys = [Named(f"·k{i}", key) for i, key in enumerate(logical.right_keys)]
        once = self._distinct(self._projected(right, keys), strategy)
        inputs = [
            JoinInput(e.fields, _buffer(e, strategy), e.is_ordered, e.is_negative) for e in (left, once)
        ]
        equalities = [
            Equality(0, own, 1, Scalar(f'"{key.name}"', key.scalar.type, (key.name,), key.name))
            for own, key in zip(logical.left_keys, keys, strict=True)
        ]
        division = joined([left.fields, once.fields], equalities)
        matched = self._put(WindowJoin(inputs, equalities), division, left, once)
        return self._projected(matched, passed_on(left.fields))

    def _without(
        self,
        left: Edge,
        right: Edge,
        left_keys: Sequence[Scalar],
        right_keys: Sequence[Scalar],
        strategy: Strategy,
    ) -> Edge:
        keys = [Named(f"·k{i}", key) for i, key in enumerate(right_keys)]
        matches = self._announced(self._projected(right, keys), strategy)
        negation = AntiJoin(left.fields, left_keys, _buffer(left, strategy), may_be_negative=left.is_negative)
        division = Negated(positional(left_keys, left.fields), by_row(matches.fields).columns)
        vertex = self._vertex(negation, [left, matches], division)
        return Edge(vertex, left.fields, is_foreseen=left.is_foreseen, is_negative=True)

    def _not_in(self, logical: algebra.SemiJoin, left: Edge, right: Edge, strategy: Strategy) -> Edge:
        """NOT IN: no equal value, no NULL among the values, and no values at all for a NULL on the left."""
        asked, *left_rest = logical.left_keys
        given, *right_rest = logical.right_keys
        one = Scalar("CAST(1 AS BIGINT)", Type.BIGINT, ())
        edge = self._without(left, right, logical.left_keys, logical.right_keys, strategy)
        edge = self._without(edge, right, (one, *left_rest), (_if_null(given), *right_rest), strategy)
        return self._without(edge, right, (_if_null(asked), *left_rest), (one, *right_rest), strategy)

    # ------------------------------------------------------------------ relations

    def _relation_join(self, node: Exec, logical: algebra.RelationJoin, level: Level) -> Edge:
        relation = logical.relation
        if relation.is_revised:
            return self._retroactive(node, logical, level)
        inner = replace(level, strategy=strategy_below(logical, level.strategy))
        delay = 0 if relation.is_static else _delay(logical.input, level)
        if not _has_arrivals(logical.input):
            # What many rows have made arrives when it changes, whenever it is looked at.
            step = level.step if level.is_mixed or relation.is_static else level.unit
            inner, delay = replace(inner, step=step), 0
        elif delay:
            inner = replace(inner, has_arrivals=True)
        left = self._relation(node.inputs[0], inner, defer=True, keeps_internal=True)
        edge = self._looked_up(logical, left, level, delay)
        if inner.has_arrivals:
            edge = self._projected(edge, passed_on(_fields(logical, level)))
        if inner.step != level.step:
            edge = self._same(Resample(edge.fields, level.step), edge)
        return self._announced(edge, level.strategy) if level.strategy is Strategy.NT else edge

    def _looked_up(self, logical: algebra.RelationJoin, left: Edge, level: Level, delay: int) -> Edge:
        lookup = LookupJoin(
            left.fields,
            logical.relation.fields,
            logical.left_keys,
            logical.right_keys,
            logical.residual,
            is_outer=logical.is_outer,
            delay=delay,
        )
        right = self._relation_rows(logical.relation, level)
        division = widened(left.fields, len(logical.relation.fields), others_everywhere=True)
        return replace(left, vertex=self._vertex(lookup, [left, right], division), fields=lookup.fields)

    def _retroactive(self, node: Exec, logical: algebra.RelationJoin, level: Level) -> Edge:
        inner = replace(level, strategy=strategy_below(logical, level.strategy))
        left = self._relation(node.inputs[0], inner, defer=True)
        right = self._relation_rows(logical.relation, level)
        if not logical.is_outer:
            edge = self._inner(logical, left, right, level.strategy)
            return self._announced(edge, level.strategy) if level.strategy is Strategy.NT else edge
        numbered = self._same(Identify(left.fields), left, widened(left.fields, 1))
        pairs = self._inner(logical, numbered, right, level.strategy)
        number = Scalar(f'"{ROW}"', Type.BIGINT, (ROW,), ROW)
        alone = self._without(numbered, pairs, (number,), (number,), level.strategy)
        outputs = passed_on(logical.fields)
        padded = [
            *passed_on(left.fields),
            *(
                Named(field.name, Scalar(f"CAST(NULL AS {field.type.value})", field.type, ()))
                for field in logical.relation.fields
            ),
        ]
        both = (self._projected(pairs, outputs), self._projected(alone, padded))
        edge = self._put(MergeUnion(logical.fields), unchanged(logical.fields, 2), *both)
        return self._announced(edge, level.strategy) if level.strategy is Strategy.NT else edge

    def _inner(self, logical: algebra.RelationJoin, left: Edge, right: Edge, strategy: Strategy) -> Edge:
        inputs = [
            JoinInput(e.fields, _buffer(e, strategy), e.is_ordered, e.is_negative) for e in (left, right)
        ]
        pairs = zip(logical.left_keys, logical.right_keys, strict=True)
        equalities = [Equality(0, own, 1, other) for own, other in pairs]
        division = joined([left.fields, right.fields], equalities)
        return self._put(WindowJoin(inputs, equalities, logical.residual), division, left, right)


@lru_cache(maxsize=16_384)
def stream_name(node: Node, unit: int) -> str:
    """What the stream is called that a sub-query gives.

    Its name is in logs that other processes read. `unit`: with another grain of time it may begin elsewhere.
    """
    return f"stream {digest((canonical(node), unit))}"


def _stream_names(node: Node, unit: int) -> Iterator[str]:
    """The streams from which the rows below a window come."""
    if isinstance(node, algebra.Stream):
        yield node.name
    elif is_stream(node) and not isinstance(node, algebra.Output):
        for child in node.children:
            yield from _stream_names(child, unit)
    else:
        yield stream_name(node, unit)


def _level(node: Node, strategy: Strategy, unit: int) -> Level:
    slide = slide_of(node)
    is_restoring = isinstance(node, algebra.Output) and node.kind in _RESTORING
    names = (name for window in windows_of(node) for name in _stream_names(window.input, unit))
    streams = tuple(dict.fromkeys(names))
    step = unit if slide is None or is_restoring else slide
    kinds = {window.spec.is_internal for window in windows_of(node)}
    in_order = in_order_of_arrival(node) and has_partitions(node)
    return Level(
        strategy,
        unit,
        step,
        slide,
        streams,
        is_mixed=len(kinds) > 1,
        in_order=in_order,
        by_moves=moves_by_rows(node),
    )


def _buffer(edge: Edge, strategy: Strategy) -> Expirations:
    """The state buffer for the rows of an edge."""
    if not edge.is_foreseen:
        return Silent()
    if edge.is_ordered and not edge.is_negative:
        return Fifo()
    return ScanList() if strategy is Strategy.DIRECT else CalendarQueue()


def _limited(node: Exec) -> tuple[Exec, tuple[algebra.SortKey, ...], int | None]:
    """What is ordered and limited, in which order, and to how many rows."""
    if isinstance(node.logical, algebra.Limit):
        return node.inputs[0], node.logical.order, node.logical.count
    return node, (), None


def _comes_in_order(node: Node, edge: Edge) -> bool:
    """Whether rows come, and then leave, in one order: a union gives them side by side."""
    has_union = any(isinstance(below, algebra.Union) for below in _until_windows(node))
    return edge.is_ordered and edge.is_foreseen and not edge.is_negative and not has_union


def _sub_windows(node: Node, unit: int) -> Cut | None:
    """Where sub-windows end, if rows leave in the order in which they came: those of a window of a stream."""
    while isinstance(node, algebra.Select | algebra.Project):
        node = node.input
    if not isinstance(node, algebra.Window) or not is_scan(node.input) or leaf_of(node.input).has_lifetime:
        return None
    spec = node.spec
    match spec.kind:
        case WindowKind.ROWS if spec.rows is not None and not spec.partition:
            return Cut() if spec.slide is not None else Cut(rows=max(1, spec.rows // SUB_WINDOWS))
        case WindowKind.RANGE if spec.range is not None and spec.slide is None:
            return Cut(step=max(unit, spec.range // SUB_WINDOWS))
        case WindowKind.RANGE if spec.range is not None and spec.slide is not None:
            return Cut() if (spec.range - spec.offset) % spec.slide == 0 else None
    return None


def _what(node: Node) -> tuple[object, ...]:
    """What kind of a node it is, and over which sources."""
    return (type(node), *sorted(leaf.qualifier for leaf in node.walk() if isinstance(leaf, algebra.Stream)))


def _algorithms(node: Exec) -> tuple[JoinAlgorithm, ...]:
    return tuple(below.algorithm for below in node.walk() if isinstance(below, JoinExec))


def _until_windows(node: Node) -> Sequence[Node]:
    """The nodes of a query above its windows."""
    if isinstance(node, algebra.Window):
        return ()
    return (node, *(found for child in node.children for found in _until_windows(child)))


def _has_arrivals(node: Node) -> bool:
    """Whether each row is of single rows of streams, which arrived at some instant."""
    match node:
        case algebra.Window():
            return True
        case algebra.RelationJoin():
            return not node.relation.is_revised and _has_arrivals(node.input)
        case algebra.SemiJoin():
            return not node.is_anti and _has_arrivals(node.left)
        case algebra.Select() | algebra.Project() | algebra.Join() | algebra.Union():
            return all(_has_arrivals(child) for child in node.children)
    return False


def _delay(node: Node, level: Level) -> int:
    """How much later than they arrive rows come, at most; 0: at once."""
    offset = max((window.spec.offset for window in windows_of(node)), default=0)
    return offset + level.step if offset or level.step != level.unit else 0


def _fields(node: Node, level: Level) -> tuple[Field, ...]:
    return (*node.fields, ARRIVED) if level.has_arrivals else node.fields


def _level_windows(node: Exec) -> Iterator[Exec]:
    """The windows of a query, not those of the sub-queries that they are over."""
    if isinstance(node.logical, algebra.Window):
        yield node
        return
    for below in node.inputs:
        yield from _level_windows(below)


def _if_null(scalar: Scalar) -> Scalar:
    """1 where a value is NULL, else NULL."""
    return Scalar(f"CASE WHEN ({scalar.sql}) IS NULL THEN CAST(1 AS BIGINT) END", Type.BIGINT, scalar.inputs)
