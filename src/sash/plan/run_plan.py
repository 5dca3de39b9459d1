"""The plan of a run: which queries a synopsis answers, which run as continuous operators, and what both read.

A query is periodic if a synopsis can answer it (`plan/periodic.py`) and nobody forces a strategy for it;
every other query is continuous. The parts of continuous plans that only read, filter and project a stream
are scans: they run in the first stage of a batch, once for all queries that have them in common.

Queries that come into a run together and read the same streams and timed relations are planned together:
they have one watermark (`plan_parts`). Others, and those that come later, have a plan of their own, with a
`number`, which is in the names of its scans and synopses; `united` is what a batch reads for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from sash.errors import NotYet, at_place
from sash.lang import algebra
from sash.lang.algebra import Node, OutputKind, WindowKind
from sash.lang.bind import Program
from sash.lang.bound import QueryDefinition, RelationDefinition, StreamDefinition
from sash.plan.canonical import canonical
from sash.plan.choices import check_options, choices_of
from sash.plan.cost import Statistics
from sash.plan.join_guests import NO_JOINS, JoinGuest, JoinHosts, plan_joins_beside
from sash.plan.join_synopses import SharedJoin, readers_in
from sash.plan.lifetimes import with_arrivals
from sash.plan.optimize import optimize
from sash.plan.periodic import NO_HOSTS, Hosts, PeriodicPlan, is_periodic, plan_periodic
from sash.plan.physical import Choices, Exec, to_physical
from sash.plan.scalars import passed_on


@dataclass(frozen=True, slots=True)
class Scan:
    """Rows of a stream as the first stage makes them: `node` is selections and projections over it."""

    name: str
    stream: str
    node: Node
    # The columns of the stream that it reads.
    columns: tuple[str, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        leaf = leaf_of(self.node)
        read: set[str] = set()
        narrowed = False
        for node in self.node.walk():
            match node:
                case algebra.Select():
                    read.update(node.predicate.inputs)
                case algebra.Project():
                    # What lies above a projection reads its outputs, which come from what it reads itself.
                    read.update(name for output in node.outputs for name in output.scalar.inputs)
                    narrowed = True
        wanted = [each.name for each in leaf.fields if each.name in read or not narrowed]
        columns = tuple(name[len(leaf.qualifier) + 1 :] for name in wanted)
        object.__setattr__(self, "columns", columns)


@dataclass(frozen=True, slots=True)
class ContinuousQuery:
    """A query with its physical plan.

    `unit` is the grain of its time, in microseconds: the unit of integer timestamps where all of its streams
    share one, else one microsecond.
    """

    definition: QueryDefinition
    physical: Exec
    choices: Choices
    streams: tuple[str, ...]
    relations: tuple[str, ...]
    unit: int
    has_integer_time: bool

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def plan(self) -> algebra.Output:
        """The plan that is run, which the optimizer made of the one that was written."""
        assert isinstance(self.physical.logical, algebra.Output)
        return self.physical.logical


@dataclass(frozen=True, slots=True)
class RunPlan(PeriodicPlan):
    """Everything that a run needs to know. `streams` has the feeds of relations, too.

    One-time queries are kept up like standing ones and read when the run ends. `guests` are continuous
    queries that read join synopses of other plans. `first_number` is the number of the first of the plans
    that were made together: they share the feeds of relations.
    """

    continuous: tuple[ContinuousQuery, ...] = ()
    scans: tuple[Scan, ...] = ()
    relations: tuple[RelationDefinition, ...] = ()
    one_time: tuple[ContinuousQuery, ...] = ()
    number: int = 0
    joins: tuple[SharedJoin, ...] = ()
    guests: tuple[JoinGuest, ...] = ()
    first_number: int = 0

    @property
    def readers(self) -> dict[str, JoinGuest]:
        """The guests, by query."""
        return {name: guest for guest in self.guests for name in guest.queries}

    def named(self, name: str) -> str:
        """A name of this plan's own."""
        return _numbered(self.number, name)

    def feed(self, relation: str) -> str:
        """The name of the stream of a relation's changes."""
        return _numbered(self.first_number, relation)

    def scans_of(self, stream: str) -> tuple[Scan, ...]:
        return tuple(scan for scan in self.scans if scan.stream == stream)

    @property
    def feeds(self) -> tuple[str, ...]:
        """The names of streams that are feeds of relations."""
        return tuple(self.feed(relation.name) for relation in self.relations if not relation.is_static)

    @property
    def definitions(self) -> tuple[QueryDefinition, ...]:
        return (*(q.definition for q in self.queries), *(q.definition for q in self.continuous))

    @property
    def sources(self) -> dict[str, tuple[str, ...]]:
        """The names of the streams and relations that each query reads, by query."""
        asked = (*self.continuous, *self.one_time)
        return {
            **{query.name: (query.select.stream,) for query in self.queries},
            **{query.name: (*query.streams, *query.relations) for query in asked},
        }


