"""`console:` prints answers as aligned lines; `noop:` counts them and drops them, for benchmarks."""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import pyarrow as pa
import pyarrow.compute as pc

from sash.connectors.sinks.base import Committed, Sink
from sash.connectors.sinks.texts import text_of
from sash.errors import OutputClosed, SinkError
from sash.files import has_reader

_WIDEST = 40


class ConsoleSink(Sink):
    """Prints rows at once. What was printed cannot be taken back: after a crash rows may show twice."""

    is_stream = True

    def __init__(self, uri: str, schema: pa.Schema, stream: TextIO | None = None) -> None:
        super().__init__(uri, schema)
        self._stream = stream
        self._widths = [len(name) for name in schema.names]
        self._rows = 0
        self._has_header = False

    def check(self) -> None:
        """A console can always be written."""

    def open(self, committed: Committed | None) -> None:
        self._rows = 0 if committed is None else int(committed["rows"])

    def write(self, table: pa.Table) -> None:
        if not table.num_rows:
            return
        columns = [self._cells(table.column(number)) for number in range(table.num_columns)]
        if self.tells_progress:
            # Nothing comes after it, so that it may be as long as it is.
            columns[-1] = pc.fill_null(table.column(table.num_columns - 1), "").to_pylist()
        # Widths only grow, so that a column stays put once it has found its place.
        self._widths = [
            max(width, *(len(cell) for cell in cells))
            for width, cells in zip(self._widths, columns, strict=True)
        ]
        lines = [self._line(row) for row in zip(*columns, strict=True)]
        if not self._has_header:
            lines.insert(0, self._line(tuple(self.schema.names)))
            self._has_header = True
        with self._printing():
            self._out().write("".join(lines))
        self._rows += table.num_rows

    def commit(self) -> Committed:
        with self._printing():
            self._out().flush()
        return {"rows": self._rows}

    def close(self) -> None:
        """The stream belongs to the caller."""

    @contextmanager
    def _printing(self) -> Iterator[None]:
        try:
            with self.disk("print"):
                yield
        except SinkError as failure:
            # A terminal that has been closed.
            if isinstance(failure.__cause__, OSError) and failure.__cause__.errno == errno.EIO:
                raise self.closed() from failure
            raise

    def check_reader(self) -> None:
        try:
            handle = self._out().fileno()
        except (OSError, ValueError):
            # Nothing that the system knows of: a notebook, a test.
            return
        if not has_reader(handle):
            raise self.closed()

    def closed(self) -> OutputClosed:
        failure = super().closed()
        failure.is_quiet = True
        return failure

    def _out(self) -> TextIO:
        out = sys.stdout if self._stream is None else self._stream
        if out is None:
            raise self.closed()
        return out

    def _cells(self, column: pa.ChunkedArray) -> list[str]:
        # People read this, a screen at a time: cells as Python strings are fast enough.
        texts = pc.fill_null(text_of(column), "NULL").to_pylist()
        return [_shown(text) for text in texts]

    def _line(self, cells: tuple[str, ...]) -> str:
        placed = (
            cell.rjust(width) if _is_number(kind) else cell.ljust(width)
            for cell, width, kind in zip(cells, self._widths, self.schema.types, strict=True)
        )
        return "  ".join(placed).rstrip() + "\n"


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _shown(text: str) -> str:
    """One cell: control characters would break the line or the terminal."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


class NoopSink(Sink):
    def __init__(self, uri: str, schema: pa.Schema) -> None:
        super().__init__(uri, schema)
        self._rows = 0

    def check(self) -> None:
        """Dropping rows needs nothing."""

    def open(self, committed: Committed | None) -> None:
        self._rows = 0 if committed is None else int(committed["rows"])

    def write(self, table: pa.Table) -> None:
        self._rows += table.num_rows

    def commit(self) -> Committed:
        return {"rows": self._rows}

    def close(self) -> None:
        """There is nothing to let go of."""
