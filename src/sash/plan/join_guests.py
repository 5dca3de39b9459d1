"""Join queries that come into a run and read a join synopsis which is there (002, section 8.3.2, rule SS3).

A guest needs the join, grouping and measures of its host, windows and a SLIDE of whole panes, and windows
that differ by no more than the classes tell apart. All of that stays as it was when the host was made. The
length does not: where a window is longer than those that were kept, results are kept for longer from then on,
and so are the tuples of the join that are still there. The guest is told of what has been known without a gap
since the oldest pane of that time, so its windows grow until they are whole; an answer before is that of a
stream that begins with this pane. Where the streams keep their rows (RETAIN), a join of its own has more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from sash.lang.bound import QueryDefinition, StreamDefinition
from sash.plan.cost import Statistics
from sash.plan.join_synopses import (
    MOST_PANES,
    ContinuousJoin,
    JoinAggregate,
    JoinReader,
    JoinSpec,
    SharedJoin,
    calls_over,
    join_aggregate_of,
    measures_in,
    places_of,
    plan_joins,
)

# The readers of a host are numbered from here on for each plan that brings guests.
_NUMBERS = 1 << 20


@dataclass(frozen=True, slots=True)
class JoinGuest:
    """Queries that read a synopsis of an earlier plan; `spec` is that synopsis without its readers."""

    spec: JoinSpec
    reader: JoinReader

    @property
    def queries(self) -> tuple[str, ...]:
        return self.reader.queries

    def without(self, queries: Collection[str]) -> JoinGuest:
        """The same for the others."""
        return replace(self, reader=without(self.reader, queries))


@dataclass(frozen=True, slots=True)
class JoinHosts:
    """Join synopses that are there when queries come, and how far answers have come then.

    Those in `complete_since` know only rows that came after an instant.
    `decided` has what each guest reads, since when, and after which pane all is known to it; None: it is to
    be decided.
    """

    joins: tuple[SharedJoin, ...] = ()
    through: int | None = None
    decided: Mapping[str, tuple[str, int | None, int | None]] | None = None
    complete_since: Mapping[str, int] = field(default_factory=dict)


NO_JOINS = JoinHosts()


def plan_joins_beside(
    hosts: JoinHosts,
    queries: Iterable[QueryDefinition],
    streams: Iterable[StreamDefinition],
    statistics: Statistics,
    number: int,
    name: str,
) -> tuple[tuple[SharedJoin, ...], tuple[JoinGuest, ...]]:
    """The join synopses of a plan, and which queries read others that are there.

    `number` is that of the plan, `name` what the names of its own begin with.
    """
    queries, streams = tuple(queries), tuple(streams)
    guests = _find_guests(queries, streams, hosts, number)
    reading = {name for guest in guests for name in guest.queries}
    own = [query for query in queries if query.name not in reading]
    return plan_joins(own, streams, statistics, name), guests


def _find_guests(
    queries: Iterable[QueryDefinition], streams: Iterable[StreamDefinition], hosts: JoinHosts, number: int
) -> tuple[JoinGuest, ...]:
    retaining = {stream.name for stream in streams if stream.retain is not None}
    found: dict[tuple[str, JoinReader], tuple[SharedJoin, list[str]]] = {}
    for query in queries:
        asked = join_aggregate_of(query) if hosts.joins else None
        if isinstance(asked, JoinAggregate):
            if hosts.decided is None:
                read = _chosen(asked, hosts, retaining)
            else:
                read = _decided(asked, hosts.joins, hosts.decided.get(query.name))
            if read is not None:
                join, reader = read
                found.setdefault((join.name, reader), (join, []))[1].append(query.name)
    return tuple(
        JoinGuest(
            replace(join.spec, readers=()),
            replace(reader, number=number * _NUMBERS + place, queries=tuple(names)),
        )
        for place, ((_, reader), (join, names)) in enumerate(found.items())
    )


def _decided(
    asked: JoinAggregate, joins: Iterable[SharedJoin], how: tuple[str, int | None, int | None] | None
) -> tuple[SharedJoin, JoinReader] | None:
    if how is None:
        return None
    name, since, after = how
    join = {join.name: join for join in joins}[name]
    reader = _reader(join, asked)
    return None if reader is None else (join, replace(reader, since=since, after=after))


def _chosen(
    asked: JoinAggregate, hosts: JoinHosts, retaining: Set[str]
) -> tuple[SharedJoin, JoinReader] | None:
    """The first host that has the windows in full, or else one that will have."""
    partial = None
    for join in hosts.joins:
        reader = _reader(join, asked)
        if reader is None:
            continue
        after = _known_after(join.spec, reader, hosts.through, hosts.complete_since.get(join.name))
        reader = replace(reader, since=hosts.through, after=after)
        is_whole = (
            hosts.through is None
            or reader.lengths_at(join.spec.panes.number_at(hosts.through)) == reader.lengths
        )
        if is_whole:
            return join, reader
        if partial is None and retaining.isdisjoint(join.join.streams):
            partial = join, reader
    return partial


def _reader(join: SharedJoin, asked: JoinAggregate) -> JoinReader | None:
    """How a query would read a host; None if that lacks something that does not come with time."""
    spec, width = join.spec, join.spec.panes.period
    keys, arguments = join.outputs[: len(spec.keys)], join.outputs[len(spec.keys) :]
    places = places_of(arguments)
    if asked.source != join.join.source or asked.keys != tuple(key.scalar for key in keys):
        return None
    if any(call.argument is not None and call.argument not in places for call in asked.calls):
        return None
    calls = calls_over(asked.calls, places)
    if not set(measures_in(calls)) <= set(spec.measures) or asked.width % width:
        return None
    first, second = (length + shift for length, shift in zip(asked.windows, spec.shifts, strict=True))
    lengths = first // width, second // width
    if abs(lengths[0] - lengths[1]) > spec.g or max(lengths) > MOST_PANES:
        return None
    return JoinReader(0, asked.windows, lengths, asked.slide, calls, ())


def _known_after(
    spec: JoinSpec, reader: JoinReader, through: int | None, complete_since: int | None
) -> int | None:
    """After which pane a host knows all results that a reader asks for; None: it knows all."""
    known = [other.after for other in spec.readers if other.after is not None]
    if complete_since is not None:
        known.append(spec.panes.number_at(complete_since - min(0, *spec.shifts)))
    if through is not None and max(reader.lengths) > spec.b:
        # Tuples of the pane that is not over yet may have lost partners already.
        known.append(spec.panes.number_at(through) - spec.b)
    return max(known, default=None)


def served(
    joins: Sequence[SharedJoin], dropped: Collection[str], guests: Iterable[JoinGuest]
) -> tuple[SharedJoin, ...]:
    """Join synopses as they are for those who read them: own queries, less those dropped, and guests."""
    coming: dict[str, list[JoinReader]] = {}
    for guest in guests:
        coming.setdefault(guest.spec.name, []).append(guest.reader)
    found = []
    for join in joins:
        left = [without(reader, dropped) for reader in join.spec.readers]
        readers = [*(reader for reader in left if reader.queries), *coming.get(join.name, ())]
        if readers:
            found.append(replace(join, spec=join.spec.serving(readers)))
    stretches: dict[str, int] = {}
    for join in found:
        stretches[join.join.name] = max(_stretch(join), stretches.get(join.join.name, _stretch(join)))
    return tuple(replace(join, join=_stretched(join.join, stretches[join.join.name])) for join in found)


def without(reader: JoinReader, queries: Collection[str]) -> JoinReader:
    """The same reader for the others."""
    return replace(reader, queries=tuple(name for name in reader.queries if name not in queries))


def _stretch(join: SharedJoin) -> int:
    """By how much the windows of a join must be longer than they were made, for one of its synopses."""
    longest = join.spec.b * join.spec.panes.period
    needed = (longest - shift for shift in join.spec.shifts)
    return max(need - length for need, length in zip(needed, join.join.windows, strict=True))


def _stretched(join: ContinuousJoin, by: int) -> ContinuousJoin:
    first, second = join.windows
    return replace(join, windows=(first + by, second + by), stretch=by)