def _numbered(number: int, name: str) -> str:
    return f"{number}.{name}" if number else name


def standing_in(program: Program) -> tuple[QueryDefinition, ...]:
    """The standing queries of a program, and after them those of its archives."""
    return (*program.queries, *(archive.query for archive in program.archives))


def questions_in(program: Program) -> tuple[QueryDefinition, ...]:
    """The one-time queries of a program, which have numbers for names."""
    return tuple(
        QueryDefinition(f"answer {number}", "", query.plan, text=query.text, place=query.place)
        for number, query in enumerate(program.one_time, start=1)
    )


def asked_in(program: Program) -> tuple[QueryDefinition, ...]:
    """The one-time queries of a program that operators answer; those over archives read files."""
    return tuple(query for query in questions_in(program) if not reads_archives(query.plan))


def reads_archives(plan: Node) -> bool:
    return any(isinstance(leaf, algebra.Archive) for leaf in plan.walk())


def plan_run(
    program: Program,
    number: int = 0,
    asked: Sequence[QueryDefinition] | None = None,
    hosts: Hosts = NO_HOSTS,
    join_hosts: JoinHosts = NO_JOINS,
    first_number: int | None = None,
) -> RunPlan:
    """The plan of all standing queries of a program, those of its archives, and what is asked (None: all).

    Queries read the `hosts` and `join_hosts`, synopses of plans that came before, where those answer them.
    """
    first_number = number if first_number is None else first_number
    statistics = Statistics.from_definitions((*program.streams, *program.relations))
    standing = standing_in(program)
    for query in standing:
        check_options(query)
    periodic = [query for query in standing if is_periodic(query)]
    continuous = tuple(
        _continuous(query, program, statistics) for query in standing if not is_periodic(query)
    )
    asked = asked_in(program) if asked is None else asked
    one_time = tuple(_continuous(query, program, statistics) for query in asked)
    operators = (*continuous, *one_time)
    used = {name for query in operators for name in (*query.streams, *query.relations)}
    used.update(query.select.stream for query in periodic if query.select is not None)
    relations = tuple(relation for relation in program.relations if relation.name in used)
    streams = [stream for stream in program.streams if stream.name in used]
    bare = RunPlan((), (), (), continuous, (), relations, one_time, number, first_number=first_number)
    joined = [query.definition for query in continuous]
    joins, guests = plan_joins_beside(
        join_hosts, joined, program.streams, statistics, number, bare.named("j")
    )
    bare = replace(bare, joins=joins, guests=guests)
    for relation in relations:
        if not relation.is_static:
            # Whoever comes later needs the changes from the first on.
            streams.append(replace(feed_of(relation), name=bare.feed(relation.name)))
    base = plan_periodic(streams, periodic, synopsis_prefix(number), hosts)
    return replace(
        bare,
        streams=base.streams,
        synopses=base.synopses,
        queries=base.queries,
        scans=tuple(_scans(bare)),
    )


def sources_in(plan: Node) -> frozenset[str]:
    """The streams and timed relations that a query reads: its watermark is the least of theirs."""
    return frozenset(
        leaf.name
        for leaf in plan.walk()
        if isinstance(leaf, algebra.Stream) or (isinstance(leaf, algebra.Relation) and not leaf.is_static)
    )


