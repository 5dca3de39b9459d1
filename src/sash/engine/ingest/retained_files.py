"""Rows that a stream keeps (RETAIN): files of a chunk's accepted rows, and what is in them.

A task writes the rows of its chunk as they are, under a name that no other attempt has; the file counts once
the manifest, or without a checkpoint the run, names it. It is removed when all of its rows are older than the
stream keeps them. Files never change, so whoever has opened them may read on while the run removes them; who
comes too late to open one takes a newer snapshot.

Small files that follow one another are put together, eight at a time, so a stream of small batches has few.

An index of a stream (CREATE INDEX) has a file beside each of these, which the same task writes: the
sub-windows of 003, each with an index of its own that goes with it. Whoever finds none reads the rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.engine.durability.files import forget_unnamed, new_attempt, save_file, stamp
from sash.engine.ingest.watermarks import Clock, StreamState
from sash.errors import CheckpointError
from sash.indexes.immutable_index import ImmutableIndex, build_still
from sash.lang.bound import IndexDefinition, StreamDefinition
from sash.plan.cost.indexes import index_of_kept_rows
from sash.state.groups import plain

if TYPE_CHECKING:
    from sash.engine.reads.synopsis_read import KeptPanes

Int64Array = npt.NDArray[np.int64]
RETAINED = "retained"
FIRST = -(1 << 62)
"""Before every row."""
# So many files that follow one another become one, unless it would have too many rows, or so much of what the
# stream keeps that it would stay long after most of its rows have gone.
_TOGETHER = 8
_MOST_ROWS = 1 << 20
_MOST_OF_RETAIN = 16


@dataclass(frozen=True, slots=True)
class Keep:
    """Where the tasks of a batch put rows that are kept."""

    directory: Path
    batch: int
    durable: bool
    indexes: tuple[IndexDefinition, ...] = ()


@dataclass(frozen=True, slots=True)
class RetainedFile:
    """The accepted rows of a chunk, or of several, by the first of them.

    Those of a stream are in the order of (batch, sequence). `attempt` is who has written it.
    """

    stream: str
    batch: int
    sequence: int
    oldest: int
    newest: int
    rows: int
    attempt: str
    chunks: int = 1

    @property
    def name(self) -> str:
        return f"{self._stem}.arrow"

    def index(self, place: int) -> str:
        """The name of the index of the column with that number."""
        return f"{self._stem}.{place}.index"

    @property
    def _stem(self) -> str:
        several = f"+{self.chunks}" if self.chunks > 1 else ""
        return f"{self.stream}.{self.sequence}{several}.{stamp(self.batch, self.attempt)}"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a run knows after a committed batch: how far it is, and which rows its streams keep.

    `passed` is the instant of each stream that every query of the run which reads it has passed.
    """

    directory: Path
    batch: int
    clock: Clock
    streams: Mapping[str, StreamState]
    passed: Mapping[str, int]
    kept: tuple[RetainedFile, ...]
    # The synopses, where they are on disk.
    panes: KeptPanes | None = None

    def through(self, streams: Collection[str]) -> int | None:
        """The instant up to which all is known of some streams; of relations alone, the newest of any."""
        if not self.streams.keys() >= set(streams):
            return None
        if streams:
            return self.clock.through(self.streams, streams)
        known = (self.clock.through(self.streams, [name]) for name in self.streams)
        return max((instant for instant in known if instant is not None), default=None)

    def complete_since(self, stream: StreamDefinition) -> int | None:
        """All rows of a stream that came after this instant are kept; None: all rows.

        Of a stream that keeps none, that is the newest that it has given.
        """
        if self.is_whole(stream.name):
            return None
        if stream.retain is None:
            return self.streams[stream.name].newest
        # Rows are let go of as the queries of the run pass them.
        passed = self.passed.get(stream.name)
        return None if passed is None else passed - stream.retain

    def is_whole(self, stream: str) -> bool:
        """Whether no row of a stream has been let go of."""
        rows = sum(file.rows for file in self.kept if file.stream == stream)
        return rows == self.streams[stream].counts.accepted


