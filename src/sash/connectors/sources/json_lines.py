"""`json:`: JSON lines, one object a line.

DuckDB parses each line once and gives the members as text; the common converters do the rest. A line
that is not a JSON object is rejected, a missing member is NULL, an object or array in a STRING column
keeps its JSON text.

A column takes the member of its own name, or, unless it was quoted with capitals, the one member that is
spelled like it but for case in the file's first line: names in CQL know no case, names in JSON do. Looking
at one line makes the choice a property of the file, not of the chunk.

Cost: about 0.6 M rows/s and core for six members, most of it inside DuckDB.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import lru_cache, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.connectors.sources.chunk import Bools, Chunk, Rows
from sash.connectors.sources.csv_files import runaway_reason
from sash.connectors.sources.failures import unreadable
from sash.connectors.sources.files import column_place
from sash.connectors.sources.records import (
    JSON_LINES,
    MAX_RECORD,
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
from sash.connectors.sources.text import Gatherer, TextSource, checked_columns, chunk_reader, opened
from sash.duck import connection
from sash.errors import SourceError
from sash.lang.bound import StreamDefinition

_NO_SLOTS = np.zeros(0, np.int32)


class JsonSource(TextSource):
    endings = (".json", ".jsonl", ".ndjson", ".json.gz", ".jsonl.gz", ".ndjson.gz")
    format_name = "json"

    def dialect(self) -> Dialect:
        return JSON_LINES

    def check_file(self, path: str) -> None:
        """JSON has no header: a member may be missing from any line, but not have two spellings."""
        try:
            member_names(path, self.stream.schema.names)
        except SourceError as failure:
            raise self.error(
                failure.message, expected=failure.expected, got=failure.got, hint=failure.hint
            ) from failure

    def data_begin(self, path: str) -> int:
        with opened(path) as file:
            return len(UTF8_BOM) if file.read(len(UTF8_BOM)) == UTF8_BOM else 0


def read_json(stream: StreamDefinition, chunk: Chunk, columns: Sequence[str] | None) -> Rows:
    """The rows of a chunk."""
    gatherer = Gatherer(stream, chunk, columns, decimals=True)
    wanted = checked_columns(stream, columns)
    members = member_names(chunk.path, wanted)
    with opened(chunk.path) as file:
        for data, stretch in blocks(chunk_reader(file, chunk), JSON_LINES):
            if stretch.runaway:
                gatherer.reject(runaway_reason(data), text_of(data, 0, len(data)))
                continue
            tokens = tokenize(data, JSON_LINES, _NO_SLOTS, 0)
            lines, broken = _lines(data, tokens)
            is_object, strings = _members(lines, wanted, members)
            for i in np.flatnonzero(~is_object).tolist():
                broken.setdefault(i, "not a JSON object")
            gatherer.add(
                len(lines),
                strings,
                broken,
                partial(record_text, data, tokens),
            )
    return gatherer.rows()


def _lines(data: Bytes, tokens: Tokens) -> tuple[pa.Array, dict[int, str]]:
    """The lines as strings that share the block's bytes; broken ones are NULL.

    A line reaches up to the next one: a line end is white space, which JSON does not mind.
    """
    offsets = np.append(tokens.record_starts, len(data)).astype(np.int32)
    broken = {i: "bytes that are not UTF-8" for i in bad_utf8_records(data, tokens.record_starts).tolist()}
    n = len(offsets) - 1
    validity = None
    if broken:
        valid = np.ones(n, np.bool_)
        valid[list(broken)] = False
        validity = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.StringArray.from_buffers(n, pa.py_buffer(offsets), pa.py_buffer(data), validity), broken


def _members(
    lines: pa.Array, columns: Sequence[str], members: Sequence[str]
) -> tuple[Bools, dict[str, pa.Array]]:
    structure = json.dumps({member: "VARCHAR" for member in members}).replace("'", "''")
    source = connection().from_arrow(pa.table({"line": lines}))
    found = source.project(
        "coalesce(json_valid(line), false) AS valid, "
        "CASE WHEN valid AND json_type(line) = 'OBJECT' "
        f"THEN json_transform(line, '{structure}') END AS members"
    ).to_arrow_table()
    structs = found["members"].combine_chunks()
    if isinstance(structs, pa.ChunkedArray):
        structs = pa.concat_arrays(structs.chunks) if structs.num_chunks else pa.array([], structs.type)
    is_object = structs.is_valid().to_numpy(zero_copy_only=False)
    return is_object, {
        column: pc.struct_field(structs, [number]).cast(pa.string()) for number, column in enumerate(columns)
    }


def member_names(path: str, columns: Sequence[str]) -> tuple[str, ...]:
    """For each column the member that fills it, by the spelling in the file's first line."""
    try:
        status = os.stat(path)
    except OSError as failure:
        raise unreadable(path, failure) from failure
    spelled = _first_spellings(path, status.st_mtime_ns, status.st_size)
    places = {column: column_place(column, spelled, path) for column in columns}
    return tuple(column if at is None else spelled[at] for column, at in places.items())


@lru_cache(maxsize=256)
def _first_spellings(path: str, mtime_ns: int, size: int) -> tuple[str, ...]:
    with opened(path) as file:
        head = file.read(1 << 16)
        stretch = scan(as_bytes(head), False, JSON_LINES, 1)
        if stretch.records == 0:
            head += file.read(MAX_RECORD)
            stretch = scan(as_bytes(head), True, JSON_LINES, 1)
    first = head[: stretch.size].removeprefix(UTF8_BOM)
    try:
        members = json.loads(first)
    except (ValueError, RecursionError):
        return ()
    return tuple(members) if isinstance(members, dict) else ()