def plan_parts(
    program: Program,
    number: int = 0,
    asked: Sequence[QueryDefinition] | None = None,
    hosts: Hosts = NO_HOSTS,
    join_hosts: Callable[[frozenset[str]], JoinHosts] = lambda sources: NO_JOINS,
) -> tuple[RunPlan, ...]:
    """A plan for each set of streams and timed relations that queries read, numbered from `number` on.

    `join_hosts` gives the join synopses of plans that came before, which read just these streams.
    """
    asked = asked_in(program) if asked is None else asked
    together: dict[frozenset[str], set[str]] = {}
    for query in (*standing_in(program), *asked):
        together.setdefault(sources_in(query.plan), set()).add(query.name)
    plans = []
    for place, (sources, names) in enumerate(together.items()):
        own = replace(
            program,
            queries=tuple(query for query in program.queries if query.name in names),
            archives=tuple(archive for archive in program.archives if archive.name in names),
        )
        questions = tuple(query for query in asked if query.name in names)
        plans.append(plan_run(own, number + place, questions, hosts, join_hosts(sources), number))
    return tuple(plans)


def whole_of(plans: Sequence[RunPlan]) -> RunPlan:
    """Several plans as one, to look at: streams, synopses and queries of all of them."""
    if len(plans) == 1:
        return plans[0]
    streams = {stream.name: stream for plan in plans for stream in plan.streams}
    return replace(united(plans)[0], streams=tuple(streams.values()))


def synopsis_prefix(number: int, letter: str = "s") -> str:
    """What the names of the synopses of a plan begin with; those of joins have a `j`."""
    return RunPlan((), (), (), number=number).named(letter)


def united(plans: Sequence[RunPlan]) -> tuple[RunPlan, dict[str, str]]:
    """What a batch computes for several plans, and under which name it does each scan.

    A scan that several plans have is done once.
    """
    scans: dict[object, Scan] = {}
    done: dict[str, str] = {}
    for plan in plans:
        for scan in plan.scans:
            known = scans.setdefault((scan.stream, canonical(scan.node)), scan)
            done[scan.name] = known.name
    return (
        RunPlan(
            (),
            tuple(synopsis for plan in plans for synopsis in plan.synopses),
            tuple(query for plan in plans for query in plan.queries),
            tuple(query for plan in plans for query in plan.continuous),
            tuple(scans.values()),
            tuple(relation for plan in plans for relation in plan.relations),
            tuple(query for plan in plans for query in plan.one_time),
            joins=tuple(join for plan in plans for join in plan.joins),
            guests=tuple(guest for plan in plans for guest in plan.guests),
        ),
        done,
    )


def _continuous(query: QueryDefinition, program: Program, statistics: Statistics) -> ContinuousQuery:
    choices = choices_of(dict(query.options), query.plan)
    plan = with_watched(query.plan)
    assert isinstance(plan, algebra.Output)
    if query.archive is not None:
        plan = with_arrivals(plan, {stream.name: stream for stream in program.streams})
    with at_place(query.place):
        physical = to_physical(optimize(plan, statistics, choices.strategy).estimate, choices)
    leaves = list(physical.logical.walk())
    for leaf in leaves:
        if isinstance(leaf, algebra.Archive):
            raise NotYet(f"a query over the archive '{leaf.name}' cannot be run yet", place=query.place)
    names = tuple(dict.fromkeys(leaf.name for leaf in leaves if isinstance(leaf, algebra.Stream)))
    relations = tuple(dict.fromkeys(leaf.name for leaf in leaves if isinstance(leaf, algebra.Relation)))
    streams = [stream for stream in program.streams if stream.name in names]
    units = {stream.unit for stream in streams}
    is_integer = all(stream.has_integer_time for stream in streams) and len(units) == 1
    unit = min(units) if is_integer else 1
    return ContinuousQuery(query, physical, choices, names, relations, unit, is_integer)


def feed_of(relation: RelationDefinition) -> StreamDefinition:
    """The changes of a relation, or the rows of a static one, as a stream."""
    return StreamDefinition(
        relation.name,
        relation.schema,
        relation.timestamp or "",
        relation.unit,
        0,
        relation.source,
        relation.options,
    )


