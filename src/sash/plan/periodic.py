"""The plan of a set of periodic queries: which synopses exist and which query reads which.

Queries over the same stream with the same WHERE and the same grouping read one synopsis, whatever
their windows, aggregates and HAVING: its panes are fine enough for all of their windows and it keeps
the union of their measures. The values of an argument, for aggregates that need them, are counted beside it,
once for all of its queries: they are a synopsis by one more key.

A synopsis whose rows others have, together or with something to be taken away, is not kept: it is read from
those (002, section 8.3.3; `covers.py`). That is done where it costs the others at most measures of rows that
they have, never finer panes; and for queries that come into a run, where what is there reaches far enough
back.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from sash.lang.bound import AggregateCall, BoundSelect, QueryDefinition, Scalar, StreamDefinition, Window
from sash.lang.periodic import not_yet
from sash.plan.covers import Cover, find_cover
from sash.plan.duplicates import Algebra, algebra_of, counts_matter, is_coded
from sash.plan.measures import ROWS, Measure, frequent_of, measures_of, values_of
from sash.plan.panes import Panes
from sash.plan.predicates import predicate_of
from sash.plan.sketches import Sketched, SketchKind, sketches_of


@dataclass(frozen=True, slots=True)
class SynopsisSpec:
    """What one synopsis pre-aggregates: rows of `stream` that pass `where`, per pane and group.

    `values` are arguments whose values are counted beside it, each by a synopsis that is `of` this one; for
    calls of FREQUENT they are counted, too, and lists are kept of them; and for approximate aggregates, which
    keep some of them. Where only different values matter, hashes stand for them (`is_hashed`). One with a
    `cover` keeps nothing: it is what the synopses of the cover have, and if those overlap it does not count
    rows, but has all groups.
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
    sketches: tuple[Sketched, ...] = ()
    is_hashed: bool = False
    cover: Cover | None = None
    counts_rows: bool = True

    def counting(self) -> Iterator[SynopsisSpec]:
        """The synopses that count its values: the last key is the argument."""
        listed = (call.argument for call in self.frequent if call.argument is not None)
        hashed = [each.argument for each in self.sketches if each.kind is SketchKind.DISTINCT]
        thinned = (each.argument for each in self.sketches if each.kind is not SketchKind.DISTINCT)
        counted = dict.fromkeys((*self.values, *listed, *thinned))
        plain = replace(self, measures=(ROWS,), values=(), frequent=(), sketches=(), of=self.name)
        for number, argument in enumerate(counted):
            yield replace(plain, name=f"{self.name}v{number}", keys=(*self.keys, argument))
        for number, argument in enumerate(hashed):
            yield replace(plain, name=f"{self.name}d{number}", keys=(*self.keys, argument), is_hashed=True)

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
        frequent, sketches = set(frequent_of(select.aggregates)), set(sketches_of(select.aggregates))
        if not (frequent <= set(self.frequent) and sketches <= set(self.sketches)):
            return False
        is_own = self.longest == select.window.range and self.panes == Panes.covering((select.window,))
        if depends_on_panes(select) and not is_own:
            return False
        if not self.counts_rows and counts_matter(select):
            return False
        return set(_measures((select,))) <= set(self.measures)

    @property
    def bases(self) -> tuple[str, ...]:
        """The names of the synopses in which its rows are kept."""
        return (self.name,) if self.cover is None else (*self.cover.plus, *self.cover.minus)

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
        """The synopses that are kept of a stream."""
        return tuple(spec for spec in self.synopses if spec.stream == stream and spec.cover is None)

    def synopsis(self, name: str) -> SynopsisSpec:
        return next(spec for spec in self.synopses if spec.name == name)

    def readers_of(self, synopsis: str) -> tuple[PeriodicQuery, ...]:
        """The queries that are answered from what a synopsis keeps, alone or with others."""
        reading = {synopsis, *(spec.name for spec in self.synopses if synopsis in spec.bases)}
        return tuple(query for query in self.queries if query.synopsis in reading)

    def queries_of(self, synopsis: str) -> tuple[PeriodicQuery, ...]:
        return tuple(query for query in self.queries if query.synopsis == synopsis)


def select_of(query: QueryDefinition) -> BoundSelect:
    """The query as the periodic runtime takes it; NotYet, with the construct, if that does not execute it."""
    if query.select is None:
        raise not_yet(query.plan, query.place)
    return query.select


def depends_on_panes(select: BoundSelect) -> bool:
    """Whether what a pane keeps for the query shows in its answers."""
    sketches = sketches_of(select.aggregates)
    return bool(frequent_of(select.aggregates)) or any(each.depends_on_panes for each in sketches)


def is_periodic(query: QueryDefinition) -> bool:
    """Whether a synopsis answers the query. A forced strategy asks for the operators that have it."""
    forced = {name for name, _ in query.options} & {"strategy", "join"}
    return query.select is not None and not forced and query.archive is None


