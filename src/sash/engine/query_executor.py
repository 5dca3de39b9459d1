"""The query executor: the driver's side of a run. Chunk results go in, answers come out.

It keeps how far each stream has come, and the parts of the run with what their queries last answered. It
knows no Spark: both runtimes feed it, so they answer alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyarrow as pa

from sash.engine.batch_result import BatchResult
from sash.engine.durability.operator_state import StateFile
from sash.engine.ingest.watermarks import Clock, Streams, StreamState, by_stream, moved_on
from sash.engine.observe.report import DRIVER, AnswerRecord, Held, QueryRefreshStats
from sash.engine.periodic.groups import QueryGroup, Reached
from sash.engine.periodic.partitioned import PartitionedResult
from sash.engine.periodic.refreshing import Answered, Refreshing, Saved, exact_fares, join_fares
from sash.engine.periodic.synopsis_set import Firsts, Readers, SynopsisSet
from sash.engine.starts import begins_in, whole_of, wholes_in
from sash.engine.streaming_job import StreamingJob
from sash.lang.algebra import Node, Stream, Window
from sash.lang.bound import QueryDefinition, StreamDefinition
from sash.operators.build import guests_of
from sash.operators.delta import Delta
from sash.operators.preaggregate import Partial
from sash.plan.explain.tree import Measured
from sash.plan.join_guests import NO_JOINS, JoinGuest, JoinHosts
from sash.plan.join_synopses import SharedJoin, readers_in
from sash.plan.periodic import Hosts, PeriodicPlan
from sash.plan.progress import tells_progress
from sash.plan.run_plan import united
from sash.plan.sketches import error_bounds
from sash.sharing.of_plan import Shared, shared_of
from sash.synopses.changes import merged

_LONG_AGO = -(1 << 62)


class QueryExecutor:
    """`scans` says under which name the scan of a part is done."""

    def __init__(self, parts: Iterable[StreamingJob] = (), refreshing: Refreshing | None = None) -> None:
        self.refreshing = refreshing or Refreshing()
        self.kept = SynopsisSet(self.refreshing.is_elastic)
        # What partitions hold of the synopses that they have, and what they have chosen.
        self._elsewhere: dict[int, PartitionedResult] = {}
        # What came of a stream by this instant no query waits for any more; rows are kept from it on back.
        self.passed: dict[str, int] = {}
        # How far parts, and queries that pass boundaries over, were before the last batch.
        self._before: tuple[Mapping[int, int | None], Mapping[str, Answered]] = {}, {}
        # Of those queries: after which boundary they passed some over before their last answer.
        self._skipped: dict[str, int | None] = {}
        parts = tuple(parts)
        streams = {stream.name: stream for part in parts for stream in part.plan.streams}
        self.change(parts, streams.values())
        self.streams = {name: StreamState() for name in streams}

    @property
    def groups(self) -> dict[str, QueryGroup]:
        return self.kept.groups

    @property
    def complete_through(self) -> int | None:
        """The least watermark of all queries; None before each has one."""
        throughs = [part.through for part in self.parts.values() if part.sources]
        return min((t for t in throughs if t is not None), default=None) if None not in throughs else None

    @property
    def watermarks(self) -> dict[str, int | None]:
        """How far each query has been answered."""
        return {query.name: part.through for part in self.parts.values() for query in part.definitions}

    def _by_stream(self, throughs: Mapping[int, int | None]) -> dict[str, int]:
        synopses = {number: [s.stream for s in part.plan.synopses] for number, part in self.parts.items()}
        return by_stream(synopses, throughs)

    @property
    def _reached(self) -> dict[str, int]:
        """How far the queries that synopses answer have come, by stream."""
        return self._by_stream({number: part.through for number, part in self.parts.items()})

    def through(self, sources: Iterable[str]) -> int | None:
        """The watermark of who reads these streams."""
        return self.clock.through(self.streams, tuple(sources))

    def change(self, parts: Iterable[StreamingJob], streams: Iterable[StreamDefinition]) -> None:
        """Go on with these parts and streams; `self.streams` must be set to how far those are."""
        self.parts = {part.number: part for part in parts}
        plan, self.scans = united([part.plan for part in self.parts.values()])
        self.plan = replace(plan, streams=tuple(streams))
        self.clock = Clock.of(self.plan, [feed for part in self.parts.values() for feed in part.plan.feeds])
        self.kept.change(self.plan, self.readers)
        if not self.kept.divided:
            self._elsewhere = {}
        self.refreshing.change(self.kept.kept_here.values(), self.plan)
        self._known_shared: dict[str, Shared] | None = None
        telling = (query.name for query in self.plan.definitions if tells_progress(query))
        self._telling = frozenset(telling)

    @property
    def readers(self) -> tuple[Readers, ...]:
        """The parts as synopses know them."""
        return tuple(Readers.of(part) for part in self.parts.values())

    def divide(self, groups: Mapping[str, str]) -> None:
        """Some groups, whole clusters, are in partitions from now on; with the reasons."""
        self.kept.divide(groups)
        self.refreshing.change(self.kept.kept_here.values(), self.plan)

    def absorb_partial(self, partial: Partial) -> None:
        self.kept.absorb(partial)

    def absorb(self, batch_result: BatchResult, streams: Streams, firsts: Firsts) -> None:
        """Take in a batch, whose results are in order of arrival; the rest is how far it brings us."""
        for result in batch_result.results:
            for partial in result.partials:
                self.absorb_partial(partial)
        for number, part in self.parts.items():
            part.continuous.count(batch_result.of(number).tallies)
        for given in batch_result.divided:
            self._elsewhere[given.partition] = replace(given, answers={})
        self._set_firsts(firsts)
        self.streams = dict(streams)

    def seal(self) -> None:
        """Let what new synopses have of complete panes be read."""
        self.kept.seal(self._reached)

    def _set_firsts(self, firsts: Firsts) -> None:
        for number, part in self.parts.items():
            part.first = firsts[number]
        self.kept.begin(firsts)

    def answer(
        self, batch: int, batch_result: BatchResult, seconds: float | None = None
    ) -> Iterator[tuple[str, pa.Table]]:
        """Move to the clock and give the answers of every boundary on the way, those of a query in order.

        Queries that are refreshed elastically answer the newest boundary, as far as `seconds` allow.
        """
        self._before = {part.number: part.through for part in self.parts.values()}, self.refreshing.standing()
        moved = {
            number: moved_on(part.through, self.through(part.sources)) for number, part in self.parts.items()
        }
        before, streams = self._reached, self._by_stream(moved)
        yield from self.kept.answer(streams)
        yield from _put_together(self.plan, batch_result.divided)
        yield from self.refreshing.answer(streams, before, seconds)
        self.kept.settle(streams)
        for number, part in self.parts.items():
            if not part.continuous.is_idle:
                given = batch_result.of(number)
                first = {**self.clock.firsts(part.first), **given.first}
                yield from part.continuous.answer(batch, given.rows, first, moved[number])
        for number, part in self.parts.items():
            if part.continuous.has_guests:
                told, first = self._told(part.plan.guests)
                first.update(begins_in(part.first))
                yield from part.continuous.answer_guests(batch, told, first, moved[number])
        for number, instant in moved.items():
            if instant is not None:
                self.parts[number].through = instant
        self._pass()
        for name, now in self.refreshing.standing().items():
            if now.last != self._before[1][name].last:
                self._skipped[name] = now.skipped_after(self._before[1][name])

    def _told(self, guests: Iterable[JoinGuest]) -> tuple[dict[str, list[Delta]], dict[str, int]]:
        """What join synopses told guests in the last batch, and when their streams began, by synopsis."""
        readers: dict[str, list[int]] = defaultdict(list)
        for guest in guests:
            readers[guest.spec.name].append(guest.reader.number)
        told: dict[str, list[Delta]] = {}
        firsts: dict[str, int] = {}
        for part in self.parts.values():
            for join in (join for join in part.plan.joins if join.name in readers):
                tag, numbers = len(join.spec.keys), readers[join.name]
                given = part.continuous.told.get(guests_of(join.name), [])
                told[join.name] = [d.filter(np.isin(np.asarray(d.columns[tag]), numbers)) for d in given]
                begun = [part.first[name] for name in join.join.streams if name in part.first]
                firsts.update({join.name: min(begun)} if begun else {})
        return told, firsts

    def horizons(self, throughs: Mapping[int, int | None] | None = None) -> dict[str, int | None]:
        """Panes of each synopsis that end by this instant are in no window any more.

        `throughs` are the watermarks of parts, those answered so far if left out.
        """
        return self.kept.horizons(self._reached if throughs is None else self._by_stream(throughs))

    def _pass(self) -> None:
        """Note which instant of each stream every query which reads it has passed."""
        passed: dict[str, int] = {}
        for name in self.streams:
            readers = [part.through for part in self.parts.values() if name in part.sources]
            known = [through for through in readers or [self.through([name])] if through is not None]
            before = self.passed.get(name)
            if known and len(known) >= len(readers):
                passed[name] = min(known) if before is None else max(before, min(known))
            elif before is not None:
                passed[name] = before
        self.passed = passed

    def held_from(self) -> dict[str, int]:
        """What came after these instants is known in full; synopses that are not named know all that came."""
        held = ((name, group.held_from) for name, group in self.groups.items())
        return {name: instant for name, instant in held if instant is not None}

    def lasts(self) -> dict[str, int | None]:
        """The boundaries last answered, of queries for which those need not be the last that have passed."""
        here = self.kept.kept_here.values()
        refreshers = (refresher for group in here for refresher in group.refreshers)
        return {
            query.name: refresher.last
            for refresher in refreshers
            if refresher.is_alone or refresher.last is None
            for query in refresher.queries
        }

    def hosts(self) -> Hosts:
        """The synopses that new queries may read."""
        held = self.held_from()
        reach = {
            name: through - held.get(name, _LONG_AGO)
            for name, group in self.groups.items()
            if (through := self.through([group.spec.stream])) is not None
        }
        return Hosts(self.plan.synopses, reach)

    def join_hosts(self, sources: frozenset[str]) -> JoinHosts:
        """The join synopses that new queries over these streams may read."""
        parts = [p for p in self.parts.values() if sources.issuperset(p.sources) and not p.plan.feeds]
        since: dict[str, int] = {}
        joins: list[SharedJoin] = []
        for part in (part for part in parts if len(part.sources) == len(sources)):
            joins.extend(part.plan.joins)
            for join in part.plan.joins:
                known = [part.complete_since[n] for n in join.join.streams if n in part.complete_since]
                since.update({join.name: max(known)} if known else {})
        return JoinHosts(tuple(joins), self.through(sources), complete_since=since) if joins else NO_JOINS

    def units(self) -> dict[str, int]:
        """The microseconds in an instant of each query."""
        return {name: unit for part in self.parts.values() for name, unit in self._units(part).items()}

    def _units(self, part: StreamingJob) -> dict[str, int]:
        units = {stream.name: stream.unit if stream.has_integer_time else 1 for stream in part.plan.streams}
        found = {query.name: units[query.select.stream] for query in part.plan.queries}
        for query in part.plan.continuous:
            found[query.name] = query.unit if query.has_integer_time else 1
        return found

    def records(self) -> dict[str, AnswerRecord]:
        """What answers of the instant say of themselves to which queries have come."""
        return {query.name: record for query, record, _ in self._recorded(self._skipped)}

    def progressed(self) -> dict[str, AnswerRecord]:
        """What queries say after a batch that tell their progress, if their time has moved in it."""
        if not self._telling:
            return {}
        throughs, standing = self._before
        found = {}
        passed = self._passed_over()
        for query, record, (part, unit) in self._recorded(passed, self._telling):
            through, own = throughs[part.number], standing.get(query.name)
            before = through if own is None else own.through(through)
            if before is None or before // unit < record.instant:
                found[query.name] = replace(record, is_progress=True)
        return found

    def skipped_after(self) -> dict[str, int]:
        """Of queries that have passed boundaries over in the last batch: after which one, in their unit."""
        units = self.units()
        return {name: at // units[name] for name, at in self._passed_over().items() if at is not None}

    def _passed_over(self) -> dict[str, int | None]:
        """The same in microseconds."""
        _, before = self._before
        return {name: now.skipped_after(before[name]) for name, now in self.refreshing.standing().items()}

    def _recorded(
        self, skipped: Mapping[str, int | None], queries: Collection[str] | None = None
    ) -> Iterator[tuple[QueryDefinition, AnswerRecord, tuple[StreamingJob, int]]]:
        """The records of queries (None: of all) that have been answered, with their parts and units."""
        wholes, standing = self.whole_from(), self.refreshing.standing()
        for part in self.parts.values():
            units = self._units(part)
            for query in part.plan.definitions:
                name, own = query.name, standing.get(query.name)
                instant = part.through if own is None else own.through(part.through)
                if instant is None or (queries is not None and name not in queries):
                    continue
                unit, gap = units[name], skipped.get(name)
                record = AnswerRecord.of(
                    instant // unit,
                    wholes.get(name),
                    _bounds(query.plan),
                    is_partial=whole_of(name) in part.first,
                    skipped_after=None if gap is None else gap // unit,
                )
                yield query, record, (part, unit)

    def once_records(self) -> dict[str, AnswerRecord]:
        """What the answers of one-time queries say of themselves."""
        found = {}
        for part in self.parts.values():
            wholes = wholes_in(part.first)
            for query in part.plan.one_time if part.through is not None else ():
                assert part.through is not None
                unit = query.unit if query.has_integer_time else 1
                whole, is_partial = wholes.get(query.name), whole_of(query.name) in part.first
                found[query.name] = AnswerRecord.of(
                    part.through // unit,
                    None if whole is None else -(-whole // unit),
                    _bounds(query.definition.plan),
                    is_partial=is_partial,
                )
        return found

    def whole_from(self) -> dict[str, int]:
        """By query: from when on its windows are whole, in the unit of its time; without those that wait.

        Queries of the first program are whole from the first row of their streams.
        """
        found: dict[str, int] = {}
        for part in self.parts.values():
            wholes, sources = wholes_in(part.first), part.plan.sources
            for name, unit in self._units(part).items():
                firsts = [part.first[source] for source in sources[name] if source in part.first]
                if part.has_joined:
                    firsts = [wholes[name]] if name in wholes else []
                if firsts:
                    found[name] = -(-min(firsts) // unit)
        return found

    def restore(
        self,
        streams: Streams,
        firsts: Firsts,
        throughs: Mapping[int, int | None],
        passed: Mapping[str, int],
        held_from: Mapping[str, int],
        lasts: Mapping[str, int | None],
        refreshes: Saved,
    ) -> None:
        """Go on from a saved state, whose partials have been absorbed already."""
        for name, instant in held_from.items():
            if name in self.groups:
                self.groups[name].held_from = instant
        self.streams = dict(streams)
        for number, part in self.parts.items():
            part.through = throughs[number]
        self.passed = dict(passed)
        self._set_firsts(firsts)
        reached = self._reached
        self.kept.catch_up(Reached(reached, lasts, refreshes.keys()))
        self.refreshing.change(self.kept.kept_here.values(), self.plan)
        self.refreshing.resume(refreshes, reached)

    def _shared(self) -> dict[str, Shared]:
        """What queries share, made out when it is first asked for."""
        if self._known_shared is None:
            self._known_shared = shared_of(self.plan, self.plan.joins)
        return self._known_shared

    def refreshed(self, now: float, live: Set[str]) -> dict[str, QueryRefreshStats]:
        """How periodic queries are refreshed; `now` is the clock on the wall, by which `live` streams go."""
        elastic = self.refreshing.reported()
        watermarks = self.watermarks
        held, shared = self.state_behind(), self._shared()
        found = {}
        for query in self.plan.queries:
            known = elastic.get(query.name) or exact_fares(query.window.slide, watermarks[query.name])
            is_behind = query.select.stream in live and known.at is not None
            behind = now - (known.at or 0) / 1e6 if is_behind else None
            found[query.name] = replace(
                known,
                behind=behind,
                shared=shared[query.name],
                held=held[query.synopsis],
                partitions=len(self._elsewhere) if query.synopsis in self.kept.divided else 0,
            )
        for name, (join, reader) in readers_in(self.plan.joins).items():
            known = join_fares(join, reader, watermarks[name])
            is_behind = known.at is not None and live >= set(join.join.streams)
            behind = now - (known.at or 0) / 1e6 if is_behind else None
            found[name] = replace(known, behind=behind, shared=shared[name])
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
        behind = self.state_behind()
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
        """What each partition holds; synopses are with the driver, but for those that are divided."""
        held: dict[int, Held] = {DRIVER: sum(self.kept.held.values(), Held())}
        for partition, given in self._elsewhere.items():
            held[partition] = sum(given.held.values(), Held())
        for part in self.parts.values():
            for partition, holds in part.continuous.state.items():
                held[partition] = held.get(partition, Held()) + holds
        return held

    def synopses(self, partition: int | None = None) -> dict[str, Held]:
        """What each synopsis holds in a partition, or with the driver; None: everywhere."""
        if partition is not None:
            there = self._elsewhere.get(partition)
            held = self.kept.held if partition == DRIVER else {} if there is None else there.held
            return {name: held.get(name, Held()) for name in self.groups}
        places = [self.kept.held, *(given.held for given in self._elsewhere.values())]
        return {name: sum((held.get(name, Held()) for held in places), Held()) for name in self.groups}

    def state_behind(self, partition: int | None = None) -> dict[str, Held]:
        """What each synopsis holds, with those that it is put together from."""
        held = self.synopses(partition)
        bases = {name: dict.fromkeys((name, *group.spec.bases)) for name, group in self.groups.items()}
        return {name: sum((held[base] for base in bases[name]), Held()) for name in self.groups}

    def notes(self, synopsis: str) -> tuple[str, ...]:
        """What was chosen for a synopsis, and why."""
        why = self.kept.divided.get(synopsis)
        if why is None:
            return self.groups[synopsis].notes
        where = f"{synopsis} is divided among {len(self._elsewhere)} partitions: {why}"
        # Each has chosen by itself; the fullest knows most of the stream.
        given = sorted(self._elsewhere.values(), key=lambda each: each.held.get(synopsis, Held()).rows)
        return where, *(given[-1].notes.get(synopsis, ()) if given else ())

    @property
    def live_rows(self) -> int:
        """Rows of state that synopses and operators hold."""
        rows = sum(held.rows for held in self.synopses().values())
        return rows + sum(part.continuous.state_rows for part in self.parts.values())


@lru_cache(maxsize=16_384)
def _bounds(plan: Node) -> Mapping[str, str]:
    return error_bounds(plan)


def _put_together(plan: PeriodicPlan, divided: Sequence[PartitionedResult]) -> Iterator[tuple[str, pa.Table]]:
    """The answers of queries whose groups are in partitions, of what those have given."""
    given: dict[str, list[pa.Table]] = defaultdict(list)
    for each in divided:
        for name, tables in each.answers.items():
            given[name].extend(tables)
    for query in plan.queries:
        if query.name in given:
            yield query.name, merged(query.select, given[query.name])
