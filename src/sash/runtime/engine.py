"""The engine: what both runtimes do with a batch, from the feed to the commit.

A runtime brings a way to run chunks (in Spark tasks, or right here) and the loop that drives batches.
Everything else is here, in two steps for every batch. `take` runs the chunks, and once more those that
judged a late row wrongly. `_complete` absorbs the results, answers, writes answers and side rows, saves the
partials and commits; a batch is either committed as a whole or not at all. Where `overlap` is set the
second step runs in a thread of its own while the tasks of the next batch run, always one batch at a time
and in order, so a crash loses at most two batches of work, which the feed remembers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from sash.errors import InternalError, SashError, SinkError
from sash.lang.bound import QueryDefinition
from sash.operators.delta import Delta
from sash.plan.run_plan import RunPlan, feed_of
from sash.runtime.aside import Aside
from sash.runtime.cell import StateFile
from sash.runtime.checkpoint import CELLS, Checkpoint, Manifest
from sash.runtime.clock import StreamState, advanced
from sash.runtime.continuous import NAME as ANSWERS
from sash.runtime.continuous import ContinuousPlane, continuous_schema, relation_delta
from sash.runtime.feed import Entry, Feeder
from sash.runtime.feedlog import FeedLog
from sash.runtime.harvest import Harvest, scanned
from sash.runtime.limits import Guard, Limits, default_state
from sash.runtime.memory import resident_bytes
from sash.runtime.meters import Meters
from sash.runtime.partitions import Turn
from sash.runtime.plane import QueryPlane
from sash.runtime.report import BatchReport, Monitor, Parts, Silent, Summary
from sash.runtime.sinks import Sink, open_sink
from sash.runtime.sources import Chunk, Source, open_source, read_whole
from sash.runtime.stage import ChunkResult, misjudged
from sash.runtime.stopwatch import Stopwatch
from sash.synopses.refresh import answer_schema

DEFAULT_BATCH_ROWS = 2_000_000
Newest = Mapping[tuple[str, int], int | None]
"""The newest timestamp before each chunk, by (stream, sequence)."""
RunBatch = Callable[[Entry, Sequence[Chunk], Newest], Harvest]
"""Runs chunks of a batch, all of them or some once more; where operators run in tasks, those, too."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to run a program, whatever it says."""

    base_dir: Path = field(default_factory=Path.cwd)
    checkpoint: Path | None = None
    aside: Path | None = None
    batch_rows: int = DEFAULT_BATCH_ROWS
    master: str = "local[*]"
    partitions: int | None = None
    # Bytes; None: what is usual, 0: no bound.
    max_state: int | None = None
    max_memory: int | None = None
    debug: bool = False
    monitor: Monitor = field(default_factory=Silent)


