"""Where answers go: the sinks of the queries of a run, and how many rows each has been given."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from sash.archive import Rewrites, SlotResult, SlotWork, rewrite_in_threads
from sash.archive.report import UpdateReport
from sash.connectors.sinks import Sink, open_sink
from sash.connectors.sinks.output_stream import is_stream
from sash.connectors.sinks.registry import LINES
from sash.connectors.sinks.text_file import TextFileSink, write_together
from sash.connectors.sources import Source
from sash.engine.archives.archive_output import ArchiveSink
from sash.engine.archives.archive_setup import archive_place
from sash.engine.continuous.continuous import continuous_schema
from sash.engine.ingest.watermarks import Streams
from sash.engine.observe.report import AnswerRecord
from sash.engine.progress import progress_row, with_progress, without_progress
from sash.engine.stopping import keep_on
from sash.errors import SinkError
from sash.files import local_place
from sash.lang.bound import ArchiveDefinition, QueryDefinition
from sash.operators.bounds import with_bounds
from sash.plan.progress import tells_progress
from sash.plan.run_plan import RunPlan
from sash.synopses.answering import answer_schema

# How long who leaves waits for a commit, in seconds.
_PATIENCE = 0.5


class Outputs:
    """`rewrite` is who writes sub-indices of archives, `in_background` beside the batches."""

    def __init__(
        self,
        base_dir: Path,
        *,
        durable: bool,
        in_background: bool,
        look: Callable[[], None] = keep_on,
    ) -> None:
        self._look = look
        # Held while the sinks commit: who leaves waits a little for that.
        self._committing = threading.Lock()
        self._base_dir = base_dir
        self._durable = durable
        self._in_background = in_background
        self.rewrite: Rewrites = rewrite_in_threads
        self._sinks: dict[str, Sink] = {}
        # Those that have made the last commit, which may yet fail.
        self._fresh: list[Sink] = []
        self.answered: dict[str, int] = {}
        # Queries whose outputs cannot be taken back.
        self.streams: list[str] = []

    # ------------------------------------------------------------------ queries come and go

    def prepare(self, plan: RunPlan) -> dict[str, Sink]:
        """The sinks of a plan's queries, which can be written to; nothing is touched yet."""
        sinks = self.sinks_of(plan)
        for sink in sinks.values():
            sink.check()
            sink.durable = self._durable
            sink.look = self._look
        return sinks

    def sinks_of(self, plan: RunPlan) -> dict[str, Sink]:
        """The sinks of a plan's queries; their places are not looked at."""
        sinks: dict[str, Sink] = {}
        archived = {query.name: query for query in plan.continuous if query.definition.archive is not None}
        for definition, schema in _answers(plan):
            if definition.name in archived:
                sink: Sink = ArchiveSink(
                    archived[definition.name],
                    plan,
                    self._base_dir,
                    self._rewrite_slots,
                    in_background=self._in_background,
                )
            else:
                tells = tells_progress(definition)
                schema = with_progress(schema) if tells else schema
                sink = open_sink(definition.sink, schema, self._base_dir)
                sink.tells_progress = tells
            sinks[definition.name] = sink
        return sinks

    def _rewrite_slots(self, work: Sequence[SlotWork]) -> Sequence[SlotResult]:
        return self.rewrite(work)

    def add(self, sinks: Mapping[str, Sink]) -> None:
        self._sinks.update(sinks)
        self.streams = [name for name, sink in self._sinks.items() if sink.is_stream]

    def drop(self, query: str) -> None:
        """Close the sink of a query, if there is one; what it has written stays."""
        if query in self._sinks:
            self._sinks.pop(query).close()
            del self.answered[query]
            self.streams = [name for name in self.streams if name != query]

    def migrate(self, archives: Iterable[ArchiveDefinition]) -> None:
        """Let archives go over to the techniques that their definitions say now."""
        for archive in archives:
            known = self._sinks[archive.name]
            if isinstance(known, ArchiveSink) and known.definition != archive:
                known.migrate(archive)

    def open(self, committed: Mapping[str, Any]) -> None:
        """Go on where a checkpoint says, or replace what is there."""
        self.verify(committed)
        self.lock()
        for name, sink in self._sinks.items():
            sink.open(committed.get(name))

    def lock(self) -> None:
        """Raise SinkError if another run writes to one of the outputs; none of them is touched."""
        for sink in self._sinks.values():
            sink.lock()

    def verify(self, committed: Mapping[str, Any]) -> None:
        """Raise SinkError unless all that was committed is there."""
        for name, sink in self._sinks.items():
            if name in committed:
                sink.verify(committed[name])

    # ------------------------------------------------------------------ batches

    def write(self, answers: Mapping[str, pa.Table]) -> None:
        for name, table in answers.items():
            self.answered[name] += table.num_rows
        tables = ((self._sinks[name], table) for name, table in answers.items())
        self._write(
            (sink, without_progress(table) if sink.tells_progress and not sink.names_columns else table)
            for sink, table in tables
        )

    def write_progress(self, records: Mapping[str, AnswerRecord]) -> None:
        """Let the sinks have what queries say of themselves after a batch, which is no answer."""
        sinks = ((self._sinks[name], record) for name, record in records.items())
        self._write((sink, progress_row(record, sink.schema)) for sink, record in sinks)

    def _write(self, tables: Iterable[tuple[Sink, pa.Table]]) -> None:
        texts: list[tuple[TextFileSink, pa.Table]] = []
        for sink, table in tables:
            if isinstance(sink, TextFileSink):
                texts.append((sink, table))
            else:
                sink.write(table)
        write_together(texts)

    def commit(
        self, watermarks: Mapping[str, int | None], streams: Streams, *, is_last: bool
    ) -> dict[str, Any]:
        """Make durable what was written; gives how far each sink is. `watermarks` are those of queries."""
        for name, sink in self._sinks.items():
            sink.reach(watermarks[name])
        for archive in self.archives.values():
            archive.observe(streams)
        committed: dict[str, Any] = {}
        self._fresh = []
        with self._committing:
            for name, sink in self._sinks.items():
                committed[name] = sink.commit()
                self._fresh.append(sink)
        if is_last:
            self.settle_archives()
            self.check_unchanged()
        return committed

    def leave(self) -> None:
        """Cut outputs back to the last commit for good, also while another thread writes to them."""
        is_held = self._committing.acquire(timeout=_PATIENCE)
        try:
            for sink in self._sinks.values():
                sink.leave()
        finally:
            if is_held:
                self._committing.release()

    def revert(self) -> None:
        """The last commit does not count: what it wrote is taken back when the sinks are closed."""
        for sink in self._fresh:
            sink.revert()
        self._fresh = []

    def check_readers(self) -> None:
        """Raise OutputClosed if whoever read one of the outputs has left."""
        for name in self.streams:
            self._sinks[name].check_reader()

    def check_unchanged(self) -> None:
        """Raise SinkError if somebody else has changed an output; looks at all of them."""
        for sink in self._sinks.values():
            sink.check_unchanged()

    @property
    def archives(self) -> dict[str, ArchiveSink]:
        return {name: sink for name, sink in self._sinks.items() if isinstance(sink, ArchiveSink)}

    def settle_archives(self) -> None:
        """Wait until archives are as far as they are promised to be."""
        for archive in self.archives.values():
            archive.settle()

    @property
    def updates(self) -> dict[str, UpdateReport]:
        """What was done to archives that were brought up to date."""
        return {name: sink.report for name, sink in self.archives.items() if sink.report is not None}

    def close_with(self, held: ExitStack) -> None:
        """Have the sinks closed by `held`, whatever happens to one of them."""
        for sink in self._sinks.values():
            held.callback(sink.close)