@dataclass(frozen=True, slots=True)
class Hosts:
    """Synopses that are there already when queries come.

    `reach`: so long are the windows that each has in full; one without cannot be put together with others.
    `covers`: what has been decided so, by query; None: it is to be decided. `read` is what else has been
    decided: which host a query reads alone. `kept` is how far back rows go that streams keep: a synopsis made
    of them may have more than one that is there.
    """

    specs: tuple[SynopsisSpec, ...] = ()
    reach: Mapping[str, int] = field(default_factory=dict)
    covers: Mapping[str, Cover] | None = None
    read: Mapping[str, str] = field(default_factory=dict)
    kept: Mapping[str, int] = field(default_factory=dict)

    def host_of(self, query: QueryDefinition) -> SynopsisSpec | None:
        """The synopsis that a query reads: one that has its windows in full, or most of them."""
        select = select_of(query)
        if self.covers is not None:
            name = self.read.get(query.name)
            return next((spec for spec in self.specs if spec.name == name), None)
        answering = [spec for spec in self.specs if spec.covers(select)]
        if not answering or not self.reach:
            # Nothing has come yet: all have everything.
            return next(iter(answering), None)
        reaches = [min(self.reach.get(base, -1) for base in spec.bases) for spec in answering]
        longest = max(reaches)
        if longest < min(select.window.range, self.kept.get(select.stream, -1)):
            return None
        wanted = min(longest, select.window.range)
        return next(spec for spec, reach in zip(answering, reaches, strict=True) if reach >= wanted)


NO_HOSTS = Hosts()


def plan_periodic(
    streams: Iterable[StreamDefinition],
    queries: Iterable[QueryDefinition],
    name: str = "s",
    hosts: Hosts = NO_HOSTS,
) -> PeriodicPlan:
    """`name`: what the names of synopses begin with."""
    definitions = tuple(queries)
    groupings: dict[object, list[QueryDefinition]] = {}
    planned: dict[str, str] = {}
    for query in definitions:
        select = select_of(query)
        host = hosts.host_of(query)
        if host is not None:
            planned[query.name] = host.name
            continue
        # Lists depend on the sub-windows, so they are the window's own, whatever panes other queries have.
        window = select.window if depends_on_panes(select) else None
        cover = _cover_of_hosts(query, hosts)
        groupings.setdefault((select.stream, select.where, select.keys, window, cover), []).append(query)
    synopses: list[SynopsisSpec] = []
    members: dict[str, list[QueryDefinition]] = {}
    made = itertools.count()
    for (*_, cover), gathered in groupings.items():  # type: ignore[misc]
        for panes, sharers in _share_panes(gathered):
            spec = _synopsis(f"{name}{next(made)}", panes, sharers)
            synopses.append(spec if cover is None else _covered(spec, cover, sharers))
            members[spec.name] = sharers
    for spec in (shared := _Rows(synopses, members)).synopses:
        planned.update(dict.fromkeys((query.name for query in members[spec.name]), shared.host(spec.name)))
    kept = [each for spec in shared.kept() for each in (spec, *spec.counting())]
    return PeriodicPlan(
        tuple(streams),
        tuple(kept),
        tuple(PeriodicQuery(query, planned[query.name]) for query in definitions),
    )


class _Rows:
    """Which of the synopses that queries come with are kept, and which are read from others."""

    def __init__(
        self, synopses: Sequence[SynopsisSpec], members: Mapping[str, Sequence[QueryDefinition]]
    ) -> None:
        self.synopses = synopses
        self._made = {spec.name: spec for spec in synopses}
        self._hosts: dict[str, str] = {}
        families: dict[object, list[SynopsisSpec]] = defaultdict(list)
        for spec in synopses:
            if spec.cover is None:
                families[spec.stream, spec.keys].append(spec)
        for family in families.values():
            if len(family) > 1:
                self._share(family, members)

    def _share(
        self, family: Sequence[SynopsisSpec], members: Mapping[str, Sequence[QueryDefinition]]
    ) -> None:
        """Find unions of others, then what others have less the rest."""
        contained = _contained(family)
        kept: dict[str, None] = {}
        read: set[str] = set()
        for is_second in (False, True):
            for spec in sorted(family, key=lambda each: contained[each.name]):
                if is_second and (spec.name in read or spec.name not in kept):
                    continue
                selects = [select_of(query) for query in members[spec.name]]
                there = [self._made[name] for name in kept if name != spec.name]
                cover = _find_cover(selects, there, may_add=True)
                if cover is None:
                    kept[spec.name] = None
                    continue
                kept.pop(spec.name, None)
                read.update((*cover.plus, *cover.minus))
                self._cover(self._made[spec.name], cover, members[spec.name])

    def _cover(self, spec: SynopsisSpec, cover: Cover, queries: Iterable[QueryDefinition]) -> None:
        for name in (*cover.plus, *cover.minus):
            part = self._made[name]
            lacking = tuple(measure for measure in spec.measures if measure not in part.measures)
            self._made[name] = replace(
                part, measures=(*part.measures, *lacking), longest=max(part.longest, spec.longest)
            )
        if len(cover) == 1:
            self._hosts[spec.name] = cover.plus[0]
        else:
            self._made[spec.name] = _covered(spec, cover, queries)

    def host(self, name: str) -> str:
        """The synopsis that queries of another one read: it may have the same rows by another condition."""
        return self._hosts.get(name, name)

    def kept(self) -> Iterator[SynopsisSpec]:
        return (spec for name, spec in self._made.items() if name not in self._hosts)


