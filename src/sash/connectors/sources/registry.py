"""Schemes: which source a stream's `FROM 'scheme:rest'` means.

To add a format, write its Source and its read function and enter both here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from sash.connectors.sources.base import Source
from sash.connectors.sources.chunk import Chunk, Position, Rows
from sash.connectors.sources.convert import ARROW_TYPES
from sash.connectors.sources.csv_files import CsvSource, read_csv
from sash.connectors.sources.files import FileSource
from sash.connectors.sources.json_lines import JsonSource, read_json
from sash.connectors.sources.packets import PacketSource, read_packets
from sash.connectors.sources.parquet_files import ParquetSource, read_parquet
from sash.errors import SourceError
from sash.lang.bound import StreamDefinition
from sash.state.groups import plain

Reader = Callable[[StreamDefinition, Chunk, Sequence[str] | None], Rows]

FILES: dict[str, type[FileSource]] = {"csv": CsvSource, "json": JsonSource, "parquet": ParquetSource}
READERS: dict[str, Reader] = {
    "csv": read_csv,
    "generator": read_packets,
    "json": read_json,
    "parquet": read_parquet,
}
# A step in which a relation is read.
MOST_RELATION_ROWS = 10_000_000
SCHEMES = tuple(sorted(READERS))


def split_source(stream: StreamDefinition) -> tuple[str, str]:
    """The scheme, which is known, and the rest of a stream's source."""
    scheme, colon, rest = stream.source.partition(":")
    scheme = scheme.strip().lower()
    if not colon or scheme not in SCHEMES:
        raise SourceError(
            f"stream '{stream.name}': unknown source '{stream.source}'",
            expected=f"'scheme:path' with one of the schemes {', '.join(SCHEMES)}",
            hint=f"for a file write '{SCHEMES[0]}:{stream.source}'" if not colon else None,
        )
    return scheme, rest.strip()


def open_source(
    stream: StreamDefinition, base_dir: Path, now: Callable[[], float] = time.monotonic
) -> Source:
    """The source of a stream. Relative paths count from `base_dir`; `now` paces generators."""
    scheme, rest = split_source(stream)
    if scheme == "generator":
        return PacketSource(stream, rest, now)
    return FILES[scheme](stream, rest, base_dir.absolute())


def read(stream: StreamDefinition, chunk: Chunk, columns: Sequence[str] | None = None) -> Rows:
    """The rows of a chunk, in a task: the asked columns in the asked order, all of them for None."""
    scheme, _ = split_source(stream)
    if columns is not None:
        for name in columns:
            if stream.schema.get(name) is None:
                raise ValueError(f"stream '{stream.name}' has no column '{name}'")
    return READERS[scheme](stream, chunk, columns)


def check_ends(source: Source) -> None:
    """Raise SourceError unless a relation can be read once from this source."""
    if not source.bounded:
        raise source.error(
            "a relation that is read once needs input that ends",
            hint="name files, or give the relation a TIMESTAMP BY to make it a feed of changes",
        )


def read_whole(stream: StreamDefinition, base_dir: Path) -> list[pa.Array]:
    """All rows of a bounded source, column by column: how a relation is read that does not change."""
    source = open_source(stream, base_dir)
    source.check()
    check_ends(source)
    tables = []
    position: Position = {}
    ended = False
    while not ended:
        plan = source.plan(position, MOST_RELATION_ROWS)
        position, ended = plan.position, plan.ended
        for chunk in plan.chunks:
            rows = read(stream, chunk)
            if rows.rejects.num_rows:
                first = rows.rejects.slice(0, 1).to_pylist()[0]
                raise source.error(f"row {first['row']} does not fit: {first['reason']}", got=first["data"])
            tables.append(rows.table)
    schema = pa.schema([(column.name, ARROW_TYPES[column.type]) for column in stream.schema])
    if not tables:
        return [pa.array([], field.type) for field in schema]
    whole = pa.concat_tables(tables)
    return [plain(whole.column(name)) for name in schema.names]
