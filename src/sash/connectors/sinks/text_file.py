"""Sinks that append lines to one file: `jsonl:` and `csv:` differ only in how a row is spelled.

Invariant of a file: the committed position is its size, and it ends with a whole row at every commit. Going
on means cutting the file back to that size. Pipes and devices are another matter (`output_stream.py`). Each
`write` is one run of os.write over bytes that are ready, so whoever follows the output sees whole rows.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from sash.connectors.sinks.base import Committed, Sink
from sash.connectors.sinks.output_file import OutputFile
from sash.connectors.sinks.output_stream import OutputStream, descriptor_of, is_stream
from sash.connectors.sinks.texts import flat
from sash.errors import OutputClosed
from sash.standard_streams import was_closed

# Rows spelled out at a time: bounds the memory that a large answer takes as text.
ROWS_AT_ONCE = 65_536


class TextFileSink(Sink):
    def __init__(self, uri: str, schema: pa.Schema, path: Path) -> None:
        super().__init__(uri, schema)
        self.path = path
        self._file = OutputFile(self, path)
        self._stream = OutputStream(self, path)
        self.is_stream = is_stream(path)

    @abstractmethod
    def lines(self, table: pa.Table) -> pa.Array:
        """One large string a row, line end included."""

    def head(self) -> bytes:
        """What a new file begins with."""
        return b""

    def check(self) -> None:
        if self.is_stream:
            self._check_stream()
            return
        self.check_directory(self.path.parent)
        if self.path.is_dir():
            raise self.error("is a directory", expected="the name of a file")
        if self.path.exists() and not os.access(self.path, os.W_OK):
            raise self.error("the file cannot be written", hint="check the permissions of the file")

    def _check_stream(self) -> None:
        number = descriptor_of(self.path)
        try:
            if number is not None:
                os.fstat(number)
            is_open = number is None or not was_closed(number)
        except OSError:
            is_open = False
        if not is_open:
            raise self.error("it is not open", hint="name an output that whoever starts the run has opened")
        if number is None and not os.access(self.path, os.W_OK):
            raise self.error("it cannot be written", hint="check its permissions")

    def lock(self) -> None:
        if not self.is_stream:
            self._file.lock()

    def open(self, committed: Committed | None) -> None:
        if self.is_stream:
            self._stream.begin(self.look)
        elif committed is None:
            self._file.begin()
        else:
            self._file.resume(committed)
        if committed is None:
            self._append(memoryview(self.head()))

    def verify(self, committed: Committed) -> None:
        (self._stream if self.is_stream else self._file).verify(committed)

    def write(self, table: pa.Table) -> None:
        write_together([(self, table)])

    def append(self, lines: pa.Array) -> None:
        """Write rows that have been spelled out."""
        self.look()
        self._append(_bytes_of(lines))

    def _append(self, data: memoryview) -> None:
        if self.is_stream:
            self._stream.append(data, self.look)
        else:
            self._file.append(data)

    def commit(self) -> Committed:
        return self._stream.commit() if self.is_stream else self._file.commit(durable=self.durable)

    def revert(self) -> None:
        self._file.revert()

    def leave(self) -> None:
        self._file.leave()

    def check_unchanged(self) -> None:
        self._file.check()

    def check_reader(self) -> None:
        self._stream.check_reader()

    def closed(self) -> OutputClosed:
        failure = super().closed()
        # As `cat`: nobody needs to hear that `head` has had enough.
        failure.is_quiet = descriptor_of(self.path) is not None
        return failure

    def close(self) -> None:
        (self._stream if self.is_stream else self._file).close()


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