def _contained(family: Sequence[SynopsisSpec]) -> dict[str, int]:
    """How many others of a family have only rows that it has: those are what it may be put together from."""
    predicates = {spec.name: predicate_of(spec.where) for spec in family}
    return {
        name: sum(part.implies(whole) for part in predicates.values() if part is not whole)
        for name, whole in predicates.items()
    }


def _covered(spec: SynopsisSpec, cover: Cover, queries: Iterable[QueryDefinition]) -> SynopsisSpec:
    """A synopsis that is read from others."""
    return replace(spec, cover=cover, counts_rows=any(counts_matter(select_of(query)) for query in queries))


def _cover_of_hosts(query: QueryDefinition, hosts: Hosts) -> Cover | None:
    """The hosts from which a query that comes into a run is put together."""
    if hosts.covers is not None:
        return hosts.covers.get(query.name)
    select = select_of(query)
    there = [
        spec
        for spec in hosts.specs
        if spec.of is None
        and spec.cover is None
        and (spec.stream, spec.keys) == (select.stream, select.keys)
        and hosts.reach.get(spec.name, -1) >= select.window.range
    ]
    return (_find_cover([select], there, may_add=False) or _find_beside(select, there)) if there else None


def _find_cover(
    selects: Sequence[BoundSelect], candidates: Collection[SynopsisSpec], *, may_add: bool
) -> Cover | None:
    """The candidates that have the rows of queries with one condition, for all of their windows and measures.

    `may_add`: measures can be added to rows that a candidate has, but not only to be taken away again.
    """
    measures = _measures(selects)
    if not _can_be_combined(selects):
        return None
    predicate = predicate_of(selects[0].where)
    windows = {select.window for select in selects}
    algebra = algebra_of(measures, counts_matter=any(map(counts_matter, selects)))
    fitting = [spec for spec in candidates if _fits(spec, windows)]
    complete = [spec for spec in fitting if set(measures) <= set(spec.measures)]
    addable = Algebra.SENSITIVE if algebra is Algebra.SUBTRACTABLE else algebra
    usable = {spec.name: predicate_of(spec.where) for spec in (fitting if may_add else complete)}
    cover = find_cover(predicate, usable, addable) if usable else None
    if cover is None and algebra is Algebra.SUBTRACTABLE and len(complete) > 1:
        cover = find_cover(predicate, {spec.name: predicate_of(spec.where) for spec in complete}, algebra)
    return cover


def _find_beside(select: BoundSelect, candidates: Iterable[SynopsisSpec]) -> Cover | None:
    """Candidates of the very rows of a query that have all of its measures only together (rule SS2)."""
    if not _can_be_combined([select]):
        return None
    predicate, missing, parts = predicate_of(select.where), set(_measures([select])), []
    for spec in candidates:
        if missing & set(spec.measures) and _fits(spec, {select.window}):
            if spec.where == select.where or predicate_of(spec.where).equals(predicate):
                parts.append(spec.name)
                missing -= set(spec.measures)
    return Cover(tuple(parts), beside=True) if parts and not missing else None


def _can_be_combined(selects: Sequence[BoundSelect]) -> bool:
    """Whether all is made of measures that several synopses give together."""
    calls = [call for select in selects for call in select.aggregates]
    if any(map(is_coded, _measures(selects))):
        return False
    return not (values_of(calls) or frequent_of(calls) or sketches_of(calls))


def _fits(spec: SynopsisSpec, windows: Collection[Window]) -> bool:
    """Whether the windows begin and end on its panes, which are not for lists or sketches of its own."""
    if spec.frequent or any(each.depends_on_panes for each in spec.sketches):
        return False
    return all(_have(spec.panes, window) for window in windows)


@lru_cache(maxsize=4096)
def _have(panes: Panes, window: Window) -> bool:
    return panes.have(window)


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
    measures = _measures([select_of(query) for query in queries])
    return SynopsisSpec(
        name,
        first.stream,
        first.where,
        first.keys,
        panes,
        measures,
        max(select_of(query).window.range for query in queries),
        values_of(call for query in queries for call in select_of(query).aggregates),
        frequent=frequent_of(call for query in queries for call in select_of(query).aggregates),
        sketches=sketches_of(call for query in queries for call in select_of(query).aggregates),
    )


def _measures(selects: Iterable[BoundSelect]) -> tuple[Measure, ...]:
    """What must be kept of rows to answer some queries, their number first."""
    needed = (m for select in selects for call in select.aggregates for m in measures_of(call))
    return tuple(dict.fromkeys((ROWS, *needed)))
