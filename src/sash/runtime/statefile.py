"""The state of operators as one file: a directory of named Arrow tables, then the tables."""

from __future__ import annotations

import json

import pyarrow as pa

from sash.operators.operator import State

_WORD = 8


def pack(state: State) -> bytes:
    names: dict[str, int] = {}
    parts: list[pa.Buffer] = []
    for name, table in state.items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        parts.append(sink.getvalue())
        names[name] = parts[-1].size
    directory = json.dumps(names).encode()
    return b"".join(
        [len(directory).to_bytes(_WORD, "little"), directory, *(part.to_pybytes() for part in parts)]
    )


def unpack(content: bytes) -> State:
    size = int.from_bytes(content[:_WORD], "little")
    names = json.loads(content[_WORD : _WORD + size])
    at = _WORD + size
    state: State = {}
    for name, length in names.items():
        state[name] = pa.ipc.open_stream(pa.py_buffer(content)[at : at + length]).read_all()
        at += length
    return state
