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
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from sash.errors import InternalError, SinkError
from sash.lang.bound import QueryDefinition
from sash.plan.run_plan import RunPlan, feed_of
from sash.runtime.aside import Aside
from sash.runtime.checkpoint import Checkpoint, Manifest
from sash.runtime.continuous import continuous_schema
from sash.runtime.feed import Entry, Feeder
from sash.runtime.feedlog import FeedLog
from sash.runtime.plane import QueryPlane, StreamState, advanced
from sash.runtime.report import BatchReport, Monitor, Silent, Summary
from sash.runtime.sinks import Sink, open_sink
from sash.runtime.sources import Chunk, Source, open_source, read_whole
from sash.runtime.stage import ChunkResult, misjudged
from sash.synopses.refresh import answer_schema

DEFAULT_BATCH_ROWS = 2_000_000
Newest = Mapping[tuple[str, int], int | None]
"""The newest timestamp before each chunk, by (stream, sequence)."""
RunChunks = Callable[[Sequence[Chunk], Newest], list[ChunkResult]]


@dataclass(frozen=True, slots=True)
class Options:
    """How to run a program, whatever it says."""

    base_dir: Path = field(default_factory=Path.cwd)
    checkpoint: Path | None = None
    aside: Path | None = None
    batch_rows: int = DEFAULT_BATCH_ROWS
    master: str = "local[*]"
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
    ) -> None:
        self.plan = plan
        self.options = options
        self._sources = self._open_sources()
        self._sinks = self._open_sinks()
        self._plane = QueryPlane(self.plan)
        self._feeder = Feeder(self._sources, options.batch_rows, _chunk_rows(options.batch_rows, cores))
        self._checkpoint = (
            None if options.checkpoint is None else Checkpoint(options.checkpoint, self.plan, runtime)
        )
        aside = options.aside or (options.checkpoint or options.base_dir) / "aside"
        self._aside = Aside(aside, durable=options.checkpoint is not None)
        if options.aside is not None or options.checkpoint is None:
            self._aside.check()
        self._answered = {query.name: 0 for query in plan.definitions}
        self._started = time.monotonic()
        self._manifest: Manifest | None = None
        self._feed_log: FeedLog | None = None
        self._streams: Mapping[str, StreamState] = self._plane.streams
        self._slacks = {stream.name: stream.slack for stream in self.plan.streams}
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
            self._plane.continuous.load_relations(self._read_relations())
        self.options.monitor.started(
            {query.name: query.sink for query in self.plan.definitions},
            {stream.name: stream.source for stream in self.plan.streams},
        )

    def _read_relations(self) -> dict[str, list[pa.Array]]:
        """The rows of relations that are read once, before anything else."""
        rows = {}
        for relation in self.plan.relations:
            if relation.is_static:
                rows[relation.name] = read_whole(feed_of(relation), self.options.base_dir)
        return rows

    def open_outputs(self) -> None:
        """Go on with the outputs where the checkpoint says, or replace them; the last step before batches."""
        manifest = self._manifest
        for name, sink in self._sinks.items():
            sink.open(None if manifest is None else manifest.sinks[name])
        self._aside.open(self._sources, {} if manifest is None else manifest.aside)

    def _resume(self, manifest: Manifest) -> None:
        assert self._checkpoint is not None
        for partial in self._checkpoint.partials():
            self._plane.absorb_partial(partial)
        if not self._plane.continuous.is_idle:
            self._plane.continuous.restore(self._checkpoint.operators(manifest))
        self._plane.restore(manifest.streams, manifest.complete_through)
        self._streams = self._plane.streams
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
        ended = {name for name, state in self._streams.items() if state.ended} | set(entry.ended)
        self._feeder.resume(entry.number + 1, entry.positions, ended, entry.is_last)
        return entry

    def next_entry(self) -> Entry | None:
        """Decide what the next batch reads; None: nothing at the moment."""
        entry = self._feeder.next({name: state.newest for name, state in self._streams.items()})
        if entry is not None and self._feed_log is not None:
            self._feed_log.publish(entry.number, entry.to_json())
        return entry

    def take(self, entry: Entry, run: RunChunks) -> None:
        """Run the chunks of one batch and see to it that the batch is completed."""
        if entry.number != self.taken + 1:
            raise InternalError(f"batch {entry.number} came after batch {self.taken}")
        began = time.monotonic()
        results = self._run_exactly(entry.chunks, run)
        self._streams = advanced(self._streams, results, entry.ended)
        self.settle()
        if self._worker is None:
            self._complete(entry, results, self._streams, began)
        else:
            self._completing = self._worker.submit(self._complete, entry, results, self._streams, began)
        self.taken = entry.number
        self._is_last_taken = entry.is_last

    def settle(self) -> None:
        """Wait until every batch taken is committed; raises what went wrong with it."""
        completing, self._completing = self._completing, None
        if completing is not None:
            completing.result()

    def _complete(
        self,
        entry: Entry,
        results: Sequence[ChunkResult],
        streams: Mapping[str, StreamState],
        began: float,
    ) -> None:
        self._plane.absorb(results, streams)
        given: dict[str, pa.Table] = {}
        for name, tables in self._plane.answer().items():
            given[name] = pa.concat_tables(tables)
            self._sinks[name].write(given[name])
            self._answered[name] += given[name].num_rows
        self._aside.write(results)
        self._commit(entry, results)
        self._report(entry, results, given, time.monotonic() - began)

    def _run_exactly(self, chunks: Sequence[Chunk], run: RunChunks) -> list[ChunkResult]:
        newest = {name: state.newest for name, state in self._streams.items()}
        results = run(chunks, {(c.stream, c.sequence): newest[c.stream] for c in chunks}) if chunks else []
        wrong = misjudged(results, newest, self._slacks)
        if wrong:
            again = [chunk for chunk in chunks if (chunk.stream, chunk.sequence) in wrong]
            results = [r for r in results if (r.stream, r.sequence) not in wrong]
            results.extend(run(again, wrong))
        return sorted(results, key=lambda result: (result.stream, result.sequence))

    def _commit(self, entry: Entry, results: Sequence[ChunkResult]) -> None:
        sinks = {name: sink.commit() for name, sink in self._sinks.items()}
        aside = self._aside.commit()
        if self._checkpoint is not None:
            self._checkpoint.save_partials(
                entry.number, (partial for result in results for partial in result.partials)
            )
            operators = None
            if not self._plane.continuous.is_idle:
                operators = self._checkpoint.save_operators(entry.number, self._plane.continuous.snapshot())
            horizons = {spec.name: self._plane.horizon(spec.name) for spec in self.plan.synopses}
            self._checkpoint.commit(
                Manifest(
                    entry.number,
                    self._plane.streams,
                    self._plane.complete_through,
                    entry.positions,
                    entry.is_last,
                    sinks,
                    self._answered,
                    self._checkpoint.live_panes(horizons),
                    aside,
                    operators,
                )
            )
        self.committed = entry.number

    def forget_entries(self, before: int) -> None:
        """Remove entries of the feed that neither a restart nor Spark can ask for any more."""
        if self._feed_log is not None:
            self._feed_log.forget(min(before, self.committed + 1))

    def _report(
        self, entry: Entry, results: Sequence[ChunkResult], given: Mapping[str, pa.Table], seconds: float
    ) -> None:
        self.options.monitor.batch(
            BatchReport(
                entry.number,
                sum(r.accepted + r.late.num_rows + r.rejected.num_rows for r in results),
                seconds,
                self._plane.complete_through,
                self._feeder.progress(entry.positions),
                {name: state.counts for name, state in self._plane.streams.items()},
                given,
                dict(self._answered),
            )
        )

    def finish(self, *, interrupted: bool) -> Summary:
        self.settle()
        self.close()
        summary = Summary(
            self.committed + 1,
            time.monotonic() - self._started,
            self._plane.complete_through,
            {name: state.counts for name, state in self._plane.streams.items()},
            dict(self._answered),
            interrupted,
            self._aside.directory,
            self._plane.measured(self._answered),
            self._plane.rates(),
            self._plane.continuous.once(),
        )
        self.options.monitor.finished(summary)
        return summary

    def close(self) -> None:
        if self._worker is not None:
            self._worker.shutdown()
        for sink in self._sinks.values():
            sink.close()
        self._aside.close()
        if self._checkpoint is not None:
            self._checkpoint.close()


def _chunk_rows(batch_rows: int, cores: int) -> int:
    """Rows of a chunk: small enough that all cores have work, large enough that a task pays."""
    return max(1, min(500_000, -(-batch_rows // (2 * cores))))
