"""The plan of a set of periodic queries: which synopses exist and which query reads which.

Queries over the same stream with the same WHERE and the same grouping read one synopsis, whatever
their windows, aggregates and HAVING: its panes are fine enough for all of their windows and it keeps
the union of their measures. The values of an argument, for aggregates that need them, are counted beside it,
once for all of its queries: they are a synopsis by one more key.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from sash.lang.bound import AggregateCall, BoundSelect, QueryDefinition, Scalar, StreamDefinition, Window
from sash.lang.periodic import not_yet
from sash.plan.measures import ROWS, Measure, frequent_of, measures_of, values_of
from sash.plan.panes import Panes


@dataclass(frozen=True, slots=True)
class SynopsisSpec:
    """What one synopsis pre-aggregates: rows of `stream` that pass `where`, per pane and group.

    `values` are arguments whose values are counted beside it, each by a synopsis that is `of` this one; for
    calls of FREQUENT they are counted, too, and lists are kept of them.
    """

    name: str
    stream: str
    where: Scalar | None
    keys: tuple[Scalar, ...]
    panes: Panes
    measures: tuple[Measure, ...]
    longest: int
    values: tuple[Scalar, ...] = ()
    of: str | None = None
    frequent: tuple[AggregateCall, ...] = ()

    def counting(self) -> Iterator[SynopsisSpec]:
        """The synopses that count its values: the last key is the argument."""
        listed = (call.argument for call in self.frequent if call.argument is not None)
        for number, argument in enumerate(dict.fromkeys((*self.values, *listed))):
            name, keys = f"{self.name}v{number}", (*self.keys, argument)
            yield replace(self, name=name, keys=keys, measures=(ROWS,), values=(), frequent=(), of=self.name)

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        """Every expression that the first stage computes for it, besides `where`."""
        arguments = (measure.argument for measure in self.measures if measure.argument is not None)
        return tuple(dict.fromkeys((*self.keys, *arguments)))

    def covers(self, select: BoundSelect) -> bool:
        """Whether it answers a query, windows of which it may not have in full yet."""
        return self.covers_groups(select) and self.panes.have(select.window)

    def covers_groups(self, select: BoundSelect) -> bool:
        """Whether it has the groups and measures of a query."""
        if (self.stream, self.where, self.keys) != (select.stream, select.where, select.keys):
            return False
        if self.of is not None or not set(values_of(select.aggregates)) <= set(self.values):
            return False
        frequent = set(frequent_of(select.aggregates))
        is_own = self.longest == select.window.range and self.panes == Panes.covering((select.window,))
        if frequent and not (is_own and frequent <= set(self.frequent)):
            return False
        measures = {measure for call in select.aggregates for measure in measures_of(call)}
        return measures <= {*self.measures, ROWS}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the stream that it reads."""
        scalars = self.scalars if self.where is None else (self.where, *self.scalars)
        return tuple(dict.fromkeys(name for scalar in scalars for name in scalar.inputs))


@dataclass(frozen=True, slots=True)
class PeriodicQuery:
    """A query and the synopsis that answers it."""

    definition: QueryDefinition
    synopsis: str

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def select(self) -> BoundSelect:
        return select_of(self.definition)

    @property
    def window(self) -> Window:
        return self.select.window


@dataclass(frozen=True, slots=True)
class PeriodicPlan:
    """Everything that a run needs to know of its streams, synopses and queries."""

    streams: tuple[StreamDefinition, ...]
    synopses: tuple[SynopsisSpec, ...]
    queries: tuple[PeriodicQuery, ...]

    def stream(self, name: str) -> StreamDefinition:
        return next(stream for stream in self.streams if stream.name == name)

    def synopses_of(self, stream: str) -> tuple[SynopsisSpec, ...]:
        return tuple(synopsis for synopsis in self.synopses if synopsis.stream == stream)

    def queries_of(self, synopsis: str) -> tuple[PeriodicQuery, ...]:
        return tuple(query for query in self.queries if query.synopsis == synopsis)


def select_of(query: QueryDefinition) -> BoundSelect:
    """The query as the periodic runtime takes it; NotYet, with the construct, if that does not execute it."""
    if query.select is None:
        raise not_yet(query.plan, query.place)
    return query.select


def is_periodic(query: QueryDefinition) -> bool:
    """Whether a synopsis answers the query. A forced strategy asks for the operators that have it."""
    forced = {name for name, _ in query.options} & {"strategy", "join"}
    return query.select is not None and not forced and query.archive is None


def plan_periodic(
    streams: Iterable[StreamDefinition],
    queries: Iterable[QueryDefinition],
    name: str = "s",
    hosts: Sequence[SynopsisSpec] = (),
) -> PeriodicPlan:
    """`name`: what the names of synopses begin with; `hosts`: synopses that are there already."""
    definitions = tuple(queries)
    groupings: dict[object, list[QueryDefinition]] = {}
    planned: dict[str, PeriodicQuery] = {}
    for query in definitions:
        select = select_of(query)
        host = next((spec for spec in hosts if spec.covers(select)), None)
        if host is not None:
            planned[query.name] = PeriodicQuery(query, host.name)
            continue
        # Lists depend on the sub-windows, so they are the window's own, whatever panes other queries have.
        window = select.window if frequent_of(select.aggregates) else None
        groupings.setdefault((select.stream, select.where, select.keys, window), []).append(query)
    synopses: list[SynopsisSpec] = []
    made = itertools.count()
    for members in groupings.values():
        for panes, sharers in _share_panes(members):
            spec = _synopsis(f"{name}{next(made)}", panes, sharers)
            synopses += [spec, *spec.counting()]
            planned.update({query.name: PeriodicQuery(query, spec.name) for query in sharers})
    return PeriodicPlan(tuple(streams), tuple(synopses), tuple(planned[query.name] for query in definitions))


def _share_panes(queries: list[QueryDefinition]) -> list[tuple[Panes, list[QueryDefinition]]]:
    """Queries gathered greedily, coarse slides first, as long as their common panes are few enough."""
    ordered = sorted(queries, key=lambda query: -select_of(query).window.slide)
    shares: list[tuple[Panes, list[Window]]] = []
    for window in dict.fromkeys(select_of(query).window for query in ordered):
        for position, (_, windows) in enumerate(shares):
            common = Panes.covering((*windows, window))
            if common is not None:
                shares[position] = (common, [*windows, window])
                break
        else:
            own = Panes.covering((window,))
            assert own is not None, "one window has at most two edges a slide"
            shares.append((own, [window]))
    members: dict[Window, list[QueryDefinition]] = {}
    found = []
    for panes, windows in shares:
        sharers: list[QueryDefinition] = []
        members.update(dict.fromkeys(windows, sharers))
        found.append((panes, sharers))
    for query in ordered:
        members[select_of(query).window].append(query)
    return found


def _synopsis(name: str, panes: Panes, queries: list[QueryDefinition]) -> SynopsisSpec:
    first = select_of(queries[0])
    measures = dict.fromkeys(
        measure for query in queries for call in select_of(query).aggregates for measure in measures_of(call)
    )
    measures.pop(ROWS, None)
    return SynopsisSpec(
        name,
        first.stream,
        first.where,
        first.keys,
        panes,
        (ROWS, *measures),
        max(select_of(query).window.range for query in queries),
        values_of(call for query in queries for call in select_of(query).aggregates),
        frequent=frequent_of(call for query in queries for call in select_of(query).aggregates),
    )