# Rows of answers that are held until they are written: together they are spelled out sooner than one by one.
_WRITTEN_TOGETHER = 1 << 20


class BatchAnswers:
    """The answers of a batch on their way to the sinks: what nobody `watches` is let go when it is written.

    `newest` has all rows of queries that are watched, and the last ones of each other query; `rows` counts.
    """

    def __init__(self, outputs: Outputs, watches: Callable[[str], bool]) -> None:
        self._outputs = outputs
        self._archives = outputs.archives.keys()
        self._watches = watches
        self._waiting: dict[str, list[pa.Table]] = {}
        self._count = 0
        self.newest: dict[str, pa.Table] = {}
        self.rows: dict[str, int] = {}

    def add(self, query: str, table: pa.Table) -> None:
        self._waiting.setdefault(query, []).append(table)
        self._count += table.num_rows
        if self._count >= _WRITTEN_TOGETHER:
            self.write()

    def write(self) -> None:
        """Let the sinks have what there is."""
        given = {name: pa.concat_tables(tables) for name, tables in self._waiting.items()}
        self._waiting, self._count = {}, 0
        self._outputs.write(given)
        for name, table in given.items():
            if name not in self._archives:
                self.rows[name] = self.rows.get(name, 0) + table.num_rows
                before = [self.newest[name]] if name in self.newest and self._watches(name) else []
                self.newest[name] = pa.concat_tables([*before, table])


def check_places(queries: Iterable[QueryDefinition], sources: Mapping[str, Source], base_dir: Path) -> None:
    """Refuse queries that write to the same place, or to where a stream is read."""
    taken: dict[str, str] = {}
    queries = tuple(queries)
    archives = {
        query.name: (base_dir / archive_place(query.archive)).resolve()
        for query in queries
        if query.archive is not None
    }
    for definition in queries:
        scheme, _, rest = (part.strip() for part in definition.sink.partition(":"))
        if scheme.lower() in ("console", "noop"):
            continue
        rest = local_place(rest, definition.sink)
        if scheme.lower() in LINES and is_stream(base_dir / rest):
            # Their rows are one after the other.
            continue
        place = str((base_dir / Path(rest).expanduser()).resolve())
        if place in taken:
            raise SinkError(
                f"queries {taken[place]} and {definition.name} write to the same place '{rest}'",
                hint="give each query a file of its own",
            )
        folder = next((name for name in archives if Path(place).is_relative_to(archives[name])), None)
        if folder not in (None, definition.name):
            raise SinkError(
                f"query {definition.name} writes into the directory of the archive {folder}",
                hint="an archive has its directory for itself: name another place",
            )
        for name, source in sources.items():
            if source.reads(place):
                raise SinkError(
                    f"query {definition.name} writes to '{rest}', which stream {name} reads",
                    hint="give the query a file of its own: a run replaces what its output held before",
                )
        taken[place] = definition.name


def _answers(plan: RunPlan) -> Iterator[tuple[QueryDefinition, pa.Schema]]:
    """All queries and what they give."""
    for query in plan.queries:
        schema = answer_schema(query.select, plan.stream(query.select.stream))
        yield query.definition, with_bounds(schema, query.definition.plan)
    for continuous in plan.continuous:
        yield continuous.definition, with_bounds(continuous_schema(continuous), continuous.definition.plan)
