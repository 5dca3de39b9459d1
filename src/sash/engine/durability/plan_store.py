"""Which queries make up a part of a run, as CQL: written down so that a later run can plan it just so.

A query that has been dropped meanwhile may share state with others of its part, so it must be known for as
long as the part is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from sash.errors import CheckpointError, SashError
from sash.lang import Program, bind_program
from sash.lang.bound import QueryDefinition, RelationDefinition, StreamDefinition
from sash.plan.cost import Statistics
from sash.plan.covers import Cover
from sash.plan.digests import digest
from sash.plan.join_guests import JoinGuest, JoinHosts, plan_joins_beside
from sash.plan.join_synopses import SharedJoin
from sash.plan.periodic import Hosts, PeriodicPlan, SynopsisSpec, is_periodic, plan_periodic
from sash.plan.run_plan import RunPlan, asked_in, plan_run, standing_in, synopsis_prefix


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """`statements` define the sources, then the queries, then ask those that are answered once.

    `sinks` are the outputs of queries, which a session may have chosen, `asked` the names of one-time
    queries, `hosts` the synopses of earlier parts that queries read, `covers` how queries are put together
    from several of those: what is added, what is taken away, whether they are beside each other; `read` which
    one of them a query reads alone; `guests` how they read join synopses of earlier parts
    (`JoinHosts.decided`). `digest` is that of the plan, `operators` that of the operators which it became
    (`ContinuousPlane.outline`); `first_number` is the number of the first part that came with it.
    """

    number: int
    statements: tuple[str, ...]
    sinks: Mapping[str, str]
    asked: tuple[str, ...]
    hosts: tuple[str, ...]
    digest: str
    covers: Mapping[str, tuple[tuple[str, ...], tuple[str, ...], bool]]
    guests: Mapping[str, tuple[str, int | None, int | None]] = field(default_factory=dict)
    operators: str = ""
    first_number: int = 0
    read: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(plan: RunPlan, program: Program, hosts: Iterable[str], operators: str) -> StoredPlan:
        """What is stored of a plan, with definitions from the program that it was made of."""
        own = {spec.name: spec for spec in plan.synopses}
        covers = {
            query.name: (cover.plus, cover.minus, cover.beside)
            for query in plan.queries
            if query.synopsis in own
            and (cover := own[query.synopsis].cover) is not None
            and not own.keys() >= {*cover.plus}
        }
        read = {query.synopsis for query in plan.queries}
        read.update(name for plus, minus, _ in covers.values() for name in (*plus, *minus))
        # All of them: who asks about the run later may want others, too.
        sources: tuple[StreamDefinition | RelationDefinition, ...] = (*program.streams, *program.relations)
        asked = [query.definition for query in plan.one_time]
        texts = [definition.text for definition in (*sources, *_in_order(plan, program), *asked)]
        return StoredPlan(
            plan.number,
            tuple(texts),
            {query.name: query.sink for query in plan.definitions},
            tuple(query.name for query in asked),
            tuple(name for name in hosts if name in read),
            fingerprint(plan),
            covers,
            {name: (g.spec.name, g.reader.since, g.reader.after) for name, g in plan.readers.items()},
            operators,
            plan.first_number,
            {q.name: q.synopsis for q in plan.queries if q.synopsis not in own},
        )

    def _hosts(self, known: Mapping[str, SynopsisSpec]) -> Hosts:
        covers = {
            name: Cover(tuple(plus), tuple(minus), beside)
            for name, (plus, minus, beside) in self.covers.items()
        }
        return Hosts(tuple(known[name] for name in self.hosts), covers=covers, read=self.read)

    def program(self) -> Program:
        """The sources and queries."""
        program = bind_program("".join(f"{text.rstrip().removesuffix(';')}\n;\n" for text in self.statements))
        queries = tuple(replace(query, sink=self.sinks[query.name]) for query in program.queries)
        return replace(program, queries=queries)

    def plan(self, hosts: Mapping[str, SynopsisSpec], joins: Iterable[SharedJoin]) -> RunPlan:
        """The plan, just as it was; CheckpointError if this version of Sash would plan it otherwise."""
        try:
            program = self.program()
            named = zip(asked_in(program), self.asked, strict=True)
            asked = [replace(query, name=name) for query, name in named]
            join_hosts = JoinHosts(tuple(joins), decided=self.guests)
            plan = plan_run(program, self.number, asked, self._hosts(hosts), join_hosts, self.first_number)
        except (SashError, KeyError, ValueError) as failure:
            raise another_plan(str(failure)) from failure
        if fingerprint(plan) != self.digest:
            raise another_plan("the plan of its queries is another one")
        return plan

    def check(self, operators: str) -> None:
        """Raise CheckpointError if the state is of other operators than the plan has become."""
        if operators != self.operators:
            raise another_plan("the operators of its queries are others")

    def periodic(self, hosts: Mapping[str, SynopsisSpec]) -> PeriodicPlan:
        """The part of the plan that synopses answer."""
        program = self.program()
        queries = [query for query in program.queries if is_periodic(query)]
        return plan_periodic(program.streams, queries, synopsis_prefix(self.number), self._hosts(hosts))

    def joined(self, joins: Iterable[SharedJoin]) -> tuple[tuple[SharedJoin, ...], tuple[JoinGuest, ...]]:
        """Its join synopses, and how queries read those that were there."""
        program = self.program()
        queries = [query for query in program.queries if not is_periodic(query)]
        statistics = Statistics.from_definitions((*program.streams, *program.relations))
        hosts = JoinHosts(tuple(joins), decided=self.guests)
        prefix = synopsis_prefix(self.number, "j")
        return plan_joins_beside(hosts, queries, program.streams, statistics, self.number, prefix)


def another_plan(reason: str) -> CheckpointError:
    return CheckpointError(
        "the checkpoint has the state of another plan than this version of Sash makes of its queries",
        got=reason,
        hint="go on with the version that made it, or name another checkpoint directory to start anew",
        id="checkpoint-plan",
    )


def _in_order(plan: RunPlan, program: Program) -> Iterable[QueryDefinition]:
    """The queries of a plan in the order of the program, which decides what plans share."""
    names = {query.name for query in plan.definitions}
    return (query for query in standing_in(program) if query.name in names)


def without(program: Program, queries: Collection[str]) -> Program:
    """The program with some of its queries only; what is asked once is asked by whoever plans it."""
    return replace(program, queries=tuple(query for query in program.queries if query.name in queries))


def fingerprint(plan: RunPlan) -> str:
    """A digest of what the streams, synopses and queries are; spelling and comments do not matter."""
    streams = [(s.name, s.schema, s.timestamp, s.unit, s.slack, s.source, s.options) for s in plan.streams]
    queries = [(q.name, q.definition.sink, q.select, q.synopsis) for q in plan.queries]
    continuous = [(q.name, q.definition.sink, q.plan, q.choices) for q in (*plan.continuous, *plan.one_time)]
    archives = [(q.name, q.definition.archive) for q in plan.continuous if q.definition.archive is not None]
    relations = [(r.name, r.schema, r.key, r.source, r.options) for r in plan.relations]
    joins, guests = (
        [join.spec for join in plan.joins],
        [(guest.spec.name, guest.reader) for guest in plan.guests],
    )
    # The technique may change between two runs.
    archived = [(name, archive.key, archive.every) for name, archive in archives]
    whole = (plan.number, streams, queries, plan.synopses, continuous, relations, joins, guests, archived)
    return digest(whole)
