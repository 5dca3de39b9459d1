"""Deltas and states as bytes: between processes, and in files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sash.engine.durability.files import translate_os_errors
from sash.errors import RunError
from sash.operators.delta import Delta
from sash.operators.operator import State

_WORD = 8


def pack_delta(delta: Delta) -> pa.Buffer:
    """Changes in the order of time as an Arrow stream: ts, exp, sign if there is one, columns.

    The schema says how many there are, and the first and the last instant.
    """
    delta = delta.sorted()
    signs = {} if delta.sign is None else {"sign": pa.array(delta.sign)}
    columns = {f"c{i}": column for i, column in enumerate(delta.columns)}
    named = {"ts": pa.array(delta.ts), "exp": pa.array(delta.exp), **signs, **columns}
    extent = (len(delta), int(delta.ts[0]), int(delta.ts[-1])) if len(delta) else (0, 0, 0)
    about = dict(zip(("rows", "first", "last"), map(str, extent), strict=True))
    batch = pa.RecordBatch.from_pydict(named).replace_schema_metadata(about)
    return _stream(batch.schema, [batch])


@dataclass(frozen=True, slots=True)
class Packed:
    """Changes that were packed, in memory or in the file at `path`: they are read when they are needed."""

    rows: int
    first: int
    last: int
    buffer: pa.Buffer | None
    path: str = ""

    @staticmethod
    def of(buffer: pa.Buffer | None, path: str = "") -> Packed:
        about = pa.ipc.open_stream(_content(buffer, path)).schema.metadata
        rows, first, last = (int(about[name]) for name in (b"rows", b"first", b"last"))
        return Packed(rows, first, last, buffer, path)

    def __len__(self) -> int:
        return self.rows

    @property
    def content(self) -> pa.Buffer:
        return _content(self.buffer, self.path)

    @property
    def size(self) -> int:
        return len(self.content)

    def load(self) -> Delta:
        return unpack_delta(self.content)


def _content(buffer: pa.Buffer | None, path: str) -> pa.Buffer:
    if buffer is not None:
        return buffer
    with translate_os_errors(Path(path), "read"), pa.memory_map(path) as file:
        return file.read_buffer()


def unpack_delta(content: pa.Buffer | bytes | memoryview) -> Delta:
    """All rows of a stream."""
    table = pa.ipc.open_stream(content).read_all().combine_chunks()
    columns = [c.chunk(0) if c.num_chunks else pa.array([], c.type) for c in table.columns]
    has_sign = len(columns) > 2 and table.column_names[2] == "sign"
    sign = np.asarray(columns[2]) if has_sign else None
    rest = tuple(columns[3 if has_sign else 2 :])
    return Delta(np.asarray(columns[0]), np.asarray(columns[1]), rest, sign)


def pack_state(state: State) -> list[pa.Buffer]:
    """Named tables: a directory, then the tables."""
    tables = [_stream(table.schema, table.to_batches()) for table in state.values()]
    return list(pack({"tables": list(state)}, tables))


def unpack_state(content: bytes) -> State:
    header, parts = unpack(content)
    tables = (pa.ipc.open_stream(part).read_all() for part in parts)
    return dict(zip(header["tables"], tables, strict=True))


def pack(header: Mapping[str, Any], parts: Sequence[pa.Buffer]) -> Iterator[pa.Buffer]:
    """A header that JSON can write, and parts of any bytes."""
    directory = json.dumps({**header, "sizes": [len(part) for part in parts]}).encode()
    yield pa.py_buffer(len(directory).to_bytes(_WORD, "little") + directory)
    yield from parts


def unpack(content: bytes | pa.Buffer) -> tuple[dict[str, Any], list[pa.Buffer]]:
    whole = pa.py_buffer(content)
    at = _WORD + int.from_bytes(whole[:_WORD], "little")
    header, sizes = header_of(whole[_WORD:at])
    if at + sum(sizes) != len(whole):
        raise unreadable(f"{len(whole):,} bytes instead of {at + sum(sizes):,}")
    parts = []
    for length in sizes:
        parts.append(whole[at : at + length])
        at += length
    return header, parts


def header_of(content: pa.Buffer | memoryview) -> tuple[dict[str, Any], list[int]]:
    """What `pack` was given, and the sizes of the parts; RunError if it is something else."""
    try:
        header = json.loads(bytes(content))
        sizes = header["sizes"]
        if all(isinstance(size, int) and size >= 0 for size in sizes):
            return header, sizes
    except (ValueError, TypeError, LookupError, RecursionError):
        pass
    raise unreadable(f"{len(content):,} bytes that are no header")


def unreadable(got: str) -> RunError:
    return RunError("a message between processes of the run cannot be read", got=got, id="message-damaged")


def _stream(schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()