def keep_rows(
    keep: Keep, stream: StreamDefinition, sequence: int, ts: Int64Array, table: pa.Table
) -> RetainedFile:
    """Write the accepted rows of a chunk, at least one, with their instants."""
    file = RetainedFile(
        stream.name, keep.batch, sequence, int(ts.min()), int(ts.max()), len(ts), new_attempt()
    )
    names = [f"c{i}" for i in range(table.num_columns)]
    _save_kept(keep, file, stream, table.rename_columns(names).add_column(0, "ts", pa.array(ts)))
    return file


def _save_kept(keep: Keep, file: RetainedFile, stream: StreamDefinition, rows: pa.Table) -> None:
    for index in keep.indexes:
        if index.stream == stream.name:
            _index(keep, file, stream, index, rows)
    _save(keep.directory / file.name, rows, durable=keep.durable)


def put_together(keep: Keep, files: list[RetainedFile], stream: StreamDefinition) -> list[RetainedFile]:
    """Files of a stream in their order, the last ones as one if they are enough of one kind."""
    while (small := files[-_TOGETHER:]) and _belong_together(small, stream):
        try:
            tables = [open_kept(keep.directory / file.name) for file in small]
        except (Gone, CheckpointError):
            # Whoever asks for the rows is told.
            return files
        rows = pa.concat_tables(_alike(tables)).unify_dictionaries().combine_chunks()
        whole = replace(
            small[0],
            oldest=min(file.oldest for file in small),
            newest=max(file.newest for file in small),
            rows=len(rows),
            attempt=new_attempt(),
            chunks=sum(file.chunks for file in small),
        )
        _save_kept(keep, whole, stream, rows)
        files = [*files[:-_TOGETHER], whole]
    return files


def _belong_together(files: Sequence[RetainedFile], stream: StreamDefinition) -> bool:
    assert stream.retain is not None
    span = max(file.newest for file in files) - min(file.oldest for file in files)
    return (
        len(files) == _TOGETHER
        and len({file.chunks for file in files}) == 1
        and sum(file.rows for file in files) <= _MOST_ROWS
        and _MOST_OF_RETAIN * span <= stream.retain
    )


def _alike(tables: list[pa.Table]) -> list[pa.Table]:
    """Tables with columns of the same types: a chunk may have its words in a dictionary, or not."""
    if all(table.schema == tables[0].schema for table in tables):
        return tables
    names = tables[0].column_names
    return [pa.table([plain(column) for column in table.columns], names) for table in tables]


def index_kept(keep: Keep, kept: Iterable[RetainedFile], streams: Iterable[StreamDefinition]) -> None:
    """Make the indexes that files do not have yet, or of another kind."""
    known = {stream.name: stream for stream in streams}
    for file in kept:
        for index in keep.indexes:
            stream = known.get(file.stream)
            if stream is None or index.stream != file.stream:
                continue
            found = open_index(keep.directory, file, place_of(stream, index.column))
            if found is None or found.spec != str(index_of_kept_rows(index, stream).spec):
                _index(keep, file, stream, index, open_kept(keep.directory / file.name))


def place_of(stream: StreamDefinition, column: str) -> int:
    """The number of a column of a stream."""
    return [each.name for each in stream.schema].index(column)


def _index(
    keep: Keep, file: RetainedFile, stream: StreamDefinition, index: IndexDefinition, rows: pa.Table
) -> None:
    place = place_of(stream, index.column)
    table = build_still(index_of_kept_rows(index, stream).spec, _values(rows.column(f"c{place}")))
    _save(keep.directory / file.index(place), table, durable=keep.durable)


