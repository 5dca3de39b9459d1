"""The synopses of a run, or of one partition of it, and the queries that read them.

The driver knows all of them. A grouping that has become too large for it is divided among partitions by the
keys of its groups (`partitioned.py`): there each has a set of its own, and the driver's has the group without
any rows, to know which windows are read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sash.engine.observe.report import Held
from sash.engine.periodic.groups import (
    QueryGroup,
    Reached,
    answer_together,
    catch_up_together,
    clusters,
    latest,
)
from sash.engine.streaming_job import StreamingJob
from sash.lang.bound import IndexDefinition
from sash.operators.operator import begin_of
from sash.operators.preaggregate import Partial
from sash.plan.cost.indexes import IndexChoice
from sash.plan.periodic import PeriodicPlan, PeriodicQuery
from sash.plan.refresh import refresh_of
from sash.plan.value_indexes import choose_value_index, index_on
from sash.synopses.combined import Combined

Firsts = Mapping[int, Mapping[str, int]]
"""The first instants of streams, by part."""
Throughs = Mapping[str, int]
"""Watermarks, by stream; those that have none, or have not moved, are missing."""
_NOTHING = PeriodicPlan((), (), ())


@dataclass(frozen=True, slots=True)
class Readers:
    """A part of the run, as synopses know it: its queries, and the synopses that it has, with their streams.

    `own` are those that keep rows and came with it, `since` is how far answers had come then; of streams in
    `complete_since` it knows all rows after that instant. Queries in `begins` answer from that boundary on.
    """

    number: int
    since: int | None
    complete_since: Mapping[str, int]
    own: frozenset[str]
    synopses: tuple[tuple[str, str], ...]
    queries: tuple[PeriodicQuery, ...]
    begins: Mapping[str, int]

    @staticmethod
    def of(part: StreamingJob) -> Readers:
        begins = ((query.name, part.first.get(begin_of(query.name))) for query in part.plan.queries)
        return Readers(
            part.number,
            part.since,
            part.complete_since,
            frozenset(spec.name for spec in part.origin.synopses if spec.cover is None),
            tuple((spec.name, spec.stream) for spec in part.plan.synopses),
            part.plan.queries,
            {name: instant for name, instant in begins if instant is not None},
        )

    def only(self, synopses: Collection[str]) -> Readers:
        """What concerns some synopses."""
        return Readers(
            self.number,
            self.since,
            self.complete_since,
            self.own,
            tuple((name, stream) for name, stream in self.synopses if name in synopses),
            tuple(query for query in self.queries if query.synopsis in synopses),
            self.begins,
        )


class SynopsisSet:
    """`divided` has the groups that are in partitions, with the reason. `is_part`: so is this one."""

    def __init__(
        self, is_elastic: Callable[[PeriodicQuery], bool] | None = None, *, is_part: bool = False
    ) -> None:
        self.groups: dict[str, QueryGroup] = {}
        self.clusters: list[list[QueryGroup]] = []
        self.divided: dict[str, str] = {}
        self._is_elastic = is_elastic or _never
        self._is_part = is_part
        self._plan = _NOTHING
        self._parts: tuple[Readers, ...] = ()
        self._read_in: dict[str, QueryGroup] = {}

    def change(self, plan: PeriodicPlan, parts: Iterable[Readers]) -> None:
        """Go on with the synopses and queries of a plan."""
        self._plan, self._parts = plan, tuple(parts)
        specs = {spec.name: spec for spec in plan.synopses if spec.of is None}
        for name in [name for name in self.groups if name not in specs]:
            self.groups.pop(name).leave()
        self.divided = {name: why for name, why in self.divided.items() if name in specs}
        for name, spec in sorted(specs.items(), key=lambda item: item[1].cover is not None):
            if name not in self.groups:
                signed = () if spec.cover is None else spec.cover.signed
                parts_of = [(self.groups[base], sign) for base, sign in signed]
                is_elastic = _never if name in self.divided else self._is_elastic
                stream = plan.stream(spec.stream)
                self.groups[name] = QueryGroup(spec, stream, parts_of, is_elastic, is_part=self._is_part)
        self._read_in = {spec.name: self.groups[spec.of or spec.name] for spec in plan.synopses}
        for name, group in self.groups.items():
            group.keep([query.name for query in plan.queries if query.synopsis == name])
        for part in self._parts:
            for name in (name for name in self.groups if name in part.own):
                self.groups[name].held_from = latest(
                    self.groups[name].held_from, part.complete_since.get(specs[name].stream)
                )
            for name in dict.fromkeys(query.synopsis for query in part.queries):
                self.groups[name].add([q for q in part.queries if q.synopsis == name], part.begins)
        self.clusters = sorted(clusters(self.groups.values()), key=lambda cluster: -_priority(cluster))

    def divide(self, names: Mapping[str, str]) -> None:
        """Let go of the rows of some groups, whole clusters, which are in partitions from now on."""
        going = [name for name in names if name not in self.divided]
        held_from = {name: self.groups[name].held_from for name in going}
        for name in going:
            self.groups.pop(name).leave()
        self.divided = {**self.divided, **names}
        self.change(self._plan, self._parts)
        for name, instant in held_from.items():
            self.groups[name].held_from = instant

    @property
    def here(self) -> list[list[QueryGroup]]:
        """The clusters of groups whose rows are here."""
        return [each for each in self.clusters if not any(g.spec.name in self.divided for g in each)]

    @property
    def kept_here(self) -> dict[str, QueryGroup]:
        """The groups whose rows are here."""
        return {name: group for name, group in self.groups.items() if name not in self.divided}

    def index_values(self, indexes: Sequence[IndexDefinition]) -> None:
        """Answer aggregates of columns that have an index from it, if it can."""
        for name, group in self.groups.items():
            if isinstance(group.synopsis, Combined):
                # It keeps nothing of its own.
                continue
            for argument in group.spec.values:
                counts = group.synopsis.values[argument]
                index = index_on(group.spec, argument, indexes)
                chosen = None
                if index is not None:
                    queries, stream = self._plan.queries_of(name), self._plan.stream(group.spec.stream)
                    chosen = choose_value_index(index, group.spec, argument, queries, stream)
                counts.answer_from(chosen.spec if isinstance(chosen, IndexChoice) else None)

    def absorb(self, partial: Partial) -> None:
        self._read_in[partial.synopsis].kept.absorb(partial)

    def seal(self, throughs: Mapping[str, int]) -> None:
        """Nothing more comes for panes that end by an instant of their stream."""
        for group in self.kept_here.values():
            if group.spec.stream in throughs:
                group.synopsis.seal(throughs[group.spec.stream])

    def begin(self, firsts: Firsts) -> None:
        """The first instants of streams, as far as they are known."""
        for part in self._parts:
            for name, stream in part.synopses:
                self._read_in[name].begin(firsts[part.number].get(stream))

    def answer(self, throughs: Throughs) -> Iterator[tuple[str, pa.Table]]:
        """The answers of all boundaries up to the watermarks that moved, but for elastic queries."""
        for cluster in self.here:
            # Groups with rows in common are of one stream.
            through = throughs.get(cluster[0].spec.stream)
            if through is not None:
                yield from answer_together(cluster, through)

    def settle(self, throughs: Throughs) -> None:
        """After the answers of all boundaries up to the watermarks that moved."""
        for group in self.groups.values():
            through = throughs.get(group.spec.stream)
            if through is not None:
                group.settle(through)

    def catch_up(self, reached: Reached, groups: Collection[str] | None = None) -> None:
        """All is absorbed, and answered as far as is said, of some groups or of all."""
        here = [
            [group for group in cluster if groups is None or group.spec.name in groups]
            for cluster in self.here
            if cluster[0].spec.stream in reached.throughs
        ]
        for group in (group for cluster in here for group in cluster):
            group.go_on(reached)
        for cluster in here:
            catch_up_together(cluster, reached)

    def horizons(self, throughs: Throughs) -> dict[str, int | None]:
        """Panes of each synopsis that end by this instant are in no window any more."""
        found = ((name, group, throughs.get(group.spec.stream)) for name, group in self._read_in.items())
        return {name: None if through is None else g.horizon(through) for name, g, through in found}

    @property
    def held(self) -> dict[str, Held]:
        """What each synopsis holds here."""
        return {name: _held(group) for name, group in self.kept_here.items()}


def _held(group: QueryGroup) -> Held:
    synopsis = group.synopsis
    groups = 0 if isinstance(synopsis, Combined) else synopsis.groups.size
    return Held(synopsis.live_rows, synopsis.nbytes, groups)


def _never(query: PeriodicQuery) -> bool:
    return False


def _priority(cluster: Iterable[QueryGroup]) -> int:
    """Of who is most urgent."""
    queries = (q for group in cluster for refresher in group.refreshers for q in refresher.queries)
    return max((refresh_of(query.definition).priority for query in queries), default=0)
