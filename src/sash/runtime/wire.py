"""Deltas and states as bytes: between processes, and in files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sash.operators.delta import Delta
from sash.operators.operator import State

_WORD = 8


def pack_deltas(deltas: Sequence[Delta]) -> pa.Buffer:
    """Deltas of the same columns, at least one, as an Arrow stream: ts, exp, sign if any has one, columns."""
    has_sign = any(delta.sign is not None for delta in deltas)
    columns = range(len(deltas[0].columns))
    names = ["ts", "exp", *(["sign"] if has_sign else []), *(f"c{i}" for i in columns)]
    batches = []
    for delta in deltas:
        times = [pa.array(delta.ts), pa.array(delta.exp)]
        signs = [pa.array(delta.signs())] if has_sign else []
        batches.append(pa.RecordBatch.from_arrays([*times, *signs, *delta.columns], names=names))
    return _stream(batches[0].schema, batches)


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


def unpack(content: bytes) -> tuple[dict[str, Any], list[pa.Buffer]]:
    size = int.from_bytes(content[:_WORD], "little")
    header = json.loads(content[_WORD : _WORD + size])
    whole = pa.py_buffer(content)
    at = _WORD + size
    parts = []
    for length in header["sizes"]:
        parts.append(whole[at : at + length])
        at += length
    return header, parts


def _stream(schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()
