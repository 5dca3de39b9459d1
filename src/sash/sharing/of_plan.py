"""What the queries of a plan share: the plan's synopses and readings, in the form that rules look at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sash.errors import InternalError
from sash.lang.bound import QueryDefinition, StreamDefinition
from sash.plan.cost import Statistics
from sash.plan.duplicates import algebra_of
from sash.plan.join_synopses import SharedJoin, measures_in, plan_joins
from sash.plan.kinds import Kind
from sash.plan.periodic import PeriodicPlan, PeriodicQuery, SynopsisSpec, is_periodic, plan_periodic
from sash.sharing.request import Request, request_of
from sash.sharing.rules import SS1, SS2, SS3, SS4
from sash.sharing.sharing import OWN, Sharing
from sash.sharing.synopsis import SharedSynopsis
from sash.sharing.workload import Part, Reading


@dataclass(frozen=True, slots=True)
class Shared:
    """How a query is answered: by which rule, from which synopses, who else reads those, and its group."""

    rule: str
    synopses: str
    shared_with: tuple[str, ...]
    group: str
    group_rules: tuple[str, ...]


def sharing_of(plan: PeriodicPlan, joins: Iterable[SharedJoin] = ()) -> Sharing:
    """The workload of a plan and of join synopses; kinds of synopses are those that suit their readers."""
    sharing = Sharing()
    specs = {spec.name: spec for spec in plan.synopses}
    for spec in plan.synopses:
        if spec.of is None and spec.cover is None:
            sharing.workload.put(_synopsis(spec))
    read: set[str] = set()
    for query in plan.queries:
        request = request_of(query.definition)
        if request is None:
            raise InternalError(f"{query.name} is not a request of synopses")
        sharing.workload.read(request, _reading(query, request, specs[query.synopsis], read))
        read.add(query.synopsis)
    for join in joins:
        _read_join(join, sharing)
    sharing.settle()
    return sharing


def shared_of(plan: PeriodicPlan, joins: Iterable[SharedJoin] = ()) -> dict[str, Shared]:
    """What there is to say of each query of a plan that synopses answer."""
    sharing = sharing_of(plan, joins)
    found = {}
    specs = {spec.name: spec for spec in plan.synopses}
    names = {query.name: query.synopsis for query in plan.queries}
    readers = {name: sharing.workload.readers(name) for name in sharing.workload.synopses}
    for group in sharing.groups():
        for name in group.queries:
            reading = sharing.workload.readings[name]
            others = _others(name, (readers[each] for each in reading.synopses))
            cover = specs[names[name]].cover if name in names else None
            synopses = reading.synopses[0] if cover is None else str(cover)
            found[name] = Shared(reading.rule, synopses, others, group.name, group.rules)
    return found


def shared_in(streams: Iterable[StreamDefinition], queries: Iterable[QueryDefinition]) -> dict[str, Shared]:
    """The same of queries as they would be planned together; only those that synopses answer are told of."""
    streams, queries = tuple(streams), tuple(queries)
    operators = [query for query in queries if not is_periodic(query)]
    joins = plan_joins(operators, streams, Statistics.from_definitions(streams))
    return shared_of(plan_periodic(streams, [query for query in queries if is_periodic(query)]), joins)


def _others(name: str, readers: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(other for each in readers for other in each if other != name))


def _synopsis(spec: SynopsisSpec) -> SharedSynopsis:
    return SharedSynopsis(
        spec.name,
        spec.stream,
        spec.where,
        spec.keys,
        spec.measures,
        spec.panes,
        spec.longest,
        Kind.BASIC_INTERVAL,
    )


def _read_join(join: SharedJoin, sharing: Sharing) -> None:
    """Put a join synopsis and its readers into a workload."""
    spec = join.spec
    width = spec.panes.period
    synopsis = SharedSynopsis(
        spec.name,
        join.join.source,
        None,
        spec.keys,
        spec.measures,
        spec.panes,
        spec.b * width,
        spec.kind,
        spec.g * width,
    )
    sharing.workload.put(synopsis)
    rule = OWN
    for reader in spec.readers:
        measures = measures_in(reader.calls)
        kind = algebra_of(measures, counts_matter=True)
        for name in reader.queries:
            request = Request(
                name,
                join.join.source,
                None,
                spec.keys,
                measures,
                reader.windows,
                reader.slide,
                kind,
                (reader.calls, reader.slide),
                reader.calls,
            )
            reading = Reading(name, rule, (Part(spec.name, measures),), f"reads {spec.name}")
            sharing.workload.read(request, reading)
            rule = SS3.name


def _reading(query: PeriodicQuery, request: Request, spec: SynopsisSpec, read: set[str]) -> Reading:
    if spec.cover is not None:
        parts = tuple(Part(name, request.measures, sign) for name, sign in spec.cover.signed)
        rule = SS2.name if spec.cover.beside else SS4.name
        return Reading(query.name, rule, parts, f"reads {spec.cover}", spec.cover.beside)
    rule = SS1.name if spec.name in read else OWN
    return Reading(query.name, rule, (Part(spec.name, request.measures),), f"reads {spec.name}")