def _scans(plan: RunPlan) -> Iterator[Scan]:
    found: dict[Node, Node] = {}
    joined = {**readers_in(plan.joins), **plan.readers}
    operators = [query.plan for query in (*plan.continuous, *plan.one_time) if query.name not in joined]
    joins = [shared.join.physical.logical for shared in plan.joins]
    watched = (
        window
        for plan in operators
        for output in plan.walk()
        if isinstance(output, algebra.Output)
        for window in watched_apart(output)
    )
    for node in (scan for part in (*operators, *joins, *watched) for scan in scan_nodes(part)):
        found.setdefault(canonical(node), node)
    for number, node in enumerate(found.values()):
        yield Scan(plan.named(f"scan{number}"), leaf_of(node).name, node)
    for relation in plan.relations:
        if not relation.is_static:
            name = plan.feed(relation.name)
            columns = tuple(algebra.Field(f"{name}.{c.name}", c.type) for c in relation.schema)
            yield Scan(name, name, algebra.Stream(name, name, columns))


def scan_nodes(plan: Node) -> Iterator[Node]:
    """The largest parts of a plan that are scans."""
    if is_scan(plan):
        yield plan
        return
    for child in plan.children:
        yield from scan_nodes(child)


def is_scan(node: Node) -> bool:
    """Whether a part of a plan only reads, filters and projects a stream."""
    while isinstance(node, algebra.Select | algebra.Project):
        node = node.input
    return isinstance(node, algebra.Stream)


def leaf_of(node: Node) -> algebra.Stream:
    while isinstance(node, algebra.Select | algebra.Project):
        node = node.input
    assert isinstance(node, algebra.Stream)
    return node


def whole_stream(node: Node) -> algebra.Stream | None:
    """The stream all of whose rows a window is over, if there is one."""
    while isinstance(node, algebra.Project):
        node = node.input
    return node if isinstance(node, algebra.Stream) else None


def windows_of(node: Node) -> Iterator[algebra.Window]:
    """The windows of a query, not those of the sub-queries whose results they are over."""
    if isinstance(node, algebra.Window):
        yield node
        return
    for child in node.children:
        yield from windows_of(child)


def with_watched(plan: Node) -> Node:
    """The plan in which each Rstream without a SLIDE in time says which windows it is evaluated by.

    Of their rows it matters when they come and go, and in which partition.
    """
    children = tuple(with_watched(child) for child in plan.children)
    plan = plan.with_children(children)
    if not isinstance(plan, algebra.Output) or plan.kind is not OutputKind.RSTREAM or slide_of(plan):
        return plan
    windows = [window for window in windows_of(plan) if is_scan(window.input) and _can_be_narrowed(window)]
    bare = (
        algebra.Project(
            window.input, passed_on(f for f in window.input.fields if f.name in window.spec.partition)
        )
        for window in windows
    )
    watched = (algebra.Window(below, window.spec) for below, window in zip(bare, windows, strict=True))
    return replace(plan, watched=tuple(watched))


def _can_be_narrowed(window: algebra.Window) -> bool:
    """Whether a condition above it may come to stand below it."""
    return window.spec.kind is not WindowKind.ROWS or bool(window.spec.partition)


def watched_apart(output: algebra.Output) -> tuple[algebra.Window, ...]:
    """The watched windows of which the plan has only the rows that a condition leaves."""
    narrowed = {
        leaf_of(window.input).qualifier
        for window in windows_of(output)
        if is_scan(window.input) and any(isinstance(node, algebra.Select) for node in window.input.walk())
    }
    return tuple(window for window in output.watched if leaf_of(window.input).qualifier in narrowed)


def moves_by_rows(node: Node) -> bool:
    """Whether the windows of a query move after so many rows: before that there is no answer."""
    return any(w.spec.kind is WindowKind.ROWS and (w.spec.slide or 1) > 1 for w in windows_of(node))


def slide_of(node: Node) -> int | None:
    """The time between two looks at the windows of a query; None if they are looked at all the time."""
    slides = {w.spec.slide for w in windows_of(node) if w.spec.kind is not WindowKind.ROWS}
    return max((slide for slide in slides if slide is not None), default=None)


def is_internal(node: Node) -> bool:
    """Whether all windows of a query are INTERNAL, and there is one."""
    windows = list(windows_of(node))
    return bool(windows) and all(window.spec.is_internal for window in windows)