def _values(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array, whose words keep their numbers where they have any."""
    has_words = pa.types.is_dictionary(column.type) and column.num_chunks > 0
    if has_words and not any(chunk.dictionary.null_count for chunk in column.chunks):
        return pa.concat_arrays(column.unify_dictionaries().chunks)
    return plain(column)


def _save(path: Path, table: pa.Table, *, durable: bool) -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    save_file(path, [sink.getvalue()], durable=durable)


def live(
    kept: Iterable[RetainedFile], streams: Iterable[StreamDefinition], passed: Mapping[str, int]
) -> list[RetainedFile]:
    """The files that still have a row that is kept."""
    spans = {stream.name: stream.retain for stream in streams if stream.retain is not None}
    return [
        file
        for file in kept
        if file.stream in spans
        and ((instant := passed.get(file.stream)) is None or file.newest > instant - spans[file.stream])
    ]


def forget(keep: Keep, kept: Iterable[RetainedFile], streams: Iterable[StreamDefinition]) -> None:
    """Remove files that nobody names, but for those of batches after `keep.batch`, which are under way."""
    known = {stream.name: stream for stream in streams}
    places = [(i.stream, place_of(known[i.stream], i.column)) for i in keep.indexes if i.stream in known]
    names = set()
    for file in kept:
        names.add(file.name)
        names.update(file.index(place) for stream, place in places if stream == file.stream)
    forget_unnamed(keep.directory, names, keep.batch)


class Gone(Exception):
    """A file of a snapshot has been removed meanwhile: there is a newer snapshot."""


def kept_rows(
    snapshot: Snapshot, stream: StreamDefinition, since: int
) -> Iterator[tuple[int, Int64Array, pa.Table]]:
    """Rows of a stream that are later than `since`, file by file in their order.

    Gives the rank of each piece, its instants, and its rows with all columns.
    """
    files = in_order(file for file in snapshot.kept if file.stream == stream.name and file.newest > since)
    opened = [(file, open_kept(snapshot.directory / file.name)) for file in files]
    for rank, (file, table) in enumerate(opened):
        yield rank, *rows_later(file, table, stream, since)


def rows_later(
    file: RetainedFile, table: pa.Table, stream: StreamDefinition, since: int
) -> tuple[Int64Array, pa.Table]:
    """The instants and rows of a file that are later than `since`."""
    ts = table.column(0).to_numpy()
    rows = table.remove_column(0).rename_columns([column.name for column in stream.schema])
    if file.oldest <= since:
        wanted = ts > since
        ts, rows = ts[wanted], rows.filter(pa.array(wanted))
    return ts, rows


def in_order(files: Iterable[RetainedFile]) -> list[RetainedFile]:
    """Files of a stream in the order of their rows."""
    return sorted(files, key=lambda file: (file.batch, file.sequence))


def open_index(directory: Path, file: RetainedFile, place: int) -> ImmutableIndex | None:
    """The index of a column of a file; None if it has none."""
    path = directory / file.index(place)
    try:
        index = ImmutableIndex(open_kept(path))
    except Gone:
        return None
    if not index.leads_into(file.rows):
        raise _damaged(path, "an index that leads out of its file")
    return index


def open_kept(path: Path) -> pa.Table:
    """The rows of a file, with their instants first; they stay when the run removes the file."""
    try:
        with pa.memory_map(str(path)) as source:
            return pa.ipc.open_file(source).read_all()
    except FileNotFoundError as failure:
        raise Gone(str(path)) from failure
    except (OSError, pa.ArrowInvalid) as failure:
        raise _damaged(path, str(failure)) from failure


def open_rows(directory: Path, file: RetainedFile) -> pa.Table:
    """The rows of a file, as many as were kept."""
    table = open_kept(directory / file.name)
    if table.num_rows != file.rows:
        raise _damaged(directory / file.name, f"{table.num_rows:,} of {file.rows:,} rows")
    return table


def _damaged(path: Path, got: str) -> CheckpointError:
    return CheckpointError(
        f"cannot read '{path}'",
        got=got,
        hint="the rows that it keeps are lost to questions; standing queries are not concerned",
        id="kept-rows-damaged",
    )
