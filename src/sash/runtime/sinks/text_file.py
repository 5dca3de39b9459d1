"""Sinks that append lines to one file: `jsonl:` and `csv:` differ only in how a row is spelled.

Invariant: the committed position is the size of the file, and the file ends with a whole row at every
commit. Going on means cutting the file back to that size. Each `write` is one run of os.write over
bytes that are ready, so whoever follows the file sees whole rows.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from sash.files import sync_directory
from sash.runtime.sinks.base import Committed, Sink
from sash.runtime.sinks.texts import flat

# Rows spelled out at a time: bounds the memory that a large answer takes as text.
ROWS_AT_ONCE = 65_536


class TextFileSink(Sink):
    def __init__(self, uri: str, schema: pa.Schema, path: Path) -> None:
        super().__init__(uri, schema)
        self.path = path
        self._handle: int | None = None
        self._size = 0
        self._synced = -1
        self._checked = -1

    @abstractmethod
    def lines(self, table: pa.Table) -> pa.Array:
        """One large string a row, line end included."""

    def head(self) -> bytes:
        """What a new file begins with."""
        return b""

    def check(self) -> None:
        self.check_directory(self.path.parent)
        if self.path.is_dir():
            raise self.error("is a directory", expected="the name of a file")
        if self.path.exists() and not os.access(self.path, os.W_OK):
            raise self.error("the file cannot be written", hint="check the permissions of the file")

    def open(self, committed: Committed | None) -> None:
        if committed is None:
            with self.disk("create the file"):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
                sync_directory(self.path.parent)
            self._size = 0
            self._append(self.head())
            return
        size = int(committed["size"])
        present = self.path.stat().st_size if self.path.is_file() else None
        if present is None or present < size:
            raise self.error(
                "the output is not what the checkpoint says" if present is not None else "the output is gone",
                expected=f"at least {size} bytes",
                got="no file" if present is None else f"{present} bytes",
                hint="put the file back, or start anew with a fresh checkpoint directory",
            )
        with self.disk("go on with the file"):
            self._handle = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
            os.ftruncate(self._handle, size)
            os.lseek(self._handle, size, os.SEEK_SET)
        self._size = size

    def write(self, table: pa.Table) -> None:
        write_together([(self, table)])

    def append(self, lines: pa.Array) -> None:
        """Write rows that have been spelled out."""
        self._append(_bytes_of(lines))

    def commit(self) -> Committed:
        if self._size != self._checked:
            self._check_place()
            self._checked = self._size
        if self.durable and self._size != self._synced:
            with self.disk("write to disk"):
                os.fsync(self._opened())
            self._synced = self._size
        return {"size": self._size}

    def close(self) -> None:
        if self._handle is not None:
            handle, self._handle = self._handle, None
            with self.disk("close the file"):
                os.close(handle)

    def _opened(self) -> int:
        assert self._handle is not None, "open() comes first"
        return self._handle

    def _check_place(self) -> None:
        """A file that was removed takes rows as willingly as any other, and nobody will ever see them."""
        with self.disk("find the file"):
            there = os.stat(self.path)
        ours = os.fstat(self._opened())
        if (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino):
            raise self.error(
                "the file was replaced while the run was writing to it",
                hint="put the file back, or start anew with a fresh checkpoint directory",
            )

    def _append(self, data: bytes | memoryview) -> None:
        rest = memoryview(data)
        handle = self._opened()
        with self.disk("write"):
            while len(rest):
                written = os.write(handle, rest)
                self._size += written
                rest = rest[written:]


def write_together(given: Iterable[tuple[TextFileSink, pa.Table]]) -> None:
    """Write tables to their files; those with the same columns are spelled out at once.

    Most tables are small, and to spell out hundreds of them takes hardly longer than one.
    """
    alike: dict[tuple[type[TextFileSink], pa.Schema], list[tuple[TextFileSink, pa.Table]]] = {}
    for sink, table in given:
        alike.setdefault((type(sink), table.schema), []).append((sink, table))
    for pairs in alike.values():
        whole = pa.concat_tables([table for _, table in pairs])
        sinks = iter(pairs)
        sink, end = pairs[0][0], 0
        for start in range(0, whole.num_rows, ROWS_AT_ONCE):
            stop = min(start + ROWS_AT_ONCE, whole.num_rows)
            lines = sink.lines(whole.slice(start, stop - start))
            at = start
            while at < stop:
                if at == end:
                    sink, table = next(sinks)
                    end += table.num_rows
                through = min(end, stop)
                if through > at:
                    sink.append(lines.slice(at - start, through - at))
                at = through


def _bytes_of(lines: pa.Array) -> memoryview:
    """The text of all lines, which Arrow keeps in one piece."""
    lines = flat(lines)
    _, offsets, data = lines.buffers()
    if data is None or not len(lines):
        return memoryview(b"")
    ends = memoryview(offsets).cast("B").cast("q")
    return memoryview(data).cast("B")[ends[lines.offset] : ends[lines.offset + len(lines)]]
