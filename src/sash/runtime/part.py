"""A part of a run: queries that came into it together, with their synopses, operators and state.

A run begins with one part. Queries that are created later are a part of their own, so the others keep what
they have; those that are dropped take with them what nobody else in their part needs. A part knows only rows
that came after it: `first` has the first instants of its streams.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from sash.lang.algebra import Node, Stream, Window
from sash.lang.bound import QueryDefinition, StreamDefinition
from sash.lang.bound import Window as PeriodicWindow
from sash.plan.explain.tree import Measured
from sash.plan.panes import last_boundary
from sash.plan.periodic import PeriodicQuery, SynopsisSpec
from sash.plan.run_plan import RunPlan
from sash.runtime.clock import Clock, Streams
from sash.runtime.continuous import ContinuousPlane
from sash.runtime.harvest import PartHarvest
from sash.synopses.basic_interval import BasicIntervalSynopsis
from sash.synopses.refresh import Refresher


class Part:
    """`plan` is that of the queries which are still there, `origin` that of all which came."""

    def __init__(
        self,
        plan: RunPlan,
        directory: Path | None = None,
        *,
        is_cut: bool = False,
        durable: bool = True,
        dropped: Collection[str] = (),
    ) -> None:
        self.origin = self.plan = plan
        self.dropped: frozenset[str] = frozenset()
        self.continuous = ContinuousPlane(plan, directory, is_cut=is_cut, durable=durable)
        self.first: Mapping[str, int] = {}
        self._groups = {
            spec.name: _QueryGroup(spec, plan.queries_of(spec.name), plan.stream(spec.stream))
            for spec in plan.synopses
        }
        if dropped:
            self.drop(dropped)

    @property
    def number(self) -> int:
        return self.origin.number

    @property
    def definitions(self) -> tuple[QueryDefinition, ...]:
        """The queries that are still there, also those that are answered once."""
        return (*self.plan.definitions, *(query.definition for query in self.plan.one_time))

    @property
    def synopses(self) -> dict[str, BasicIntervalSynopsis]:
        return {name: group.synopsis for name, group in self._groups.items()}

    def drop(self, queries: Collection[str]) -> None:
        """Go on without some queries, and without the state that only they need."""
        self.dropped = self.dropped | frozenset(queries)
        plan = self.origin
        for group in list(self._groups.values()):
            if group.drop(self.dropped):
                del self._groups[group.name]
        self.continuous.drop(self.dropped)
        self.plan = replace(
            plan,
            queries=tuple(q for q in plan.queries if q.name not in self.dropped),
            synopses=tuple(spec for spec in plan.synopses if spec.name in self._groups),
            continuous=tuple(q for q in plan.continuous if q.name not in self.dropped),
            one_time=tuple(q for q in plan.one_time if q.name not in self.dropped),
            scans=tuple(scan for scan in plan.scans if scan.name in self.continuous.sources),
        )
        used = {name for query in self.definitions for name in plan.sources_of(query.name)}
        self.plan = replace(
            self.plan,
            relations=tuple(relation for relation in plan.relations if relation.name in used),
            streams=tuple(stream for stream in plan.streams if {stream.name, self._bare(stream.name)} & used),
        )

    def _bare(self, name: str) -> str:
        """A name without the number of the plan."""
        return name.removeprefix(self.origin.named(""))

    def answer(
        self, batch: int, harvest: PartHarvest, clock: Clock, through: int | None
    ) -> Iterator[tuple[str, pa.Table]]:
        """Give the answers of every boundary up to `through`, if time has moved at all."""
        if through is not None:
            for group in self._groups.values():
                first = self.first.get(group.stream)
                if first is not None:
                    yield from group.answer(first, through)
        if not self.continuous.is_idle:
            first_of = {**clock.firsts(self.first), **harvest.first}
            yield from self.continuous.answer(batch, harvest.rows, first_of, through)

    def horizons(self, through: int | None) -> dict[str, int | None]:
        """Panes of a synopsis that end by this instant are in no window any more."""
        return {
            name: None if through is None else group.horizon(through) for name, group in self._groups.items()
        }

    def catch_up(self, through: int) -> None:
        """After a restart: everything up to `through` has been answered already."""
        for group in self._groups.values():
            group.catch_up(self.first.get(group.stream), through)

    def measured(self, answered: Mapping[str, int], streams: Streams) -> dict[str, dict[Node, Measured]]:
        """What came of the operators of each query's plan."""
        found = self.continuous.measured()
        for query in self.plan.queries:
            plan = query.definition.plan
            synopsis = self._groups[query.synopsis].synopsis
            found[query.name] = {plan: Measured(answered[query.name])}
            for node in plan.walk():
                if isinstance(node, Stream):
                    found[query.name][node] = Measured(streams[node.name].counts.accepted)
                elif isinstance(node, Window):
                    rows = streams[query.select.stream].counts.accepted
                    found[query.name][node] = Measured(rows, 0, synopsis.live_rows, synopsis.nbytes)
        return found

    def close(self) -> None:
        self.continuous.close()


class _QueryGroup:
    """A synopsis and the queries that read it, gathered by window and slide."""

    def __init__(
        self, spec: SynopsisSpec, queries: Iterable[PeriodicQuery], stream: StreamDefinition
    ) -> None:
        self.name = spec.name
        self.stream = spec.stream
        self.synopsis = BasicIntervalSynopsis(spec)
        sharers: dict[PeriodicWindow, list[PeriodicQuery]] = defaultdict(list)
        for query in queries:
            sharers[query.window].append(query)
        self._refreshers = [
            Refresher(self.synopsis, window, members, stream) for window, members in sharers.items()
        ]

    def drop(self, queries: Collection[str]) -> bool:
        """Go on without some queries; gives whether none is left."""
        self._refreshers = [refresher for refresher in self._refreshers if not refresher.drop(queries)]
        return not self._refreshers

    def answer(self, first: int, through: int) -> Iterator[tuple[str, pa.Table]]:
        self.synopsis.seal(through)
        # What is sealed does not change meanwhile, so a refresher's next boundary changes only by its steps.
        dues = [(due, i) for i, r in enumerate(self._refreshers) if (due := r.due(first)) is not None]
        heapq.heapify(dues)
        while dues and dues[0][0] <= through:
            boundary, index = dues[0]
            refresher = self._refreshers[index]
            self.synopsis.move_to(boundary)
            refresher.step(boundary, through)
            if refresher.is_full:
                yield from refresher.flush().items()
            due = refresher.due(first)
            if due is None:
                heapq.heappop(dues)
            else:
                heapq.heapreplace(dues, (due, index))
        for refresher in self._refreshers:
            yield from refresher.flush().items()
        self.synopsis.trim(min(refresher.left for refresher in self._refreshers))

    def horizon(self, through: int) -> int:
        windows = [refresher.window for refresher in self._refreshers]
        return min(last_boundary(through, window.slide) - window.range for window in windows)

    def catch_up(self, first: int | None, through: int) -> None:
        if first is None:
            return
        self.synopsis.seal(through)
        for boundary, refresher in sorted(
            ((last_boundary(through, r.window.slide), r) for r in self._refreshers), key=lambda item: item[0]
        ):
            if boundary >= first:
                self.synopsis.move_to(boundary)
                refresher.catch_up(boundary)
