"""`jsonl:`: one JSON object a row.

Times are ISO 8601 in UTC with six digits and Z, NULL is null, doubles are the shortest text that reads
back the same. JSON has no NaN and no infinities: they are the strings "NaN", "Infinity", "-Infinity".
Text stays UTF-8; only quotes, backslashes and control characters are escaped.

Cost: about 1.2 M rows/s for six columns, no Python per row.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc

from sash.runtime.sinks.text_file import TextFileSink
from sash.runtime.sinks.texts import flat, join, literal, not_finite, text_of

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
_CONTROLS = {chr(code): _SHORT.get(chr(code), f"\\u{code:04x}") for code in range(32)}


class JsonLinesSink(TextFileSink):
    def lines(self, table: pa.Table) -> pa.Array:
        return json_objects(table, end="\n")


def json_objects(table: pa.Table, end: str = "") -> pa.Array:
    """One JSON object a row, as large strings, each followed by `end`."""
    parts: list[pa.Array | pa.Scalar] = []
    for number, name in enumerate(table.column_names):
        opening = "{" if number == 0 else ","
        parts.append(literal(f"{opening}{json.dumps(name, ensure_ascii=False)}:"))
        parts.append(_value(table.column(number)))
    parts.append(literal("}" + end))
    return pc.binary_join_element_wise(*parts, literal(""), null_handling="replace", null_replacement="null")


def _value(column: pa.ChunkedArray) -> pa.Array:
    text = text_of(column)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _quoted(_escaped(text))
    if pa.types.is_timestamp(kind):
        return _quoted(text)
    odd = not_finite(flat(column))
    return text if odd is None else pc.if_else(odd, _quoted(text), text)


def _quoted(text: pa.Array) -> pa.Array:
    return join(literal('"'), text, literal('"'))


def _escaped(text: pa.Array) -> pa.Array:
    if not _holds(text, r'["\\\x00-\x1f]'):
        return text
    text = pc.replace_substring(text, "\\", "\\\\")
    text = pc.replace_substring(text, '"', '\\"')
    if _holds(text, r"[\x00-\x1f]"):
        for character, escape in _CONTROLS.items():
            text = pc.replace_substring(text, character, escape)
    return text


def _holds(text: pa.Array, pattern: str) -> bool:
    return pc.any(pc.match_substring_regex(text, pattern)).as_py() is True
