"""`jsonl:`: one JSON object a row.

Times are ISO 8601 in UTC with six digits and Z, NULL is null, doubles are the shortest text that reads
back the same. JSON has no NaN and no infinities: they are the strings "NaN", "Infinity", "-Infinity".
Text stays UTF-8; only quotes, backslashes and control characters are escaped.

Columns become text, then two compiled passes over them measure the lines and write them: no Python per row.
"""

from __future__ import annotations

import json

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sash.connectors.sinks.text_file import TextFileSink
from sash.connectors.sinks.texts import flat, join, literal, not_finite, text_of
from sash.state.jit import kernel

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_NULL = np.frombuffer(b"null", np.uint8)
_ESCAPES = {byte: json.dumps(chr(byte))[1:-1].encode() for byte in (*range(32), ord('"'), ord("\\"))}
# How many bytes each byte takes within quotes, and which.
_WIDTHS = np.array([len(_ESCAPES.get(byte, b".")) for byte in range(256)], np.uint8)
_SPELLED = np.zeros((256, 6), np.uint8)
for _byte, _text in _ESCAPES.items():
    _SPELLED[_byte, : len(_text)] = np.frombuffer(_text, np.uint8)


class JsonLinesSink(TextFileSink):
    names_columns = True

    def lines(self, table: pa.Table) -> pa.Array:
        return json_objects(table, end="\n")


def json_objects(table: pa.Table, end: str = "") -> pa.Array:
    """One JSON object a row, as large strings, each followed by `end`."""
    rows = table.num_rows
    columns = [_Text(column) for column in table.columns]
    names = [json.dumps(name, ensure_ascii=False) for name in table.column_names]
    heads = [_bytes(f"{',' if number else '{'}{name}:") for number, name in enumerate(names)]
    tail = _bytes(("}" if names else "{}") + end)
    lengths = np.full(rows, sum(map(len, heads)) + len(tail), dtype=np.int64)
    for column in columns:
        _measure(*column.buffers, column.quoting, _WIDTHS, lengths)
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
    out, at = np.empty(int(offsets[-1]), np.uint8), offsets[:-1].copy()
    for head, column in zip(heads, columns, strict=True):
        _write(head, *column.buffers, column.quoting, _WIDTHS, _SPELLED, _NULL, at, out)
    _repeat(tail, at, out)
    return pa.LargeStringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(out))


_PLAIN, _QUOTED, _ESCAPED = range(3)


class _Text:
    """A column as text: where each row's begins, all bytes, and which rows are there (empty: all)."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        text = text_of(column)
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        # Text is escaped within its quotes; there is nothing to escape in times.
        self.quoting = _ESCAPED if is_text else _QUOTED if pa.types.is_timestamp(kind) else _PLAIN
        odd = not_finite(flat(column))
        if odd is not None:
            text = pc.if_else(odd, join(literal('"'), text, literal('"')), text)
        _, offsets, data = text.buffers()
        begin = text.offset
        self.buffers: tuple[Ints, Bytes, Bools] = (
            np.frombuffer(offsets, np.int64)[begin : begin + len(text) + 1] if len(text) else _NO_OFFSETS,
            np.frombuffer(data or b"", np.uint8),
            np.asarray(text.is_valid()) if text.null_count else _EVERYWHERE,
        )


_NO_OFFSETS = np.zeros(1, dtype=np.int64)
_EVERYWHERE = np.zeros(0, dtype=np.bool_)


def _bytes(text: str) -> Bytes:
    return np.frombuffer(text.encode(), np.uint8)


@kernel
def _measure(offsets: Ints, data: Bytes, present: Bools, quoting: int, widths: Bytes, lengths: Ints) -> None:
    """Add the bytes that the values of a column take to those of their rows."""
    for row in range(len(lengths)):
        if len(present) and not present[row]:
            lengths[row] += 4
        elif quoting == _ESCAPED:
            length = 2
            for at in range(offsets[row], offsets[row + 1]):
                length += widths[data[at]]
            lengths[row] += length
        else:
            lengths[row] += offsets[row + 1] - offsets[row] + (2 if quoting == _QUOTED else 0)


@kernel
def _write(
    head: Bytes,
    offsets: Ints,
    data: Bytes,
    present: Bools,
    quoting: int,
    widths: Bytes,
    spelled: Bytes,
    null: Bytes,
    place: Ints,
    out: Bytes,
) -> None:
    """Put `head` and the value of a column where each row has come to."""
    for row in range(len(place)):
        to = place[row]
        for byte in head:
            out[to] = byte
            to += 1
        if len(present) and not present[row]:
            for byte in null:
                out[to] = byte
                to += 1
        else:
            if quoting != _PLAIN:
                out[to] = 34
                to += 1
            for at in range(offsets[row], offsets[row + 1]):
                byte = data[at]
                if quoting != _ESCAPED or widths[byte] == 1:
                    out[to] = byte
                    to += 1
                else:
                    for i in range(widths[byte]):
                        out[to] = spelled[byte, i]
                        to += 1
            if quoting != _PLAIN:
                out[to] = 34
                to += 1
        place[row] = to


@kernel
def _repeat(text: Bytes, place: Ints, out: Bytes) -> None:
    """Put a text where each row has come to."""
    for row in range(len(place)):
        for i in range(len(text)):
            out[place[row] + i] = text[i]