class Engine:
    def __init__(
        self,
        plan: RunPlan,
        options: Options,
        runtime: str,
        cores: int,
        *,
        overlap: bool = False,
        partitions: int | None = None,
    ) -> None:
        """`partitions`: among so many are operators divided; None: they all run here."""
        self.plan = plan
        self.options = options
        self.runtime = runtime
        self.partitions = partitions
        self._sources = self._open_sources()
        self._sinks = self._open_sinks()
        self.plane = QueryPlane(
            plan,
            ContinuousPlane(
                plan,
                None if options.checkpoint is None else options.checkpoint / CELLS,
                is_cut=partitions is not None,
            ),
        )
        self._feeder = Feeder(self._sources, options.batch_rows, _chunk_rows(options.batch_rows, cores))
        self._checkpoint = (
            None if options.checkpoint is None else Checkpoint(options.checkpoint, self.plan, runtime)
        )
        aside = options.aside or (options.checkpoint or options.base_dir) / "aside"
        self._aside = Aside(aside, durable=options.checkpoint is not None)
        if options.aside is not None or options.checkpoint is None:
            self._aside.check()
        self._answered = {query.name: 0 for query in plan.definitions}
        self._meters = Meters(self.plane)
        # Streams that say how late they are: their rows are as old as their timestamps.
        self._live = {
            stream.name
            for stream in plan.streams
            if not stream.has_integer_time and not self._sources[stream.name].bounded
        }
        self._started = time.monotonic()
        self._guard: Guard | None = None
        self._manifest: Manifest | None = None
        self._feed_log: FeedLog | None = None
        self.streams: Mapping[str, StreamState] = self.plane.streams
        # How far time has come with the last batch taken; the plane may be one batch behind.
        self.through: int | None = None
        # The state of the operators that run in tasks, after the last batch taken.
        self.cells: dict[str, tuple[StateFile, ...]] = {}
        self.relations: dict[str, Delta] = {}
        self._worker = ThreadPoolExecutor(1, "sash-answers") if overlap else None
        self._completing: Future[None] | None = None
        self.taken = -1
        self.committed = -1
        self._is_last_taken = False

    @property
    def is_finished(self) -> bool:
        """Whether the last batch has been taken."""
        return self._is_last_taken

    def _open_sources(self) -> dict[str, Source]:
        sources = {s.name: open_source(s, self.options.base_dir) for s in self.plan.streams}
        for source in sources.values():
            source.check()
        return sources

    def _open_sinks(self) -> dict[str, Sink]:
        sinks: dict[str, Sink] = {}
        taken: dict[str, str] = {}
        for definition, schema in self._answers():
            sink = open_sink(definition.sink, schema, self.options.base_dir)
            sink.check()
            sink.durable = self.options.checkpoint is not None
            sinks[definition.name] = sink
            scheme, _, rest = (part.strip() for part in definition.sink.partition(":"))
            if scheme.lower() in ("console", "noop"):
                continue
            place = str((self.options.base_dir / Path(rest).expanduser()).resolve())
            if place in taken:
                raise SinkError(
                    f"queries {taken[place]} and {definition.name} write to the same place '{rest}'",
                    hint="give each query a file of its own",
                )
            for name, source in self._sources.items():
                if source.reads(place):
                    raise SinkError(
                        f"query {definition.name} writes to '{rest}', which stream {name} reads",
                        hint="give the query a file of its own: a run replaces what its output held before",
                    )
            taken[place] = definition.name
        return sinks

    def _answers(self) -> Iterator[tuple[QueryDefinition, pa.Schema]]:
        """All queries and what they give."""
        for query in self.plan.queries:
            yield query.definition, answer_schema(query.select, self.plan.stream(query.select.stream))
        for continuous in self.plan.continuous:
            yield continuous.definition, continuous_schema(continuous)

    def load(self, feed_directory: Path | None = None) -> None:
        """Take up the state of the checkpoint, if it has a committed batch. Outputs stay as they are."""
        self._manifest = None if self._checkpoint is None else self._checkpoint.open()
        if self._checkpoint is not None:
            feed_directory = self._checkpoint.feed_directory
        if feed_directory is not None:
            self._feed_log = FeedLog(feed_directory)
        if self._manifest is not None:
            self._resume(self._manifest)
        else:
            self.relations = self._read_relations()
            self.plane.continuous.load_relations(self.relations)
        self._guard = self._guarded()
        self.options.monitor.started(
            {query.name: query.sink for query in self.plan.definitions},
            {stream.name: stream.source for stream in self.plan.streams},
        )

    def _guarded(self) -> Guard:
        options = self.options
        state = options.max_state
        if state is None:
            state = default_state(options.master if self.runtime == "spark" else None, self.partitions or 1)
        return Guard(
            Limits(state or None, options.max_memory or None),
            self._meters,
            options.monitor.warning,
            has_checkpoint=options.checkpoint is not None,
        )

    def _read_relations(self) -> dict[str, Delta]:
        """The rows of relations that are read once, before anything else."""
        return {
            relation.name: relation_delta(read_whole(feed_of(relation), self.options.base_dir))
            for relation in self.plan.relations
            if relation.is_static
        }

    def open_outputs(self) -> None:
        """Go on with the outputs where the checkpoint says, or replace them; the last step before batches."""
        manifest = self._manifest
        for name, sink in self._sinks.items():
            sink.open(None if manifest is None else manifest.sinks[name])
        self._aside.open(self._sources, {} if manifest is None else manifest.aside)

    def _resume(self, manifest: Manifest) -> None:
        assert self._checkpoint is not None
        for partial in self._checkpoint.partials():
            self.plane.absorb_partial(partial)
        if not self.plane.continuous.is_idle:
            self.plane.continuous.load(manifest.batch, manifest.cells)
            self.cells = {name: files for name, files in manifest.cells.items() if name != ANSWERS}
            if self.partitions is not None:
                self.partitions = manifest.partitions
        self.through = manifest.complete_through
        self.plane.restore(manifest.streams, manifest.complete_through)
        self.streams = self.plane.streams
        ended = {name for name, state in manifest.streams.items() if state.ended}
        self._feeder.resume(manifest.batch + 1, manifest.positions, ended, manifest.is_last)
        self._answered.update(manifest.answered)
        self.committed = self.taken = manifest.batch
        self._is_last_taken = manifest.is_last

    def pending_entry(self) -> Entry | None:
        """An entry that was decided before a crash and not committed: it must be run as it was."""
        text = None if self._feed_log is None else self._feed_log.read(self.taken + 1)
        if text is None:
            return None
        entry = Entry.from_json(text)
        ended = {name for name, state in self.streams.items() if state.ended} | set(entry.ended)
        self._feeder.resume(entry.number + 1, entry.positions, ended, entry.is_last)
        return entry

    def next_entry(self) -> Entry | None:
        """Decide what the next batch reads; None: nothing at the moment.

        Raises what went wrong with a batch meanwhile: nobody should wait for input to hear of it.
        """
        if self._completing is not None and self._completing.done():
            self.settle()
        entry = self._feeder.next({name: state.newest for name, state in self.streams.items()})
        if entry is not None and self._feed_log is not None:
            self._feed_log.publish(entry.number, entry.to_json())
        return entry

    def take(self, entry: Entry, run: RunBatch) -> None:
        """Run the chunks of one batch and see to it that the batch is completed."""
        if entry.number != self.taken + 1:
            raise InternalError(f"batch {entry.number} came after batch {self.taken}")
        watch = Stopwatch()
        harvest = self._run_exactly(entry, run)
        watch.lap("read")
        self.streams = advanced(self.streams, harvest.results, entry.ended)
        through = self.plane.clock.through(self.streams)
        if through is not None:
            self.through = through if self.through is None else max(self.through, through)
        self.cells.update(harvest.files)
        self.settle()
        watch.lap("wait")
        if self._worker is None:
            self._complete(entry, harvest, self.streams, watch)
        else:
            self._completing = self._worker.submit(self._complete, entry, harvest, self.streams, watch)
        self.taken = entry.number
        self._is_last_taken = entry.is_last

    def turn(self, entry: Entry) -> Turn:
        """What partitions must know to take part in the next batch."""
        return Turn(entry.number, self.plane.clock, self.streams, self.through, tuple(entry.ended))

    def settle(self) -> None:
        """Wait until every batch taken is committed; raises what went wrong with it."""
        completing, self._completing = self._completing, None
        if completing is not None:
            completing.result()

    def _complete(
        self,
        entry: Entry,
        harvest: Harvest,
        streams: Mapping[str, StreamState],
        watch: Stopwatch,
    ) -> None:
        self.plane.absorb(harvest, streams)
        given: dict[str, pa.Table] = {}
        for name, tables in self.plane.answer(entry.number, harvest).items():
            given[name] = pa.concat_tables(tables)
        watch.lap("answer")
        for name, table in given.items():
            self._sinks[name].write(table)
            self._answered[name] += table.num_rows
        self._aside.write(harvest.results)
        watch.lap("write")
        self._commit(entry, harvest)
        watch.lap("commit")
        report = self._report(entry, harvest.results, given, watch)
        self.options.monitor.batch(report)
        if self._guard is not None and not entry.is_last:
            # After the commit: a run that must not go on has not lost the batch.
            self._guard.check(report)

    def _run_exactly(self, entry: Entry, run: RunBatch) -> Harvest:
        """Run a batch, and once more what judged a late row wrongly."""
        newest = {name: state.newest for name, state in self.streams.items()}
        given = {(chunk.stream, chunk.sequence): newest[chunk.stream] for chunk in entry.chunks}
        harvest = run(entry, entry.chunks, given)
        wrong = misjudged(harvest.results, newest, self.plane.clock.slacks)
        if wrong and self.partitions is not None:
            # The operators have not taken in anything that is wrong, and wait for the rest.
            harvest = run(entry, entry.chunks, {**given, **wrong})
        elif wrong:
            again = [chunk for chunk in entry.chunks if (chunk.stream, chunk.sequence) in wrong]
            right = [r for r in harvest.results if (r.stream, r.sequence) not in wrong]
            harvest = replace(harvest, results=[*right, *run(entry, again, wrong).results])
        results = sorted(harvest.results, key=lambda result: (result.stream, result.sequence))
        return scanned(results) if self.partitions is None else replace(harvest, results=results)

    def _commit(self, entry: Entry, harvest: Harvest) -> None:
        sinks = {name: sink.commit() for name, sink in self._sinks.items()}
        aside = self._aside.commit()
        if self._checkpoint is not None:
            self._checkpoint.save_partials(
                entry.number, (partial for result in harvest.results for partial in result.partials)
            )
            horizons = {spec.name: self.plane.horizon(spec.name) for spec in self.plan.synopses}
            self._checkpoint.commit(
                Manifest(
                    entry.number,
                    self.plane.streams,
                    self.plane.complete_through,
                    entry.positions,
                    entry.is_last,
                    sinks,
                    self._answered,
                    self._checkpoint.live_panes(horizons),
                    aside,
                    {**self.plane.continuous.files, **harvest.files},
                    self.partitions or 1,
                )
            )
        self.committed = entry.number

    def check_feed(self) -> None:
        """Raise CheckpointError if the feed has gone away: who reads it elsewhere would wait for ever."""
        if self._feed_log is not None:
            self._feed_log.check()

    def forget_entries(self, before: int) -> None:
        """Remove entries of the feed that neither a restart nor Spark can ask for any more."""
        if self._feed_log is not None:
            self._feed_log.forget(min(before, self.committed + 1))

    def _report(
        self, entry: Entry, results: Sequence[ChunkResult], given: Mapping[str, pa.Table], watch: Stopwatch
    ) -> BatchReport:
        streams, answered = self.plane.streams, dict(self._answered)
        newest = {name: state.newest for name, state in streams.items()}
        now = time.time()
        return BatchReport(
            entry.number,
            sum(r.accepted + r.late.num_rows + r.rejected.num_rows for r in results),
            watch.total,
            self.plane.complete_through,
            self._feeder.progress(entry.positions),
            {name: state.counts for name, state in streams.items()},
            given,
            answered,
            Parts(**watch.laps),
            newest,
            {name: now - at / 1e6 for name, at in newest.items() if name in self._live and at is not None},
            self.plane.state,
            resident_bytes(),
            lambda: self._meters.measure(answered),
        )

    def finish(self, *, interrupted: bool) -> Summary:
        self.settle()
        self._close()
        summary = Summary(
            self.committed + 1,
            time.monotonic() - self._started,
            self.plane.complete_through,
            {name: state.counts for name, state in self.plane.streams.items()},
            dict(self._answered),
            interrupted,
            self._aside.directory,
            self.plane.measured(self._answered),
            self.plane.rates(),
            self.plane.continuous.once(),
        )
        self.options.monitor.finished(summary)
        return summary

    def close(self) -> None:
        """Let go of everything, also after a failure, which is what the user should hear of."""
        with suppress(SashError):
            self._close()

    def _close(self) -> None:
        with ExitStack() as held:
            # Whatever fails, the rest is closed, too; the lock of the checkpoint last of all.
            if self._checkpoint is not None:
                held.callback(self._checkpoint.close)
            held.callback(self.plane.continuous.close)
            held.callback(self._aside.close)
            for sink in self._sinks.values():
                held.callback(sink.close)
            if self._worker is not None:
                held.callback(self._worker.shutdown)


def _chunk_rows(batch_rows: int, cores: int) -> int:
    """Rows of a chunk: small enough that all cores have work, large enough that a task pays."""
    return max(1, min(500_000, -(-batch_rows // (2 * cores))))
