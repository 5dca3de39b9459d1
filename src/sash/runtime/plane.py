"""The query plane: the driver's side of a run. Chunk results go in, answers come out.

It keeps how far each stream has come, and the parts of the run with what their queries last answered. It
knows no Spark: both runtimes feed it, so they answer alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace

import pyarrow as pa

from sash.lang.algebra import Node, Stream, Window
from sash.lang.bound import IndexDefinition, StreamDefinition
from sash.operators.preaggregate import Partial
from sash.plan.cost.indexes import IndexChoice
from sash.plan.explain.tree import Measured
from sash.plan.periodic import Hosts
from sash.plan.refresh import refresh_of
from sash.plan.run_plan import united
from sash.plan.value_indexes import choose_value_index, index_on
from sash.runtime.cell import StateFile
from sash.runtime.clock import Clock, Streams, StreamState
from sash.runtime.groups import QueryGroup, Reached, answer_together, catch_up_together, clusters, latest
from sash.runtime.harvest import Harvest
from sash.runtime.part import Part
from sash.runtime.refreshing import Refreshing, Saved, exact_fares
from sash.runtime.report import DRIVER, Held, Refreshed
from sash.sharing.of_plan import Shared, shared_of
from sash.synopses.combined import Combined

Firsts = Mapping[int, Mapping[str, int]]
"""The first instants of streams, by part."""


_LONG_AGO = -(1 << 62)


class QueryPlane:
    """`scans` says under which name the scan of a part is done."""

    def __init__(self, parts: Iterable[Part] = (), refreshing: Refreshing | None = None) -> None:
        self.refreshing = refreshing or Refreshing()
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
        for name in self.groups.keys() - specs.keys():
            self.groups.pop(name).leave()
        for name, spec in sorted(specs.items(), key=lambda item: item[1].cover is not None):
            if name not in self.groups:
                signed = () if spec.cover is None else spec.cover.signed
                parts_of = [(self.groups[base], sign) for base, sign in signed]
                stream = self.plan.stream(spec.stream)
                self.groups[name] = QueryGroup(spec, stream, parts_of, self.refreshing.is_elastic)
        self._read_in = {spec.name: self.groups[spec.of or spec.name] for spec in self.plan.synopses}
        for name, group in self.groups.items():
            group.keep([query.name for query in self.plan.queries if query.synopsis == name])
        for part in self.parts.values():
            own = {spec.name for spec in part.origin.synopses if spec.cover is None}
            for name in own & self.groups.keys():
                self.groups[name].held_from = latest(self.groups[name].held_from, part.since)
            for name in {query.synopsis for query in part.plan.queries}:
                since = None if own.issuperset(specs[name].bases) else part.since
                self.groups[name].add(part.plan.queries_of(name), since)
        self._clusters = sorted(clusters(self.groups.values()), key=lambda cluster: -self._priority(cluster))
        self.refreshing.change(self.groups.values(), self.plan)
        self._known_shared: dict[str, Shared] | None = None

    def _priority(self, cluster: Iterable[QueryGroup]) -> int:
        """Of who is most urgent."""
        queries = (q for group in cluster for refresher in group.refreshers for q in refresher.queries)
        return max((refresh_of(query.definition).priority for query in queries), default=0)

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
                    queries, stream = self.plan.queries_of(name), self.plan.stream(group.spec.stream)
                    chosen = choose_value_index(index, group.spec, argument, queries, stream)
                counts.answer_from(chosen.spec if isinstance(chosen, IndexChoice) else None)

    def absorb_partial(self, partial: Partial) -> None:
        self._read_in[partial.synopsis].kept.absorb(partial)

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
                self._read_in[spec.name].begin(part.first.get(spec.stream))

    def answer(self, batch: int, harvest: Harvest, seconds: float | None = None) -> dict[str, list[pa.Table]]:
        """Move to the clock and give the answers of every boundary on the way, per query.

        Queries that are refreshed elastically answer the newest boundary, as far as `seconds` allow.
        """
        answers: dict[str, list[pa.Table]] = defaultdict(list)
        through = self.clock.through(self.streams)
        if through is not None and self.complete_through is not None and through <= self.complete_through:
            through = None
        if through is not None:
            for cluster in self._clusters:
                for name, table in answer_together(cluster, through):
                    answers[name].append(table)
            for name, table in self.refreshing.answer(through, self.complete_through, seconds):
                answers[name].append(table)
            for group in self.groups.values():
                group.settle(through)
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

    def held_from(self) -> dict[str, int]:
        """What came after these instants is known in full; synopses that are not named know all that came."""
        held = ((name, group.held_from) for name, group in self.groups.items())
        return {name: instant for name, instant in held if instant is not None}

    def lasts(self) -> dict[str, int | None]:
        """The boundaries last answered, of queries for which those need not be the last that have passed."""
        refreshers = (refresher for group in self.groups.values() for refresher in group.refreshers)
        return {
            query.name: refresher.last
            for refresher in refreshers
            if refresher.is_alone or refresher.last is None
            for query in refresher.queries
        }

    def hosts(self) -> Hosts:
        """The synopses that new queries may read."""
        through, held = self.complete_through, self.held_from()
        reach = {}
        if through is not None:
            reach = {name: through - held.get(name, _LONG_AGO) for name in self.groups}
        return Hosts(self.plan.synopses, reach)

    def restore(
        self,
        streams: Streams,
        firsts: Firsts,
        complete_through: int | None,
        held_from: Mapping[str, int],
        lasts: Mapping[str, int | None],
        refreshes: Saved,
    ) -> None:
        """Go on from a saved state, whose partials have been absorbed already."""
        for name, instant in held_from.items():
            if name in self.groups:
                self.groups[name].held_from = instant
        self.streams = dict(streams)
        self.complete_through = complete_through
        self._set_firsts(firsts)
        if complete_through is not None:
            reached = Reached(complete_through, lasts, refreshes.keys())
            for group in self.groups.values():
                group.go_on(reached)
            for cluster in self._clusters:
                catch_up_together(cluster, reached)
            self.refreshing.change(self.groups.values(), self.plan)
            self.refreshing.resume(refreshes, complete_through)

    def _shared(self) -> dict[str, Shared]:
        """What queries share, made out when it is first asked for."""
        if self._known_shared is None:
            self._known_shared = shared_of(self.plan, self.plan.joins)
        return self._known_shared

    def refreshed(self, now: float, live: Set[str]) -> dict[str, Refreshed]:
        """How periodic queries are refreshed; `now` is the clock on the wall, by which `live` streams go."""
        through, elastic = self.complete_through, self.refreshing.reported()
        found = {}
        for query in self.plan.queries:
            known = elastic.get(query.name) or exact_fares(query.window.slide, through)
            is_behind = query.select.stream in live and known.at is not None
            behind = now - (known.at or 0) / 1e6 if is_behind else None
            found[query.name] = replace(known, behind=behind, shared=self._shared()[query.name])
        for reader in (reader for join in self.plan.joins for reader in join.spec.readers):
            known = exact_fares(reader.slide, through)
            is_behind = known.at is not None and live >= set(self.plan.sources_of(reader.queries[0]))
            behind = now - (known.at or 0) / 1e6 if is_behind else None
            for name in reader.queries:
                found[name] = replace(known, behind=behind, shared=self._shared()[name])
        return found

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
        behind = self.state_behind
        for query in self.plan.queries:
            plan, held = query.definition.plan, behind[query.synopsis]
            rows = self.streams[query.select.stream].counts.accepted
            found[query.name] = {plan: Measured(answered[query.name])}
            for node in plan.walk():
                if isinstance(node, Stream):
                    found[query.name][node] = Measured(rows)
                elif isinstance(node, Window):
                    found[query.name][node] = Measured(rows, 0, held.rows, held.bytes)
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
    def state_behind(self) -> dict[str, Held]:
        """What each synopsis holds, with those that it is put together from."""
        held = self.synopses
        bases = {name: dict.fromkeys((name, *group.spec.bases)) for name, group in self.groups.items()}
        return {name: sum((held[base] for base in bases[name]), Held()) for name in self.groups}

    @property
    def live_rows(self) -> int:
        """Rows of state that synopses and operators hold."""
        rows = sum(group.synopsis.live_rows for group in self.groups.values())
        return rows + sum(part.continuous.state_rows for part in self.parts.values())
