"""Where answers go: the sinks of the queries of a run, and how many rows each has been given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from sash.archive import Rewrites, SlotResult, SlotWork, rewrite_in_threads
from sash.archive.report import UpdateReport
from sash.errors import SinkError
from sash.lang.bound import ArchiveDefinition, QueryDefinition
from sash.operators.bounds import with_bounds
from sash.plan.run_plan import RunPlan
from sash.runtime.archive_sink import ArchiveSink
from sash.runtime.clock import Streams
from sash.runtime.continuous import continuous_schema
from sash.runtime.sinks import Sink, open_sink
from sash.runtime.sinks.text_file import TextFileSink, write_together
from sash.runtime.sources import Source
from sash.synopses.answering import answer_schema


class Outputs:
    """`rewrite` is who writes sub-indices of archives, `in_background` beside the batches."""

    def __init__(self, base_dir: Path, *, durable: bool, in_background: bool) -> None:
        self._base_dir = base_dir
        self._durable = durable
        self._in_background = in_background
        self.rewrite: Rewrites = rewrite_in_threads
        self._sinks: dict[str, Sink] = {}
        self.answered: dict[str, int] = {}

    # ------------------------------------------------------------------ queries come and go

    def prepare(self, plan: RunPlan) -> dict[str, Sink]:
        """The sinks of a plan's queries, which can be written to; nothing is touched yet."""
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
                sink = open_sink(definition.sink, schema, self._base_dir)
            sink.check()
            sink.durable = self._durable
            sinks[definition.name] = sink
        return sinks

    def _rewrite_slots(self, work: Sequence[SlotWork]) -> Sequence[SlotResult]:
        return self.rewrite(work)

    def add(self, sinks: Mapping[str, Sink]) -> None:
        self._sinks.update(sinks)

    def drop(self, query: str) -> None:
        """Close the sink of a query, if there is one; what it has written stays."""
        if query in self._sinks:
            self._sinks.pop(query).close()
            del self.answered[query]

    def migrate(self, archives: Iterable[ArchiveDefinition]) -> None:
        """Let archives go over to the techniques that their definitions say now."""
        for archive in archives:
            known = self._sinks[archive.name]
            if isinstance(known, ArchiveSink) and known.definition != archive:
                known.migrate(archive)

    def open(self, committed: Mapping[str, Any]) -> None:
        """Go on where a checkpoint says, or replace what is there."""
        for name, sink in self._sinks.items():
            sink.open(committed.get(name))

    # ------------------------------------------------------------------ batches

    def write(self, answers: Mapping[str, pa.Table]) -> None:
        texts: list[tuple[TextFileSink, pa.Table]] = []
        for name, table in answers.items():
            sink = self._sinks[name]
            if isinstance(sink, TextFileSink):
                texts.append((sink, table))
            else:
                sink.write(table)
            self.answered[name] += table.num_rows
        write_together(texts)

    def commit(self, through: int | None, streams: Streams, *, is_last: bool) -> dict[str, Any]:
        """Make durable what was written; gives how far each sink is."""
        for sink in self._sinks.values():
            sink.reach(through)
        for archive in self.archives.values():
            archive.observe(streams)
        committed = {name: sink.commit() for name, sink in self._sinks.items()}
        if is_last:
            self.settle_archives()
        return committed

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


def check_places(queries: Iterable[QueryDefinition], sources: Mapping[str, Source], base_dir: Path) -> None:
    """Refuse queries that write to the same place, or to where a stream is read."""
    taken: dict[str, str] = {}
    queries = tuple(queries)
    archives = {
        query.name: (base_dir / Path(query.archive.sink).expanduser()).resolve()
        for query in queries
        if query.archive is not None
    }
    for definition in queries:
        scheme, _, rest = (part.strip() for part in definition.sink.partition(":"))
        if scheme.lower() in ("console", "noop"):
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
