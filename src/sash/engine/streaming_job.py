"""A part of a run: queries that came into it together and read the same sources, with operators and synopses.

A run begins with one part for each set of streams and timed relations that queries read: a part has one
watermark. Queries that are created later are parts of their own, so the others keep what they have; those
that are dropped take with them what nobody else needs. Queries that a synopsis of an earlier part covers read
that one, be it of a stream or of a join. A part knows the rows that came after it, and those that streams had
kept: `first` has the first instants of its streams; `since` is how far time had come; `complete_since`, by
stream, after which instant it knows all rows, where it does not know all that ever came.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from sash.engine.continuous.continuous import ContinuousExecutor
from sash.engine.starts import begins_in
from sash.engine.stopping import keep_on
from sash.lang.bound import QueryDefinition
from sash.plan.join_guests import JoinGuest, served
from sash.plan.run_plan import RunPlan


class StreamingJob:
    """`plan` is that of the queries which are still there, `origin` that of all which came.

    `through` is the watermark up to which it has answered.
    """

    def __init__(
        self,
        plan: RunPlan,
        directory: Path | None = None,
        *,
        is_cut: bool = False,
        durable: bool = True,
        since: int | None = None,
        complete_since: Mapping[str, int] | None = None,
        look: Callable[[], None] = keep_on,
    ) -> None:
        self.origin = self.plan = plan
        self.since = self.through = since
        self.complete_since = complete_since or {}
        self.dropped: frozenset[str] = frozenset()
        self.continuous = ContinuousExecutor(plan, directory, is_cut=is_cut, durable=durable, look=look)
        self.first: Mapping[str, int] = {}

    @property
    def has_joined(self) -> bool:
        """Whether it came into a run that was under way."""
        return bool(begins_in(self.first))

    @property
    def number(self) -> int:
        return self.origin.number

    @property
    def sources(self) -> tuple[str, ...]:
        """The streams, and the feeds of timed relations, whose least is its watermark."""
        return tuple(stream.name for stream in self.plan.streams)

    @property
    def definitions(self) -> tuple[QueryDefinition, ...]:
        """The queries that are still there, also those that are answered once."""
        return (*self.plan.definitions, *(query.definition for query in self.plan.one_time))

    @property
    def is_needed(self) -> bool:
        """Whether somebody reads something of it."""
        return bool(self.definitions or self.plan.synopses or self.plan.joins)

    def drop(self, queries: Collection[str]) -> None:
        """Go on without some queries; `serve` then lets go of the operators that only they need."""
        if not queries:
            return
        self.dropped = self.dropped | frozenset(queries)
        self.continuous.drop(self.dropped)
        self.plan = replace(
            self.plan,
            queries=tuple(q for q in self.plan.queries if q.name not in self.dropped),
            continuous=tuple(q for q in self.plan.continuous if q.name not in self.dropped),
            one_time=tuple(q for q in self.plan.one_time if q.name not in self.dropped),
            guests=tuple(left for guest in self.plan.guests if (left := guest.without(self.dropped)).queries),
        )

    def serve(self, guests: Iterable[JoinGuest]) -> None:
        """Let its join synopses be as own queries and these need them; operators that nobody needs go."""
        joins = served(self.origin.joins, self.dropped, guests)
        if joins != self.plan.joins or self.dropped:
            self.continuous.serve(joins)
        self.plan = replace(
            self.plan,
            joins=joins,
            scans=tuple(scan for scan in self.plan.scans if scan.name in self.continuous.sources),
        )

    def keep(self, synopses: Collection[str]) -> None:
        """Go on without synopses that nobody reads, and without streams and relations that nobody needs."""
        plan = self.origin
        kept = tuple(spec for spec in plan.synopses if (spec.of or spec.name) in synopses)
        sources = plan.sources
        used = {name for query in self.definitions for name in sources[query.name]}
        used.update(spec.stream for spec in kept)
        used.update(stream for join in self.plan.joins for stream in join.join.streams)
        used.update([plan.feed(relation.name) for relation in plan.relations if relation.name in used])
        self.plan = replace(
            self.plan,
            synopses=kept,
            relations=tuple(relation for relation in plan.relations if relation.name in used),
            streams=tuple(s for s in plan.streams if s.name in used),
        )

    def close(self) -> None:
        self.continuous.close()


def drop_queries(
    parts: Collection[StreamingJob], gone: Mapping[int, Collection[str]], coming: Iterable[RunPlan] = ()
) -> list[StreamingJob]:
    """Drop queries by part; gives the parts that are still needed, and closes the others.

    Synopses that queries of plans which are `coming` will read stay, too.
    """
    for part in parts:
        part.drop(gone.get(part.number, ()))
    plans = [*(part.plan for part in parts), *coming]
    specs = {spec.name: spec for plan in plans for spec in plan.synopses}
    read = {query.synopsis for plan in plans for query in plan.queries}
    read.update([base for name in read for base in specs[name].bases])
    guests = [guest for plan in plans for guest in plan.guests]
    for part in parts:
        part.serve(guests)
        part.keep(read)
        if not part.is_needed:
            part.close()
    return [part for part in parts if part.is_needed]
