"""The query plane: the driver's side of a run. Chunk results go in, answers come out.

It keeps how far each stream has come, the synopses and what the queries last answered. It knows no Spark:
both runtimes feed it, so they answer alike.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping

import pyarrow as pa

from sash.lang.algebra import Node, Stream, Window
from sash.lang.bound import StreamDefinition
from sash.lang.bound import Window as PeriodicWindow
from sash.operators.preaggregate import Partial
from sash.plan.explain.tree import Measured
from sash.plan.panes import last_boundary
from sash.plan.periodic import PeriodicQuery, SynopsisSpec
from sash.plan.run_plan import RunPlan
from sash.runtime.clock import Clock, StreamState
from sash.runtime.continuous import ContinuousPlane
from sash.runtime.harvest import Harvest
from sash.runtime.report import DRIVER, Held
from sash.synopses.basic_interval import BasicIntervalSynopsis
from sash.synopses.refresh import Refresher


class QueryPlane:
    def __init__(self, plan: RunPlan, continuous: ContinuousPlane | None = None) -> None:
        self.plan = plan
        self.continuous = continuous or ContinuousPlane(plan)
        self.clock = Clock.of(plan)
        self.streams = {stream.name: StreamState() for stream in plan.streams}
        self.complete_through: int | None = None
        self._groups = [
            _QueryGroup(spec, plan.queries_of(spec.name), plan.stream(spec.stream)) for spec in plan.synopses
        ]
        self._synopses = {group.name: group.synopsis for group in self._groups}

    def absorb_partial(self, partial: Partial) -> None:
        self._synopses[partial.synopsis].absorb(partial)

    def absorb(self, harvest: Harvest, streams: Mapping[str, StreamState]) -> None:
        """Take in a batch, whose results are in order of arrival; `streams` is how far it brings each."""
        for result in harvest.results:
            for partial in result.partials:
                self.absorb_partial(partial)
        self.continuous.count(harvest.tallies)
        self.streams = dict(streams)

    def answer(self, batch: int, harvest: Harvest) -> dict[str, list[pa.Table]]:
        """Move to the clock and give the answers of every boundary on the way, per query."""
        answers: dict[str, list[pa.Table]] = defaultdict(list)
        through = self.clock.through(self.streams)
        if through is not None and self.complete_through is not None and through <= self.complete_through:
            through = None
        if through is not None:
            for group in self._groups:
                first = self.streams[group.stream].first
                if first is not None:
                    for name, table in group.answer(first, through):
                        answers[name].append(table)
        if not self.continuous.is_idle:
            first_of = {**self.clock.firsts(self.streams), **harvest.first}
            for name, table in self.continuous.answer(batch, harvest.rows, first_of, through):
                answers[name].append(table)
        if through is not None:
            self.complete_through = through
        return answers

    def horizon(self, synopsis: str) -> int | None:
        """Panes of the synopsis that end by this instant are in no window any more."""
        if self.complete_through is None:
            return None
        windows = {query.window for query in self.plan.queries_of(synopsis)}
        return min(last_boundary(self.complete_through, w.slide) - w.range for w in windows)

    def restore(self, streams: Mapping[str, StreamState], complete_through: int | None) -> None:
        """Go on from a saved state, whose partials have been absorbed already."""
        self.streams = dict(streams)
        self.complete_through = complete_through
        if complete_through is not None:
            for group in self._groups:
                group.catch_up(self.streams[group.stream].first, complete_through)

    def measured(self, answered: Mapping[str, int]) -> dict[str, dict[Node, Measured]]:
        """What came of the operators of each query's plan."""
        found = self.continuous.measured()
        groups = {group.name: group for group in self._groups}
        for query in self.plan.queries:
            plan = query.definition.plan
            synopsis = groups[query.synopsis].synopsis
            found[query.name] = {plan: Measured(answered[query.name])}
            for node in plan.walk():
                if isinstance(node, Stream):
                    found[query.name][node] = Measured(self.streams[node.name].counts.accepted)
                elif isinstance(node, Window):
                    rows = self.streams[query.select.stream].counts.accepted
                    found[query.name][node] = Measured(rows, 0, synopsis.live_rows, synopsis.nbytes)
        return found

    def rates(self) -> dict[str, float]:
        """Rows per second of event time, of streams that have lasted."""
        rates = {}
        for name, state in self.streams.items():
            if state.first is not None and state.newest is not None and state.newest > state.first:
                rates[name] = state.counts.accepted / ((state.newest - state.first) / 1_000_000)
        return rates

    @property
    def state(self) -> dict[int, Held]:
        """What each partition holds; synopses are with the driver."""
        held = self.continuous.state
        return {**held, DRIVER: sum(self.synopses.values(), held[DRIVER])}

    @property
    def synopses(self) -> dict[str, Held]:
        """What each synopsis holds."""
        return {name: Held(each.live_rows, each.nbytes) for name, each in self._synopses.items()}

    @property
    def live_rows(self) -> int:
        """Rows of state that synopses and operators hold."""
        return sum(group.synopsis.live_rows for group in self._groups) + self.continuous.state_rows


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

    def answer(self, first: int, through: int) -> Iterable[tuple[str, pa.Table]]:
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
