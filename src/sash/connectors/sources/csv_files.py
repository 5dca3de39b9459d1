"""`csv:`: comma-separated values, RFC 4180 with the usual liberties.

The fields are found by the record scanner and copied into Arrow string arrays by one kernel (quotes
taken off, doubled quotes halved), then go through the common converters. An empty field is NULL, a
quoted empty one is the empty string.

Cost: see `docs/sources-and-sinks.md` for rows a second; two passes over the bytes plus the conversion.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.connectors.sources.chunk import Bools, Chunk, Rows
from sash.connectors.sources.failures import unreadable
from sash.connectors.sources.files import column_places
from sash.connectors.sources.options import Options
from sash.connectors.sources.records import (
    MAX_RECORD,
    QUOTE,
    UTF8_BOM,
    Bytes,
    Dialect,
    Tokens,
    as_bytes,
    bad_utf8_records,
    blocks,
    record_text,
    scan,
    text_of,
    tokenize,
)
from sash.connectors.sources.text import Gatherer, TextSource, checked_columns, chunk_reader, is_gzip, opened
from sash.errors import SourceError
from sash.lang.bound import StreamDefinition
from sash.state.jit import kernel

OPTIONS = ("delimiter", "header", "null")
_HEADER_BYTES = 1 << 16
_NO_TEXT = {
    b"\x1f\x8b": "it is compressed with gzip: give it a name that ends in .gz",
    b"PK\x03\x04": "it is a zip archive: unpack it",
    b"PAR1\x15": "it is a Parquet file: write FROM 'parquet:…'",
    b"\xff\xfe": "it is UTF-16: save it as UTF-8",
    b"\xfe\xff": "it is UTF-16: save it as UTF-8",
}

Places = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class CsvFormat:
    """The options of a CSV stream."""

    dialect: Dialect
    header: bool
    null: str | None

    @classmethod
    def of(cls, stream: StreamDefinition) -> CsvFormat:
        options = Options.of(stream)
        given = options.text("delimiter", ",")
        delimiter = "\t" if given.lower() in ("tab", "\\t") else given
        if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0':
            raise SourceError(
                f"stream '{stream.name}': option 'delimiter' has a wrong value",
                expected="one ASCII character other than a quote or a line end, or 'tab'",
                got=repr(given),
            )
        dialect = Dialect(ord(delimiter), quotes=True)
        return cls(dialect, options.boolean("header", True), options.optional_text("null"))


class CsvSource(TextSource):
    endings = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz")
    own_options = OPTIONS
    format_name = "csv"

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.format = CsvFormat.of(self.stream)

    def dialect(self) -> Dialect:
        return self.format.dialect

    def check_file(self, path: str) -> None:
        try:
            field_numbers(self.stream, self.format, path)
        except SourceError as failure:
            raise self.error(
                failure.message, expected=failure.expected, got=failure.got, hint=failure.hint
            ) from failure

    def data_begin(self, path: str) -> int:
        return read_header(path, self.format, *_stamp(path)).end


@dataclass(frozen=True, slots=True)
class Header:
    """The names in the first record (none without a header) and the byte after it."""

    names: tuple[str, ...]
    end: int


def _stamp(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError as failure:
        raise unreadable(path, failure) from failure
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=256)
def read_header(path: str, format: CsvFormat, mtime_ns: int, size: int) -> Header:
    """The header of one version of a file; for a compressed file the byte is one of its content."""
    with opened(path) as file:
        head = file.read(_HEADER_BYTES)
        for beginning, what in _NO_TEXT.items():
            if head.startswith(beginning):
                raise SourceError(f"'{path}' is no text that can be read as csv", hint=what)
        skipped = len(UTF8_BOM) if head.startswith(UTF8_BOM) else 0
        if not format.header:
            return Header((), skipped)
        at_end = len(head) < _HEADER_BYTES
        stretch = scan(as_bytes(head)[skipped:], at_end, format.dialect, 1)
        while stretch.records == 0 and not at_end and len(head) < MAX_RECORD:
            more = file.read(len(head))
            at_end = not more
            head += more
            stretch = scan(as_bytes(head)[skipped:], at_end, format.dialect, 1)
    if stretch.records == 0 and len(head) == skipped + stretch.size:
        return Header((), skipped + stretch.size)
    if stretch.records == 0 or stretch.runaway:
        raise SourceError(f"'{path}' has no header: its first line is {runaway_reason(as_bytes(head))}")
    data = as_bytes(head)[skipped : skipped + stretch.size]
    count = int(tokenize(data, format.dialect, np.zeros(0, np.int32), 0).fields[0])
    tokens = tokenize(data, format.dialect, np.arange(count, dtype=np.int32), count)
    if len(bad_utf8_records(data, tokens.record_starts)):
        raise SourceError(f"'{path}' has a header that is not UTF-8", hint="save the file as UTF-8")
    texts = (fields_of(data, tokens, slot, None)[0].as_py() for slot in range(count))
    return Header(tuple((text or "").strip() for text in texts), skipped + stretch.size)


def field_numbers(stream: StreamDefinition, format: CsvFormat, path: str) -> tuple[dict[str, int], int]:
    """Which field of a record holds which column, and how many fields a record has."""
    header = read_header(path, format, *_stamp(path))
    if not format.header:
        return {name: number for number, name in enumerate(stream.schema.names)}, len(stream.schema)
    if not header.names:  # an empty file
        return {}, 0
    hint = _separated(header, stream) or "if the file has no header line, say WITH (header = false)"
    places = column_places(stream, header.names, path, hint)
    return dict(zip(stream.schema.names, places, strict=True)), len(header.names)


def _separated(header: Header, stream: StreamDefinition) -> str | None:
    """What a file may be separated by whose header is one field."""
    (first, *others), names = header.names, {name.lower() for name in stream.schema.names}
    for delimiter, spelled in ((";", ";"), ("\t", "tab"), (",", ","), ("|", "|")):
        if not others and names <= {name.strip().lower() for name in first.split(delimiter)}:
            return f"the columns seem to be separated by {spelled}: say WITH (delimiter = '{spelled}')"
    return None


@kernel
def _null_fields(data: Bytes, starts: Places, ends: Places, quoted: Bools, null: Bytes, out: Bools) -> int:
    """Which fields are NULL (bare, and empty or the NULL spelling); gives the bytes of all the others."""
    total = 0
    for row in range(len(starts)):
        size = ends[row] - starts[row]
        is_null = not quoted[row] and size == 0
        if not is_null and not quoted[row] and size == len(null):
            is_null = True
            for k in range(size):
                if data[starts[row] + k] != null[k]:
                    is_null = False
                    break
        out[row] = is_null
        if not is_null:
            total += size
    return total


@kernel
def _copy_fields(
    data: Bytes,
    starts: Places,
    ends: Places,
    quoted: Bools,
    null: Bools,
    offsets: npt.NDArray[np.int32],
    out: Bytes,
) -> int:
    at = 0
    for row in range(len(starts)):
        offsets[row] = at
        if null[row]:
            continue
        i, end = starts[row], ends[row]
        if not quoted[row]:
            while i < end:
                out[at] = data[i]
                at += 1
                i += 1
            continue
        i += 1
        inside = True
        while i < end:
            if inside and data[i] == QUOTE:
                if i + 1 < end and data[i + 1] == QUOTE:
                    i += 1
                else:
                    inside = False
                    i += 1
                    continue
            out[at] = data[i]
            at += 1
            i += 1
    offsets[len(starts)] = at
    return at


_NO_BYTES = np.zeros(0, np.uint8)


def fields_of(data: Bytes, tokens: Tokens, slot: int, null: Bytes | None) -> pa.Array:
    """One column of a block as strings."""
    starts, ends, quoted = tokens.starts[slot], tokens.ends[slot], tokens.quoted[slot]
    n = len(starts)
    is_null = np.empty(n, np.bool_)
    total = _null_fields(data, starts, ends, quoted, _NO_BYTES if null is None else null, is_null)
    offsets, out = np.empty(n + 1, np.int32), np.empty(total, np.uint8)
    size = _copy_fields(data, starts, ends, quoted, is_null, offsets, out)
    validity = pa.py_buffer(np.packbits(~is_null, bitorder="little")) if is_null.any() else None
    return pa.StringArray.from_buffers(n, pa.py_buffer(offsets), pa.py_buffer(out[:size]), validity)


def read_csv(stream: StreamDefinition, chunk: Chunk, columns: Sequence[str] | None) -> Rows:
    """The rows of a chunk."""
    format = CsvFormat.of(stream)
    numbers, width = field_numbers(stream, format, chunk.path)
    gatherer = Gatherer(stream, chunk, columns)
    wanted = [name for name in checked_columns(stream, columns) if name in numbers]
    slots = np.full(width, -1, np.int32)
    for slot, name in enumerate(wanted):
        slots[numbers[name]] = slot
    null = None if format.null is None else as_bytes(format.null.encode())
    header_waits = format.header and is_gzip(chunk.path)
    with opened(chunk.path) as file:
        for data, stretch in blocks(chunk_reader(file, chunk), format.dialect):
            if header_waits:
                # Offsets say nothing in compressed files, so their header is met again here.
                header_waits = False
                data = data[scan(data, True, format.dialect, 1).size :]
                if not len(data):
                    continue
            if stretch.runaway:
                gatherer.reject(runaway_reason(data), text_of(data, 0, len(data)))
                continue
            tokens = tokenize(data, format.dialect, slots, len(wanted))
            broken = _broken(data, tokens, width)
            for i in broken:
                # Blank fields are NULL and cannot trip a converter; the row is rejected anyway.
                tokens.starts[:, i] = tokens.ends[:, i] = 0
                tokens.quoted[:, i] = False
            strings = {name: fields_of(data, tokens, slot, null) for slot, name in enumerate(wanted)}
            gatherer.add(
                len(tokens.fields),
                strings,
                broken,
                partial(record_text, data, tokens),
            )
    return gatherer.rows()


def runaway_reason(data: Bytes) -> str:
    if len(data) >= MAX_RECORD:
        return f"a record longer than {MAX_RECORD >> 20} MiB"
    return "a quote that never closes"


def _broken(data: Bytes, tokens: Tokens, width: int) -> dict[int, str]:
    wrong = np.flatnonzero(tokens.fields != width).tolist()
    broken = {i: f"expected {width} fields, got {tokens.fields[i]}" for i in wrong}
    for i in bad_utf8_records(data, tokens.record_starts).tolist():
        broken[i] = "bytes that are not UTF-8"
    return broken
