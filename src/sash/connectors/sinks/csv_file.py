"""`csv:`: a header, then one record a row, quoted as RFC 4180 has it.

NULL is an empty field and the empty string is `""`, which is also how the csv source reads them: what
this sink writes, a stream can read back.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sash.connectors.sinks.text_file import TextFileSink
from sash.connectors.sinks.texts import join, literal, text_of

# A field of blanks, or with blanks at its ends, is quoted too: many readers trim bare ones.
_NEEDS_QUOTES = r'^$|[",\r\n]|^\s|\s$'


class CsvSink(TextFileSink):
    def head(self) -> bytes:
        names = pa.array(self.schema.names, pa.large_string())
        return (",".join(_quoted(names).to_pylist()) + "\n").encode()

    def lines(self, table: pa.Table) -> pa.Array:
        parts: list[pa.Array | pa.Scalar] = []
        for number in range(table.num_columns):
            if number:
                parts.append(literal(","))
            parts.append(_field(table.column(number)))
        return pc.binary_join_element_wise(
            *parts, literal("\n"), literal(""), null_handling="replace", null_replacement=""
        )


def _field(column: pa.ChunkedArray) -> pa.Array:
    text = text_of(column)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return _quoted(text) if is_text else text


def _quoted(text: pa.Array) -> pa.Array:
    needed = pc.match_substring_regex(text, _NEEDS_QUOTES)
    if not pc.any(needed).as_py():
        return text
    doubled = pc.replace_substring(text, '"', '""')
    return pc.if_else(needed, join(literal('"'), doubled, literal('"')), text)
