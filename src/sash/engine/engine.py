"""The engine: what both runtimes do with a batch, from the feed to the commit.

A runtime brings a way to run chunks (in Spark tasks, or right here) and the loop that drives batches.
Everything else is here, in two steps for every batch. `take` runs the chunks, and once more those that
judged a late row wrongly. `_complete` absorbs the results, answers, writes answers and side rows, saves the
partials and commits; a batch is either committed as a whole or not at all. Where `overlap` is set the
second step runs in a thread of its own while the tasks of the next batch run, always one batch at a time
and in order, so a crash loses at most two batches of work, which the feed remembers.

Between two batches the queries may become others (`change`): those that stay keep their state, and new ones
are a part of their own (`streaming_job.py`). The same happens where a run goes on from the checkpoint of a
program with other queries. A stream that a query has read stays in the run as long as it is in the program.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from sash.connectors.sources import Source, open_source
from sash.engine.admission import admit_number, admit_state
from sash.engine.batch_result import BatchResult
from sash.engine.continuous.partitions import (
    MAIL,
    JobTurn,
    Routes,
    Turn,
    cell_name,
    first_files,
    part_of,
    routes,
)
from sash.engine.durability.checkpoint import CELLS, FEED, Checkpoint, JobState, Manifest
from sash.engine.durability.feed_log import FeedLog
from sash.engine.durability.files import translate_os_errors
from sash.engine.durability.operator_state import StateFile
from sash.engine.durability.pane_files import PANES, PaneFile, PaneFolder, still_needed
from sash.engine.durability.plan_store import StoredPlan, fingerprint
from sash.engine.ingest.dead_letters import DeadLetters
from sash.engine.ingest.feed import Entry, Feeder, identity
from sash.engine.ingest.first_stage import ChunkResult, largest_jump
from sash.engine.ingest.loss import LossWatch, late_slacks
from sash.engine.ingest.pacing import FIRST_ROWS, BatchSize
from sash.engine.ingest.relations import read_relations
from sash.engine.ingest.retained_files import FIRST, Keep
from sash.engine.ingest.retention import Retention
from sash.engine.ingest.scans import scan_rows
from sash.engine.ingest.watermarks import StreamState, advanced, begun, moved_on
from sash.engine.observe.limits import Guard, Limits, default_state
from sash.engine.observe.memory import resident_bytes
from sash.engine.observe.meters import Meters
from sash.engine.observe.report import AnswerRecord, BatchReport, Measures, Parts, Reach, Summary
from sash.engine.observe.stopwatch import Stopwatch
from sash.engine.options import DEFAULT_BATCH_ROWS, DEFAULT_TRIGGERS, Options
from sash.engine.outputs import BatchAnswers, Outputs, check_places
from sash.engine.periodic.groups import latest
from sash.engine.periodic.partitioned import PartitionedPlan, PartitionedTurn
from sash.engine.periodic.refreshing import Refreshing
from sash.engine.periodic.repartitioning import groups_to_repartition
from sash.engine.periodic.synopsis_set import Firsts
from sash.engine.plan_diff import PlanDiff, difference, only, refreshed_as_in, refuse_another_program
from sash.engine.query_executor import QueryExecutor
from sash.engine.reads.final_queries import answered_once, check_questions
from sash.engine.reads.snapshot_registry import SnapshotRegistry
from sash.engine.reads.synopsis_read import KeptPanes
from sash.engine.run_chunks import RunBatch, run_exactly
from sash.engine.starts import RowsKnown, awaited, gone_on, starts_of
from sash.engine.stopping import Abandoned, keep_on
from sash.engine.streaming_job import StreamingJob, drop_queries
from sash.errors import InternalError, SashError, TimeJump
from sash.lang import Program
from sash.lang.bound import QueryDefinition, StreamDefinition
from sash.operators.delta import Delta
from sash.operators.preaggregate import Partial, preaggregate
from sash.plan.digests import digest
from sash.plan.join_synopses import SharedJoin
from sash.plan.periodic import Hosts, SynopsisSpec
from sash.plan.placement import MAX_DRIVER_GROUPS, state_of
from sash.plan.refresh import ELASTIC
from sash.plan.run_plan import RunPlan, plan_parts, standing_in, whole_of
from sash.scheduling import POLICIES


class Engine:
    def __init__(
        self,
        program: Program,
        options: Options,
        runtime: str,
        cores: int,
        *,
        state: Path | None = None,
        overlap: bool = False,
        partitions: int | None = None,
        look: Callable[[], None] = keep_on,
    ) -> None:
        """`partitions`: among so many are operators divided; None: they all run here.

        `state` is where a run without a checkpoint may keep files while it lasts. `look` is called often
        while a batch is worked on, and may raise Abandoned.
        """
        self.look = look
        self._is_abandoned = False
        self.options = options
        self.runtime = runtime
        self.partitions = partitions
        self._state = options.checkpoint or state
        self._program = program
        self._worker = ThreadPoolExecutor(1, "sash-answers") if overlap else None
        # What is wrong with the program is told before anything is touched.
        self._planned = plan_parts(program)
        planned = whole_of(self._planned)
        check_questions(program, planned.streams)
        refreshing = Refreshing(POLICIES[options.policy], usual=options.refresh)
        self.executor = QueryExecutor(refreshing=refreshing)
        self._admit(planned, program, len(planned.definitions))
        self._sources = {stream.name: self._open_source(stream) for stream in planned.streams}
        durable = options.checkpoint is not None
        self.outputs = Outputs(options.base_dir, durable=durable, in_background=overlap, look=look)
        self.outputs.add(self.outputs.prepare(planned))
        check_places(planned.definitions, self._sources, options.base_dir)
        self._checkpoint = None
        if options.checkpoint is not None:
            self._checkpoint = Checkpoint(options.checkpoint, runtime, options.base_dir)
        dead_letters = options.dead_letters or (options.checkpoint or options.base_dir) / "dead-letters"
        self._dead_letters = DeadLetters(dead_letters, durable=durable)
        if options.dead_letters is not None or options.checkpoint is None:
            self._dead_letters.check()
        self._feeder = _feeder(options, runtime, cores)
        self._meters = Meters(self.executor)
        self._live: set[str] = set()
        self._losses = LossWatch(options.monitor.warning, options.fail_on_rejects)
        # How far the last commit had come.
        self._reached = Reach()
        # The seconds that writing and committing took.
        self._rest = 0.0
        self._started = time.monotonic()
        self._guard: Guard | None = None
        self._manifest: Manifest | None = None
        self._feed_log: FeedLog | None = None
        # How many parts the run has had.
        self._made = 0
        self._retention = Retention(self._state, durable=durable)
        # How far things are with the last batch taken; the executor may be one batch behind.
        self.streams: Mapping[str, StreamState] = {}
        self.firsts: Firsts = {}
        self.throughs: Mapping[int, int | None] = {}
        # The state of the operators that run in tasks, after the last batch taken.
        self.cells: dict[str, tuple[StateFile, ...]] = {}
        # The partials of live panes; None: nobody can go on from them.
        self._panes = None if self._checkpoint is None else self._checkpoint.panes
        if self._panes is None and partitions is not None and self._state is not None:
            self._panes = PaneFolder(self._state / PANES, durable=False)
        # Without a checkpoint they cost much, and are needed only where groupings are to leave the driver.
        self._has_panes = self._checkpoint is not None or (
            options.max_driver_groups != MAX_DRIVER_GROUPS
            or options.max_state is not None
            or any(state_of(query) is not None for query in program.queries)
        )
        # Of synopses in partitions: the version of their plan, and their files after the last batch taken.
        self.version = 0
        self._divided_files: list[PaneFile] = []
        # Whether groupings may have become too large for the driver.
        self._is_crowded = True
        self.routes = Routes((), 0)
        self._completing: Future[None] | None = None
        # What the next batch reads, if that is decided.
        self.decided: Entry | None = None
        self.taken = -1
        self.committed = -1
        self._is_last_taken = False

    @property
    def plan(self) -> RunPlan:
        """What a batch reads and computes, for all parts together."""
        return self.executor.plan

    @property
    def is_finished(self) -> bool:
        """Whether the last batch has been taken, and nothing was abandoned: it may be completed later."""
        return self._is_last_taken and not self._is_abandoned

    @property
    def registry(self) -> SnapshotRegistry | None:
        """The committed states, for questions."""
        return self._retention.registry

    @property
    def cells_directory(self) -> Path:
        """Where operators that run in tasks have their state."""
        assert self._state is not None
        return self._state / CELLS

    @property
    def mail_directory(self) -> Path:
        """Where processes of this machine post what is large, while a batch lasts."""
        assert self._state is not None
        return self._state / MAIL

    @property
    def panes_directory(self) -> Path:
        """Where synopses in partitions have their state."""
        assert self._panes is not None
        return self._panes.directory

    def divided_plan(self) -> PartitionedPlan:
        """What partitions must know of the synopses that they have, as of `version`."""
        executor = self.executor
        return PartitionedPlan.of(self.plan, executor.readers, executor.kept.divided, self._program.indexes)

    def _open_source(self, stream: StreamDefinition) -> Source:
        source = open_source(stream, self.options.base_dir)
        source.check()
        return source

    # ------------------------------------------------------------------ the start

    def load(self) -> None:
        """Take up the state of the checkpoint, if it has a committed batch. Outputs stay as they are."""
        self._manifest = None if self._checkpoint is None else self._checkpoint.open()
        parts = [] if self._manifest is None else self._planned_before(self._manifest)
        change = difference(parts, self._program)
        if self._checkpoint is not None:
            if self._manifest is not None:
                refuse_another_program(self._checkpoint.directory, change)
            # From here on what is there is changed.
            self._checkpoint.begin(self._manifest)
        if self._checkpoint is not None or self.runtime == "spark":
            assert self._state is not None
            self._feed_log = FeedLog(self._state / FEED)
        start = -1 if self._manifest is None else self._manifest.batch - 1
        self._retention.begin(start, self.options)
        if self.partitions is not None:
            for directory in (self.cells_directory, self.panes_directory):
                with translate_os_errors(directory, "make"):
                    directory.mkdir(exist_ok=True)
        if self._manifest is None:
            self._set([])
            self._add(self._planned, self._read_relations(self._planned), {})
        else:
            self._resume(self._manifest, parts, change)
            if self._is_last_taken:
                # Nothing is left to do but to see that what was done is still there.
                self.outputs.verify(self._manifest.sinks)
                self._dead_letters.verify(self._manifest.dead_letters)
        self.outputs.lock()
        self._reached = self._now_reached()
        self.options.monitor.started(
            {query.name: query.sink for query in self.plan.definitions},
            {stream.name: stream.source for stream in self.plan.streams},
        )
        if self._checkpoint is not None:
            for name in self.outputs.streams:
                self.options.monitor.warning(
                    f"the output of query {name} cannot be taken back: after a restart rows may come twice"
                )

    def _planned_before(self, manifest: Manifest) -> list[StreamingJob]:
        """The parts of the run, planned as they were; CheckpointError if the state is of another plan."""
        assert self._checkpoint is not None
        # Operators stay divided as they were.
        self.partitions = manifest.partitions
        usual = {fingerprint(plan): plan for plan in self._planned}
        parts: list[StreamingJob] = []
        hosts: dict[str, SynopsisSpec] = {}
        joins: list[SharedJoin] = []
        for saved in manifest.parts:
            stored_plan = self._checkpoint.stored_plan(saved.number)
            plan = usual.get(stored_plan.digest) or stored_plan.plan(hosts, joins)
            plan = refreshed_as_in(self._program, plan)
            hosts.update({spec.name: spec for spec in plan.synopses})
            joins.extend(plan.joins)
            part = self._part(plan, saved.since, saved.complete_since)
            part.first = saved.first
            stored_plan.check(digest(part.continuous.outline()))
            parts.append(part)
        return drop_queries(parts, {saved.number: saved.dropped for saved in manifest.parts})

    def _resume(self, manifest: Manifest, parts: Sequence[StreamingJob], change: PlanDiff) -> None:
        assert self._checkpoint is not None
        parts = drop_queries(parts, change.gone)
        self.throughs = {saved.number: saved.through for saved in manifest.parts}
        positions = self._take_streams(manifest)
        self.firsts = {saved.number: saved.first for saved in manifest.parts}
        self.cells = dict(manifest.cells)
        self._made = manifest.made
        self.committed = self.taken = manifest.batch
        if self.partitions is not None:
            # Before they are read: they may be too large for the driver.
            self.executor.kept.divided = dict(manifest.divided)
        self._set(parts)
        here = self.executor.kept.kept_here
        specs = [spec for spec in self.plan.synopses if (spec.of or spec.name) in here]
        for partial in self._checkpoint.panes.partials(specs):
            self.executor.absorb_partial(partial)
        for part in parts:
            part.continuous.load(manifest.batch, manifest.cells)
        self.executor.restore(
            self.streams,
            self.firsts,
            self.throughs,
            manifest.passed,
            manifest.held_from,
            manifest.lasts,
            manifest.refreshes,
        )
        ended = {name for name, state in self.streams.items() if state.ended}
        self._feeder.resume(manifest.batch + 1, positions, ended, manifest.is_last)
        answered = {query.name: manifest.answered[query.name] for query in self.plan.definitions}
        self.outputs.answered.update(answered)
        for names in change.gone.values():
            told_of = f"query {', '.join(sorted(names))} is not in the program any more"
            self.options.monitor.warning(f"{told_of}: its state is dropped, what it has written stays")
        self._publish()
        if change.new:
            program, asked = only(self._program, change.new)
            plans = self._plan(program, asked)
            starts = self._starts(plans)
            self._set(drop_queries(parts, {}, plans))
            self._add(plans, self._read_relations(plans), starts)
            self._publish()
        self._is_last_taken = self._feeder.is_finished

    def _take_streams(self, manifest: Manifest) -> dict[str, Any]:
        """Go on with streams that are what they were; gives how far they are read.

        A name that has come to mean another source is that of a new stream, as where a run goes on.
        """
        same = {
            name
            for name in manifest.streams
            if name not in self._sources
            or manifest.sources.get(name) in (None, identity(self._sources[name].stream))
        }
        self.streams = {name: state for name, state in manifest.streams.items() if name in same}
        self._retention.files = [file for file in manifest.kept if file.stream in same]
        return {name: at for name, at in manifest.positions.items() if name in same}

    def _plan(self, program: Program, asked: tuple[QueryDefinition, ...]) -> tuple[RunPlan, ...]:
        """The plans of queries that come; what their operators refuse is refused now, before a change."""
        plans = plan_parts(program, self._made, asked, self._hosts(program), self.executor.join_hosts)
        for plan in plans:
            StreamingJob(plan, is_cut=self.partitions is not None).close()
        return plans

    def _part(self, plan: RunPlan, since: int | None, complete_since: Mapping[str, int]) -> StreamingJob:
        # Without a checkpoint nobody can go on from what is written here.
        directory = None if self._checkpoint is None else self._checkpoint.cells
        is_cut = self.partitions is not None
        return StreamingJob(
            plan, directory, is_cut=is_cut, since=since, complete_since=complete_since, look=self.look
        )

    def _read_relations(self, plans: Sequence[RunPlan]) -> dict[str, Delta]:
        """The rows of relations that are read once, before anything else."""
        return read_relations(plans, self.options.base_dir, self.options.given)

    def open_outputs(self) -> None:
        """Go on with the outputs where the checkpoint says, or replace them; the last step before batches."""
        self.outputs.open({} if self._manifest is None else self._manifest.sinks)
        self._dead_letters.open(self._sources, {} if self._manifest is None else self._manifest.dead_letters)
        self._retention.prepare(self.keep(self.taken), self.plan.streams)

    # ------------------------------------------------------------------ other queries

    def change(self, program: Program) -> None:
        """Go on with the queries of this program, from the next batch; on a failure with those of before."""
        self.settle()
        change = difference(self.executor.parts.values(), program)
        added, asked = only(program, change.new)
        plans = self._plan(added, asked)
        plan, starts = whole_of(plans), self._starts(plans)
        self._admit(plan, program, len(standing_in(program)))
        here = {name: source for name, source in self._sources.items() if self._stays(source, program)}
        opened = {s.name: self._open_source(s) for s in plan.streams if s.name not in here}
        sinks = self.outputs.prepare(plan)
        gone = {name for names in change.gone.values() for name in names}
        staying = [query for query in self.plan.definitions if query.name not in gone]
        check_places((*staying, *plan.definitions), {**here, **opened}, self.options.base_dir)
        relations = self._read_relations(plans)
        with ExitStack() as undo:
            new = [sink for name, sink in sinks.items() if name not in gone]
            for sink in new:
                undo.callback(sink.close)
                sink.lock()
            for sink in new:
                sink.open(None)
            undo.pop_all()
        # Nothing of this can be refused any more, but for the output of a query that is made anew.
        for name in sorted(gone):
            self.outputs.drop(name)
            if name in sinks:
                sinks[name].open(None)
        self.outputs.add(sinks)
        self.outputs.migrate(program.archives)
        self._sources = {**here, **opened}
        self.streams = {name: state for name, state in self.streams.items() if name in here}
        self._program = program
        with self._turn:
            self._set(drop_queries(list(self.executor.parts.values()), change.gone, plans))
            if change.new:
                self._add(plans, relations, starts)
            if self.committed >= 0:
                self._publish()
        self._retention.prepare(self.keep(self.taken), self.plan.streams)

    @property
    def _turn(self) -> AbstractContextManager[None]:
        """While the synopses are not those of the last commit: no question reads them."""
        return nullcontext() if self.registry is None else self.registry.turns

    def _starts(self, plans: Sequence[RunPlan]) -> dict[int, dict[str, int]]:
        """When queries begin to answer that come now, by part."""
        return {plan.number: self._starts_of(plan) for plan in plans}

    def _starts_of(self, plan: RunPlan) -> dict[str, int]:
        groups, since = self.executor.groups, self._complete_since(plan)
        there = [stream.name for stream in plan.streams if stream.name in self.streams]
        came = self.executor.clock.through(self.streams, there) if there else None
        return starts_of(
            plan,
            came,
            since,
            lambda synopsis: groups[synopsis].complete_since,
            lambda stream: self._rows_known(plan.stream(stream), since[stream], came),
        )

    def _rows_known(self, stream: StreamDefinition, since: int, came: int | None) -> RowsKnown:
        """How many rows of a stream a query knows that comes now."""
        given = self._retention.instants_of(stream)
        instants, accepted = given[given > since], self.streams[stream.name].counts.accepted
        is_complete = came is not None and came >= since
        before = int((instants <= came).sum()) if came is not None else 0
        first = accepted - len(instants) if is_complete else None
        return RowsKnown(before, len(instants), accepted - len(given), first)

    def _hosts(self, program: Program) -> Hosts:
        """The synopses that queries may read that come now."""
        kept = {}
        for stream in program.streams:
            through = self.executor.through([stream.name]) if stream.name in self.streams else None
            if stream.retain is not None and through is not None:
                since = self._retention.complete_since(stream)
                kept[stream.name] = through - (FIRST if since is None else since)
        return replace(self.executor.hosts(), kept=kept)

    def _complete_since(self, plan: RunPlan) -> dict[str, int]:
        """Since when queries that come now know all rows of their streams; not named: they know all."""
        found = {}
        for stream in plan.streams:
            since = None if stream.name in plan.feeds else self._retention.complete_since(stream)
            if since is not None:
                found[stream.name] = since
        return found

    def _stays(self, source: Source, program: Program) -> bool:
        """Whether a stream stays in the run; those that are feeds of relations go with their part."""
        return source.stream in program.streams or source.stream.name in self.executor.clock.feeds

    def _add(
        self,
        plans: Sequence[RunPlan],
        relations: Mapping[str, Delta],
        starts: Mapping[int, Mapping[str, int]],
    ) -> None:
        """Take new queries in; `starts` is when they begin, by part."""
        hosts = [spec.name for spec in self.plan.synopses]
        since = self._join(plans)
        for plan in plans:
            part = self._part(plan, since[plan.number], self._complete_since(plan))
            if self._checkpoint is not None:
                operators = digest(part.continuous.outline())
                self._checkpoint.save_recipe(StoredPlan.of(plan, self._program, hosts, operators))
            self._made = part.number + 1
            known = {s.name: self.streams[s.name].first for s in plan.streams if s.name in self.streams}
            there = {name: first for name, first in known.items() if first is not None}
            part.first = {**starts.get(part.number, {}), **there}
            self.firsts = {**self.firsts, part.number: part.first}
            self.throughs = {**self.throughs, part.number: part.through}
            self._set([*self.executor.parts.values(), part])
            self._begin(part, relations)

    def _join(self, plans: Sequence[RunPlan]) -> dict[int, int | None]:
        """How far time has come for each plan, with the streams that the run reads already.

        Those that are new to the run have come as far as those that they are read with.
        """
        known = dict(self.streams)
        since: dict[int, int | None] = {}
        for plan in plans:
            there = [stream.name for stream in plan.streams if stream.name in known]
            since[plan.number] = self.executor.clock.through(known, there) if there else None
            for stream in plan.streams:
                if stream.name not in known and stream.name not in plan.feeds:
                    before = self.streams.get(stream.name, StreamState()).joined
                    joined = latest(before, since[plan.number])
                    self.streams = {**self.streams, stream.name: StreamState(joined=joined)}
        return since

    def _begin(self, part: StreamingJob, relations: Mapping[str, Delta]) -> None:
        """Give a new part what was there before it."""
        plan = part.plan
        own = [relation.name for relation in plan.relations if relation.is_static]
        rows = [(f"relation {name}", 0, relations[name]) for name in own]
        rows += self._kept_for(part)
        operator_plan = part.continuous.operators
        part.continuous.begin_with(self.taken, rows)
        if operator_plan is not None:
            self.cells.update(
                first_files(
                    part.number,
                    operator_plan,
                    rows,
                    self.partitions or 1,
                    self.cells_directory,
                    batch=self.taken,
                    durable=self._checkpoint is not None,
                )
            )
        self.outputs.answered.update(dict.fromkeys((query.name for query in plan.definitions), 0))

    def _kept_for(self, part: StreamingJob) -> list[tuple[str, int, Delta]]:
        """New queries begin with the rows that their streams keep: synopses take them in, scans are given."""
        plan = part.plan
        found: list[tuple[str, int, Delta]] = []
        partials: list[Partial] = []
        first: dict[str, int] = {**self.firsts[plan.number]}
        for stream, rank, ts, table in self._retention.rows_of(plan.streams):
            first[stream.name] = min(int(ts.min()), first.get(stream.name, int(ts.min())))
            partials.extend(preaggregate(ts, table, plan.synopses_of(stream.name)))
            for scan in plan.scans_of(stream.name):
                found.append((scan.name, rank, scan_rows(scan, stream, ts, table).delta))
        for partial in partials:
            self.executor.absorb_partial(partial)
        if self._panes is not None and self._has_panes:
            self._panes.save(self.taken, partials, plan.synopses)
        self.executor.seal()
        self.firsts = {**self.firsts, plan.number: first}
        return found

    def _set(self, parts: Sequence[StreamingJob]) -> None:
        """Go on with these parts."""
        used = {stream.name: stream for part in parts for stream in part.plan.streams}
        # Streams that nobody reads at the moment stay, if they are streams of the program and of this run.
        staying = [s for s in self._program.streams if s.name in self.streams and s.name in self._sources]
        definitions = {**{stream.name: stream for stream in staying}, **used}
        # How far ahead rows may be is what the program says now.
        aheads = {stream.name: stream.max_ahead for stream in self._program.streams}
        definitions = {
            name: replace(stream, max_ahead=aheads.get(name)) for name, stream in definitions.items()
        }
        self.executor.change(parts, definitions.values())
        self.executor.kept.index_values(self._program.indexes)
        self.streams = {name: self.streams.get(name) or StreamState() for name in definitions}
        self.executor.streams = dict(self.streams)
        self.firsts = {part.number: self.firsts[part.number] for part in parts}
        self.throughs = {part.number: self.throughs[part.number] for part in parts}
        self._sources = {
            name: self._sources.get(name) or self._open_source(stream) for name, stream in definitions.items()
        }
        self._feeder.change(self._sources, [part.sources for part in parts])
        self._route()
        names = {part.number for part in parts}
        self.cells = {name: files for name, files in self.cells.items() if part_of(name) in names}
        self._meters = Meters(self.executor)
        self._guard = self._guarded()
        # Streams that say how late they are: their rows are as old as their timestamps.
        self._live = {
            name
            for name, stream in definitions.items()
            if not stream.has_integer_time and not self._sources[name].bounded
        }

    def _route(self) -> None:
        """Find out what partitions are sent, and what they must know."""
        self.routes = routes(self.executor)
        live = [] if self._panes is None else self._panes.live
        self._divided_files = [file for file in live if file.synopsis in self.routes.divided]
        self.version += 1
        self._is_crowded = True

    def _place(self) -> None:
        """Hand groupings that are too large for the driver over to partitions, between two batches."""
        if not self._is_crowded:
            return
        # The files have all that the driver has when every batch taken is committed.
        self.settle()
        groups = self._crowded()
        if groups:
            with self._turn:
                self.executor.divide(groups)
                self._route()
                self._publish()
        self._is_crowded = False

    def _crowded(self) -> dict[str, str]:
        """Groupings that are too large for the driver, with the reason."""
        if self.partitions is None or not self._has_panes:
            return {}
        return groups_to_repartition(self.executor.kept, self.options.max_driver_groups, self._bound_of_state)

    @property
    def _live_queries(self) -> frozenset[str]:
        names, sources = {query.name for query in self.plan.definitions}, self.plan.sources
        return frozenset(name for name in names if self._live.issuperset(sources[name]))

    def _admit(self, plan: RunPlan, program: Program, queries: int) -> None:
        """Refuse queries that there is no room for; `queries` is how many there would be."""
        admit_number(queries, self.options.max_queries)
        rates, state = self.executor.rates(), self.executor.state
        # Whoever is refreshed elastically stays with the driver.
        partitions = None if self.options.refresh == ELASTIC else self.partitions
        admit_state(plan, program, rates, state, partitions, self.options.max_state)

    @property
    def _bound_of_state(self) -> int | None:
        """How many bytes of state the driver, or a partition, may have; None: no bound."""
        state = self.options.max_state
        if state is None:
            master = self.options.master if self.runtime == "spark" else None
            state = default_state(master, self.partitions or 1)
        return state or None

    def _guarded(self) -> Guard:
        options = self.options
        return Guard(
            Limits(self._bound_of_state, options.max_memory or None),
            self._meters,
            options.monitor.warning,
            has_checkpoint=options.checkpoint is not None,
        )

    def pending_entry(self) -> Entry | None:
        """An entry that was decided before a crash and not committed: it must be run as it was.

        The streams may have become others since: what was decided for one that is read otherwise now is not
        run, and the stream goes on where it was.
        """
        text = None if self._feed_log is None else self._feed_log.read(self.taken + 1)
        if text is None:
            return None
        entry = Entry.from_json(text)
        sources = self._identities(entry.sources)
        return self._feeder.repeat(entry, [name for name in sources if entry.sources[name] == sources[name]])

    def _identities(self, names: Iterable[str]) -> dict[str, str]:
        """How streams of the run are read, by name."""
        folder = str(self.options.base_dir.absolute())
        return {name: identity(self._sources[name].stream, folder) for name in names if name in self._sources}

    def wait(self, most: float) -> float:
        """How long to wait before the next look for input: `most` seconds, or less."""
        return min(most, self._feeder.wait() or most)

    def next_entry(self) -> Entry | None:
        """Decide what the next batch reads; None: nothing at the moment.

        Raises what went wrong with a batch meanwhile: nobody should wait for input to hear of it.
        """
        if self._completing is not None and self._completing.done():
            self.settle()
        self.outputs.check_readers()
        entry = self._feeder.next({name: state.newest for name, state in self.streams.items()})
        if entry is not None:
            entry = replace(entry, sources=self._identities(entry.positions))
        # Before anybody reads it in the feed.
        self.decided = entry
        if entry is not None and self._feed_log is not None:
            self._feed_log.publish(entry.number, entry.to_json())
        return entry

    def take(self, entry: Entry, run: RunBatch) -> None:
        """Run the chunks of one batch and see to it that the batch is completed."""
        if entry.number != self.taken + 1:
            raise InternalError(f"batch {entry.number} came after batch {self.taken}")
        watch = Stopwatch()
        self._place()
        in_tasks = self.partitions is not None
        told = awaited(self.firsts.values())
        batch_result = run_exactly(entry, run, self.executor, self.streams, told, in_tasks=in_tasks)
        watch.lap("read")
        before = self.streams
        self.streams = advanced(self.streams, batch_result.results, entry.ended, entry.beats)
        self.firsts = {
            part: gone_on(begun(first, batch_result.results), batch_result.results, before)
            for part, first in self.firsts.items()
        }
        clock, parts = self.executor.clock, self.executor.parts
        for number, through in self.throughs.items():
            moved = moved_on(through, clock.through(self.streams, parts[number].sources))
            self.throughs = {**self.throughs, number: through if moved is None else moved}
        self.cells.update(batch_result.files)
        self.settle()
        files = (file for given in batch_result.divided for file in given.files)
        horizons = self.executor.horizons(self.throughs)
        self._divided_files = list(still_needed((*self._divided_files, *files), horizons))
        watch.lap("wait")
        if self._worker is None:
            self._complete(entry, batch_result, self.streams, self.firsts, watch)
        else:
            self._completing = self._worker.submit(
                self._complete, entry, batch_result, self.streams, self.firsts, watch
            )
        self.taken = entry.number
        self._is_last_taken = entry.is_last

    def turn(self, entry: Entry) -> Turn:
        """What partitions must know to take part in the next batch."""
        parts = {
            number: JobTurn(
                self.firsts[number],
                part.sources,
                self.throughs[number],
                part.continuous.needed,
                part.continuous.settings,
                tuple(dict.fromkeys(spec.stream for spec in part.plan.synopses)),
            )
            for number, part in self.executor.parts.items()
        }
        clock, streams = self.executor.clock, self.streams
        divided = PartitionedTurn(self.version, tuple(self._divided_files)) if self.routes.divided else None
        return Turn(entry.number, clock, streams, tuple(entry.ended), entry.beats, parts, divided)

    def files_before(self, stage: int, partition: int) -> dict[int, tuple[StateFile, ...]]:
        """The state of a partition's cells in a stage before the next batch, by part."""
        return {
            number: self.cells.get(cell_name(number, stage, partition), ())
            for number, part in self.executor.parts.items()
            if part.continuous.cut is not None and len(part.continuous.cut.stages) >= stage
        }

    def keep(self, batch: int) -> Keep | None:
        """Where the tasks of a batch put rows that are kept; None: nothing is."""
        return self._retention.place(batch, self.plan.streams, self._program.indexes)

    def settle(self) -> None:
        """Wait until every batch taken is committed; raises what went wrong with it."""
        completing, self._completing = self._completing, None
        if completing is not None:
            completing.result()

    def settle_archives(self) -> None:
        """Wait, too, until archives are as far as they are promised to be."""
        self.settle()
        self.outputs.settle_archives()

    def _complete(
        self,
        entry: Entry,
        batch_result: BatchResult,
        streams: Mapping[str, StreamState],
        firsts: Firsts,
        watch: Stopwatch,
    ) -> None:
        with self._turn:
            before = self.executor.streams
            self.executor.absorb(batch_result, streams, firsts)
            answers = BatchAnswers(self.outputs, self.options.monitor.watches)
            seconds = None if entry.is_last else self._seconds_left(watch)
            try:
                for name, table in self.executor.answer(entry.number, batch_result, seconds):
                    self.look()
                    answers.add(name, table)
            except TimeJump as jump:
                jump.got = self._place_of(jump, entry, before)
                raise
            watch.lap("answer")
            answers.write()
            progressed = self.executor.progressed()
            self.outputs.write_progress(progressed)
            self._dead_letters.write(batch_result.results)
            self.look()
            watch.lap("write")
            self._commit(entry, batch_result)
            watch.lap("commit")
        self._rest = watch.laps["write"] + watch.laps["commit"]
        self._is_crowded = self._is_crowded or bool(self._crowded())
        report = self._report(entry, batch_result.results, answers, progressed, watch)
        self._feeder.size.took(report.rows, watch.total - watch.laps["wait"])
        self.options.monitor.batch(report)
        self._losses.tell(streams, {name for name, source in self._sources.items() if not source.bounded})
        if self._guard is not None and not entry.is_last:
            # After the commit: a run that must not go on has not lost the batch.
            self._guard.check(report)

    def _place_of(self, jump: TimeJump, entry: Entry, before: Mapping[str, StreamState]) -> str | None:
        """The row of a batch with which time jumped, as far as it can be found out."""
        chunks = [chunk for chunk in entry.chunks if chunk.stream == jump.stream]
        with suppress(SashError, OSError):
            return largest_jump(self.plan.stream(jump.stream), chunks, before[jump.stream].newest)
        return None

    def _seconds_left(self, watch: Stopwatch) -> float | None:
        """How long answers may take for the run to keep pace with its input; None: it has all the time.

        The time on the wall is that of the rows where all streams are live. What the rest of a batch takes is
        taken from the one before.
        """
        if not self._live.issuperset(self.executor.streams):
            return None
        moved = [
            through - part.through
            for part in self.executor.parts.values()
            if part.through is not None and (through := self.executor.through(part.sources)) is not None
        ]
        return max(moved) / 1e6 - watch.total - self._rest if moved else None

    def _commit(self, entry: Entry, batch_result: BatchResult) -> None:
        definitions, passed = self.plan.streams, self.executor.passed
        try:
            sinks = self.outputs.commit(
                self.executor.watermarks, self.executor.streams, is_last=entry.is_last
            )
            dead_letters = self._dead_letters.commit()
            if entry.is_last:
                self._dead_letters.check_unchanged()
            self._retention.take(self.keep(entry.number), batch_result.results, definitions, passed)
            panes = self._save_panes(entry.number, batch_result)
        except BaseException:
            # Outputs end at the last commit of all of them.
            self.outputs.revert()
            raise
        if self._checkpoint is not None:
            parts = self.executor.parts.values()
            self._checkpoint.commit(
                Manifest(
                    entry.number,
                    self.executor.streams,
                    entry.positions,
                    entry.is_last,
                    sinks,
                    self.outputs.answered,
                    panes,
                    dead_letters,
                    {**batch_result.files, **self.executor.files},
                    self.partitions,
                    tuple(
                        JobState(
                            p.number, p.first, tuple(sorted(p.dropped)), p.since, p.complete_since, p.through
                        )
                        for p in parts
                    ),
                    self._made,
                    tuple(self._retention.files),
                    self.executor.held_from(),
                    self.executor.lasts(),
                    self.executor.refreshing.snapshot(),
                    self.options.refresh,
                    self.options.policy,
                    self.executor.kept.divided,
                    passed,
                    {name: identity(self._sources[name].stream) for name in self.executor.streams},
                )
            )
        elif self._panes is not None:
            self._panes.keep(panes)
        self.committed = entry.number
        self._reached = self._now_reached()
        self._publish()
        self._retention.forget(self.keep(entry.number), definitions)
        if self._panes is not None:
            self._panes.clear(entry.number, self._retention.read_panes)

    def _save_panes(self, batch: int, batch_result: BatchResult) -> tuple[PaneFile, ...]:
        """Write what the batch adds to the driver's synopses; gives all pane files that windows need."""
        if self._panes is None:
            return ()
        partials = [partial for result in batch_result.results for partial in result.partials]
        if self._checkpoint is None:
            # They are there only for partitions to take over, which have groups.
            owners = {spec.name: self.executor.groups[spec.of or spec.name] for spec in self.plan.synopses}
            partials = [partial for partial in partials if owners[partial.synopsis].spec.keys]
        if self._has_panes:
            self._panes.save(batch, partials, self.plan.synopses)
        self._panes.live.extend(file for given in batch_result.divided for file in given.files)
        return tuple(still_needed(self._panes.live, self.executor.horizons()))

    def _publish(self) -> None:
        """Let questions be answered from what is known now."""
        kept, files = self.executor.kept, self._panes
        panes = KeptPanes(
            self.plan,
            None if files is None else files.directory,
            () if files is None else tuple(files.live),
            frozenset(kept.divided),
            self.partitions or 1,
            complete_since=self.executor.held_from(),
            groups=kept.kept_here,
            has_all_files=self._checkpoint is not None,
        )
        executor = self.executor
        self._retention.publish(
            self.committed, executor.clock, executor.streams, executor.passed, self.plan.streams, panes
        )

    def check_feed(self) -> None:
        """Raise CheckpointError if the feed has gone away: who reads it elsewhere would wait for ever."""
        if self._feed_log is not None:
            self._feed_log.check()

    def forget_entries(self, before: int) -> None:
        """Remove entries of the feed that neither a restart nor Spark can ask for any more."""
        if self._feed_log is not None:
            self._feed_log.forget(min(before, self.committed + 1))

    def _report(
        self,
        entry: Entry,
        results: Sequence[ChunkResult],
        answers: BatchAnswers,
        progressed: Mapping[str, AnswerRecord],
        watch: Stopwatch,
    ) -> BatchReport:
        streams, answered = self.executor.streams, dict(self.outputs.answered)
        newest = {name: state.newest for name, state in streams.items()}
        now = time.time()
        return BatchReport(
            entry.number,
            sum(r.accepted + r.late.num_rows + r.rejected.num_rows for r in results),
            watch.total,
            self.executor.complete_through,
            self._feeder.progress(entry.positions),
            {name: state.counts for name, state in streams.items()},
            answers.newest,
            answers.rows,
            answered,
            Parts(**watch.laps),
            newest,
            {name: now - at / 1e6 for name, at in newest.items() if name in self._live and at is not None},
            self.executor.state,
            resident_bytes(),
            self.outputs.updates,
            lambda: self._measure(answered, now),
            lambda: self.executor.refreshed(now, self._live),
            now,
            self._live_queries,
            late_slacks(self.executor.streams),
            self.executor.watermarks,
            self.executor.whole_from,
            progressed,
            self.executor.skipped_after(),
        )

    def _measure(self, answered: Mapping[str, int], now: float) -> Measures:
        refreshing = self.executor.refreshing
        return replace(
            self._meters.measure(answered),
            refreshes=self.executor.refreshed(now, self._live),
            whole_from=self.executor.whole_from(),
            records=self.executor.records(),
            units=self.executor.units(),
            decisions=refreshing.decisions,
            deciding=refreshing.deciding,
        )

    def _now_reached(self) -> Reach:
        counts = {name: state.counts for name, state in self.executor.streams.items()}
        answered, watermarks = dict(self.outputs.answered), dict(self.executor.watermarks)
        return Reach(self.executor.complete_through, counts, answered, watermarks)

    @contextmanager
    def abandoning(self) -> Iterator[None]:
        """Meanwhile batches may be abandoned: the run then ends with what was committed."""
        try:
            yield
        except Abandoned:
            self._is_abandoned = True
            raise

    def leave(self, scratch: Path) -> None:
        """Cut outputs back to the last commit, from another thread and for good: the process ends now."""
        self.outputs.leave()
        self._dead_letters.leave()
        shutil.rmtree(scratch, ignore_errors=True)

    def finish(self, *, interrupted: bool) -> Summary:
        if not self._is_abandoned:
            self.settle()
        if interrupted:
            self.outputs.check_unchanged()
            self._dead_letters.check_unchanged()
        self._close()
        # What was abandoned may have been absorbed in part.
        reached = self._reached if self._is_abandoned else self._now_reached()
        summary = Summary(
            self.committed + 1,
            time.monotonic() - self._started,
            reached.through,
            reached.streams,
            reached.answered,
            interrupted,
            self._dead_letters.directory,
            self.executor.measured(self.outputs.answered),
            self.executor.rates(),
            {} if self._is_abandoned else self._answered_once(),
            {query.name: self.executor.notes(query.synopsis) for query in self.executor.plan.queries},
            self.executor.refreshed(time.time(), self._live),
            late_slacks(self.executor.streams),
            reached.watermarks,
            self._is_abandoned,
        )
        failure = self._losses.tell_at_end(self.executor.streams)
        self.options.monitor.finished(summary)
        if failure is not None:
            raise failure
        return summary

    def _answered_once(self) -> Mapping[str, pa.Table]:
        executor, base_dir = self.executor, self.options.base_dir
        return answered_once(self._program, executor.once(), executor.once_records(), self.registry, base_dir)

    def close(self) -> None:
        """Let go of everything, also after a failure, which is what the user should hear of."""
        self._retention.end()
        with suppress(SashError):
            self._close()

    def _close(self) -> None:
        with ExitStack() as held:
            # Whatever fails, the rest is closed, too; the lock of the checkpoint last of all.
            if self._checkpoint is not None:
                held.callback(self._checkpoint.close)
            for part in self.executor.parts.values():
                held.callback(part.close)
            held.callback(self._dead_letters.close)
            self._retention.close_with(held)
            self.outputs.close_with(held)
            if self._worker is not None:
                held.callback(self._worker.shutdown)


def _feeder(options: Options, runtime: str, cores: int) -> Feeder:
    most = options.batch_rows or DEFAULT_BATCH_ROWS
    size = BatchSize(most, options.max_batch_time, options.batch_rows or FIRST_ROWS)
    trigger = DEFAULT_TRIGGERS[runtime] if options.trigger is None else options.trigger
    return Feeder({}, size, _chunk_rows(most, cores), trigger=trigger)


def _chunk_rows(batch_rows: int, cores: int) -> int:
    """Rows of a chunk: small enough that all cores have work, large enough that a task pays."""
    return max(1, min(500_000, -(-batch_rows // (2 * cores))))
