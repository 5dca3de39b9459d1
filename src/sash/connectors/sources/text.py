"""What text formats share: cutting files at record ends, reading chunks, accepting and rejecting rows.

All columns of the schema are checked whichever are asked for: whether a row is rejected must not
depend on which queries happen to run.

Planning reads the file once, block by block (see records). Reading holds one block's fields and the
columns asked for.
"""

from __future__ import annotations

import gzip
import os
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO

import numpy as np
import pyarrow as pa

from sash.connectors.sources.chunk import UNKNOWN_ROWS, Bools, Chunk, Int64s, Rejects, Rows
from sash.connectors.sources.convert import (
    ARROW_TYPES,
    NO_TIMESTAMP,
    OUT_OF_RANGE,
    complaint,
    convert,
    event_times,
)
from sash.connectors.sources.failures import unreadable
from sash.connectors.sources.files import FilePlan, FileSource, Piece
from sash.connectors.sources.records import BLOCK_BYTES, UTF8_BOM, Dialect, as_bytes, scan
from sash.lang.bound import StreamDefinition
from sash.lang.types import Type

MAX_CHUNK_BYTES = 128 << 20


def is_gzip(path: str) -> bool:
    return path.lower().endswith(".gz")


class TextSource(FileSource):
    """Files of records, plain or compressed with gzip."""

    @abstractmethod
    def dialect(self) -> Dialect: ...

    @abstractmethod
    def data_begin(self, path: str) -> int:
        """The byte at which the records begin, after a byte order mark and a header."""

    def plan_file(self, path: str, offset: int, row: int, budget: int, target_rows: int) -> FilePlan:
        size = os.path.getsize(path)
        if is_gzip(path):
            piece = Piece(first_row=0, rows=UNKNOWN_ROWS, begin=0, end=size)
            return FilePlan((piece,) if size else (), size, 0, True)
        if offset == 0:
            self.check_file(path)
            offset = self.data_begin(path)
        elif offset > size:
            raise self.error(f"'{path}' is shorter than it was", expected=f"{offset} bytes", got=f"{size}")
        pieces: list[Piece] = []
        with open(path, "rb") as file:
            while budget > 0 and offset < size:
                found, offset = cut(file, offset, size, row, min(budget, target_rows), self.dialect())
                if found is None:
                    break
                pieces.append(found)
                row += found.rows
                budget -= found.rows
        return FilePlan(tuple(pieces), offset, row, offset >= size)


def cut(
    file: IO[bytes], offset: int, size: int, row: int, want: int, dialect: Dialect
) -> tuple[Piece | None, int]:
    """The next `want` records of a file as one piece, and the offset after them."""
    begin, records = offset, 0
    block_bytes = BLOCK_BYTES
    while records < want and offset < size and offset - begin < MAX_CHUNK_BYTES:
        file.seek(offset)
        data = as_bytes(file.read(block_bytes))
        if not len(data):
            break
        stretch = scan(data, offset + len(data) >= size, dialect, want - records)
        offset += stretch.size
        records += stretch.records
        # A record longer than the block needs a longer block; blank lines alone only move on.
        block_bytes = block_bytes if stretch.size else block_bytes * 2
        if stretch.runaway:
            break
    return (Piece(row, records, begin, offset) if records else None), offset


@contextmanager
def opened(path: str) -> Iterator[IO[bytes]]:
    """The bytes of a plain or compressed file, failures told as SourceError."""
    try:
        if is_gzip(path):
            with gzip.open(path, "rb") as unpacked:
                yield unpacked  # type: ignore[misc]
        else:
            with open(path, "rb") as file:
                yield file
    except (OSError, EOFError, zlib.error) as failure:
        raise unreadable(path, failure) from failure


def chunk_reader(file: IO[bytes], chunk: Chunk) -> Callable[[int], bytes]:
    """Reads on through a chunk. Of a compressed file that is everything after the byte order mark."""
    if is_gzip(chunk.path):
        head = file.read(len(UTF8_BOM))
        waiting = b"" if head == UTF8_BOM else head

        def read_all(n: int) -> bytes:
            nonlocal waiting
            data, waiting = waiting + file.read(n), b""
            return data

        return read_all
    file.seek(chunk.begin)
    left = chunk.end - chunk.begin

    def read_range(n: int) -> bytes:
        nonlocal left
        data = file.read(min(n, left))
        left -= len(data)
        return data

    return read_range


