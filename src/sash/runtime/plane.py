"""The query plane: the driver's side of a run. Chunk results go in, answers come out.

It keeps how far each stream has come, and the parts of the run with what their queries last answered. It
knows no Spark: both runtimes feed it, so they answer alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from sash.lang.algebra import Node, Stream, Window
from sash.lang.bound import IndexDefinition, StreamDefinition
from sash.operators.preaggregate import Partial
from sash.plan.cost.indexes import IndexChoice
from sash.plan.explain.tree import Measured
from sash.plan.run_plan import united
from sash.plan.value_indexes import choose_value_index, index_on
from sash.runtime.cell import StateFile
from sash.runtime.clock import Clock, Streams, StreamState
from sash.runtime.groups import QueryGroup
from sash.runtime.harvest import Harvest
from sash.runtime.part import Part
from sash.runtime.report import DRIVER, Held

Firsts = Mapping[int, Mapping[str, int]]
"""The first instants of streams, by part."""


class QueryPlane:
    """`scans` says under which name the scan of a part is done."""

    def __init__(self, parts: Iterable[Part] = ()) -> None:
        self.groups: dict[str, QueryGroup] = {}
        self.complete_through: int | None = None
        parts = tuple(parts)
        streams = {stream.name: stream for part in parts for stream in part.plan.streams}
        self.change(parts, streams.values())
        self.streams = {name: StreamState() for name in streams}

    def change(self, parts: Iterable[Part], streams: Iterable[StreamDefinition]) -> None:
        """Go on with these parts and streams; `self.streams` must be set to how far those are."""
        self.parts = {part.number: part for part in parts}
        plan, self.scans = united([part.plan for part in self.parts.values()])
        self.plan = replace(plan, streams=tuple(streams))
        self.clock = Clock.of(self.plan, [feed for part in self.parts.values() for feed in part.plan.feeds])
        specs = {spec.name: spec for spec in self.plan.synopses if spec.of is None}
        self.groups = {name: group for name, group in self.groups.items() if name in specs}
        for name, spec in specs.items():
            if name not in self.groups:
                self.groups[name] = QueryGroup(spec, self.plan.stream(spec.stream))
        self._read_in = {spec.name: self.groups[spec.of or spec.name] for spec in self.plan.synopses}
        for name, group in self.groups.items():
            group.keep([query.name for query in self.plan.queries if query.synopsis == name])
        for part in self.parts.values():
            own = {spec.name for spec in part.origin.synopses}
            for name in {query.synopsis for query in part.plan.queries}:
                since = None if name in own else part.since
                self.groups[name].add(part.plan.queries_of(name), since)

    def index_values(self, indexes: Sequence[IndexDefinition]) -> None:
        """Answer aggregates of columns that have an index from it, if it can."""
        for name, group in self.groups.items():
            for argument, counts in group.synopsis.values.items():
                index = index_on(group.spec, argument, indexes)
                chosen = None
                if index is not None:
                    queries, stream = self.plan.queries_of(name), self.plan.stream(group.spec.stream)
                    chosen = choose_value_index(index, group.spec, argument, queries, stream)
                counts.answer_from(chosen.spec if isinstance(chosen, IndexChoice) else None)

    def absorb_partial(self, partial: Partial) -> None:
        self._read_in[partial.synopsis].synopsis.absorb(partial)

    def absorb(self, harvest: Harvest, streams: Streams, firsts: Firsts) -> None:
        """Take in a batch, whose results are in order of arrival; the rest is how far it brings us."""
        for result in harvest.results:
            for partial in result.partials:
                self.absorb_partial(partial)
        for number, part in self.parts.items():
            part.continuous.count(harvest.of(number).tallies)
        self._set_firsts(firsts)
        self.streams = dict(streams)

    def _set_firsts(self, firsts: Firsts) -> None:
        for number, part in self.parts.items():
            part.first = firsts[number]
            for spec in part.plan.synopses:
                self._read_in[spec.name].first = part.first.get(spec.stream)

    def answer(self, batch: int, harvest: Harvest) -> dict[str, list[pa.Table]]:
        """Move to the clock and give the answers of every boundary on the way, per query."""
        answers: dict[str, list[pa.Table]] = defaultdict(list)
        through = self.clock.through(self.streams)
        if through is not None and self.complete_through is not None and through <= self.complete_through:
            through = None
        if through is not None:
            for group in self.groups.values():
                for name, table in group.answer(through):
                    answers[name].append(table)
        for number, part in self.parts.items():
            if not part.continuous.is_idle:
                given = harvest.of(number)
                first = {**self.clock.firsts(part.first), **given.first}
                for name, table in part.continuous.answer(batch, given.rows, first, through):
                    answers[name].append(table)
        if through is not None:
            self.complete_through = through
        return answers

    def horizons(self) -> dict[str, int | None]:
        """Panes of each synopsis that end by this instant are in no window any more."""
        through = self.complete_through
        return {name: None if through is None else g.horizon(through) for name, g in self._read_in.items()}

    def restore(self, streams: Streams, firsts: Firsts, complete_through: int | None) -> None:
        """Go on from a saved state, whose partials have been absorbed already."""
        self.streams = dict(streams)
        self.complete_through = complete_through
        self._set_firsts(firsts)
        if complete_through is not None:
            for group in self.groups.values():
                group.catch_up(complete_through)

    @property
    def files(self) -> dict[str, tuple[StateFile, ...]]:
        """The state of the operators that are here, after the last batch."""
        files: dict[str, tuple[StateFile, ...]] = {}
        for part in self.parts.values():
            files.update(part.continuous.files)
        return files

    def once(self) -> dict[str, pa.Table]:
        """The answers of one-time queries, over the windows as they are."""
        answers: dict[str, pa.Table] = {}
        for part in self.parts.values():
            answers.update(part.continuous.once())
        return answers

    def measured(self, answered: Mapping[str, int]) -> dict[str, dict[Node, Measured]]:
        """What came of the operators of each query's plan."""
        found: dict[str, dict[Node, Measured]] = {}
        for part in self.parts.values():
            found.update(part.continuous.measured())
        for query in self.plan.queries:
            plan, synopsis = query.definition.plan, self.groups[query.synopsis].synopsis
            rows = self.streams[query.select.stream].counts.accepted
            found[query.name] = {plan: Measured(answered[query.name])}
            for node in plan.walk():
                if isinstance(node, Stream):
                    found[query.name][node] = Measured(rows)
                elif isinstance(node, Window):
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
        held: dict[int, Held] = {DRIVER: sum(self.synopses.values(), Held())}
        for part in self.parts.values():
            for partition, holds in part.continuous.state.items():
                held[partition] = held.get(partition, Held()) + holds
        return held

    @property
    def synopses(self) -> dict[str, Held]:
        """What each synopsis holds."""
        held = ((name, group.synopsis) for name, group in self.groups.items())
        return {name: Held(synopsis.live_rows, synopsis.nbytes) for name, synopsis in held}

    @property
    def live_rows(self) -> int:
        """Rows of state that synopses and operators hold."""
        rows = sum(group.synopsis.live_rows for group in self.groups.values())
        return rows + sum(part.continuous.state_rows for part in self.parts.values())
