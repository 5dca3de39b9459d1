"""Deltas and states as bytes: between processes, and in files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sash.operators.delta import Delta
from sash.operators.operator import State

_WORD = 8


def pack_delta(delta: Delta) -> bytes:
    """A delta as an Arrow stream: ts, exp, sign if there is one, and the columns."""
    arrays: list[pa.Array] = [pa.array(delta.ts), pa.array(delta.exp)]
    names = ["ts", "exp"]
    if delta.sign is not None:
        arrays.append(pa.array(delta.sign))
        names.append("sign")
    arrays.extend(delta.columns)
    names.extend(f"c{i}" for i in range(len(delta.columns)))
    return _stream(pa.Table.from_arrays(arrays, names=names))


def unpack_delta(content: bytes | memoryview | pa.Buffer) -> Delta:
    table = pa.ipc.open_stream(content).read_all().combine_chunks()
    columns = [
        column.chunk(0) if column.num_chunks else pa.array([], column.type) for column in table.columns
    ]
    has_sign = len(columns) > 2 and table.column_names[2] == "sign"
    sign = np.asarray(columns[2]) if has_sign else None
    rest = tuple(columns[3 if has_sign else 2 :])
    return Delta(np.asarray(columns[0]), np.asarray(columns[1]), rest, sign)


def pack_state(state: State) -> bytes:
    """Named tables: a directory, then the tables."""
    return pack({"tables": list(state)}, [_stream(table) for table in state.values()])


def unpack_state(content: bytes) -> State:
    header, parts = unpack(content)
    tables = (pa.ipc.open_stream(part).read_all() for part in parts)
    return dict(zip(header["tables"], tables, strict=True))


def pack(header: Mapping[str, Any], parts: Sequence[bytes]) -> bytes:
    """A header that JSON can write, and parts of any bytes."""
    directory = json.dumps({**header, "sizes": [len(part) for part in parts]}).encode()
    return b"".join([len(directory).to_bytes(_WORD, "little"), directory, *parts])


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


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]