class Gatherer:
    """Collects the rows of a chunk block by block."""

    def __init__(
        self,
        stream: StreamDefinition,
        chunk: Chunk,
        columns: Sequence[str] | None,
        *,
        decimals: bool = False,
    ) -> None:
        """`decimals`: a BIGINT may be spelled `1.0` or `1e3`."""
        self.stream = stream
        self._decimals = decimals
        self.columns = stream.schema.names if columns is None else tuple(columns)
        self.rejects = Rejects(chunk.path)
        self.row = chunk.first_row
        self._ts: list[Int64s] = []
        self._numbers: list[Int64s] = []
        self._tables: list[pa.Table] = []

    def reject(self, reason: str, data: str) -> None:
        """The next row is no row at all."""
        self.rejects.add(self.row, reason, data)
        self.row += 1

    def add(
        self,
        count: int,
        strings: Mapping[str, pa.Array],
        broken: Mapping[int, str],
        text: Callable[[int], str],
    ) -> None:
        """Convert the next `count` rows. `broken` rows are rejected whatever their columns say.

        `strings` lacks STRING columns that nobody asked for: they cannot be wrong.
        """
        typed: dict[str, pa.Array] = {}
        reasons: dict[int, list[str]] = {}
        keep = np.ones(count, np.bool_)
        mistimed = np.zeros(count, np.bool_)
        for column in self.stream.schema:
            if column.name not in strings:
                continue
            values, bad = convert(strings[column.name], column.type, decimals=self._decimals)
            typed[column.name] = values
            if bad is not None:
                keep &= ~bad
                mistimed = bad if column.name == self.stream.timestamp else mistimed
                for i in np.flatnonzero(bad).tolist():
                    reason = complaint(column.name, strings[column.name][i].as_py(), column.type)
                    reasons.setdefault(i, []).append(reason)
        ts, missing, outside = event_times(typed.get(self.stream.timestamp), self.stream.unit, count)
        self._refuse_times(missing & ~mistimed, outside, reasons)
        keep &= ~(missing | outside)
        for i, reason in broken.items():
            reasons[i] = [reason]
            keep[i] = False
        for i in sorted(reasons):
            self.rejects.add(self.row + i, "; ".join(reasons[i]), text(i))
        self._accept(count, ts, typed, keep)
        self.row += count

    def rows(self) -> Rows:
        schema = pa.schema([(name, ARROW_TYPES[_type(self.stream, name)]) for name in self.columns])
        tables = self._tables or [schema.empty_table()]
        return Rows(
            np.concatenate([np.zeros(0, np.int64), *self._ts]),
            pa.concat_tables(tables).combine_chunks(),
            np.concatenate([np.zeros(0, np.int64), *self._numbers]),
            self.rejects.to_table(),
        )

    def _refuse_times(self, missing: Bools, outside: Bools, reasons: dict[int, list[str]]) -> None:
        for mask, why in ((missing, NO_TIMESTAMP), (outside, OUT_OF_RANGE)):
            for i in np.flatnonzero(mask).tolist():
                reasons.setdefault(i, []).append(f"{self.stream.timestamp}: {why}")

    def _accept(self, count: int, ts: Int64s, typed: Mapping[str, pa.Array], keep: Bools) -> None:
        numbers = np.arange(self.row, self.row + count, dtype=np.int64)
        table = pa.table({name: typed[name] for name in self.columns})
        if not keep.all():
            ts, numbers = ts[keep], numbers[keep]
            table = table.filter(pa.array(keep)) if self.columns else table
        self._ts.append(ts)
        self._numbers.append(numbers)
        self._tables.append(table)


def _type(stream: StreamDefinition, name: str) -> Type:
    column = stream.schema.get(name)
    assert column is not None, name
    return column.type


def checked_columns(stream: StreamDefinition, columns: Sequence[str] | None) -> tuple[str, ...]:
    """Columns that must be looked at: those asked for, the timestamp, and all that can be wrong."""
    asked = stream.schema.names if columns is None else columns
    return tuple(c.name for c in stream.schema if c.type is not Type.STRING or c.name in asked)
