"""Chunks, plans and rows: what the driver hands to a task, and what the task makes of it.

A chunk names a stretch of one stream's input; it holds no rows. Chunks of a stream are numbered in
arrival order, and the rows inside a chunk are in file order, so (sequence, place in the chunk) orders
all rows of a stream in the one way that every run agrees on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Position = dict[str, Any]
"""Where planning stands: JSON-able, `{}` at the start, opaque to everyone but the source that made it."""

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

UNKNOWN_ROWS = -1
DEFAULT_TARGET_ROWS = 500_000


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stretch of one file.

    `first_row` numbers its first data row within the file from 0; `rows` is -1 where only reading can
    tell (compressed text). `begin` and `end` (exclusive) are bytes for text formats, row groups for
    Parquet (the rows wanted are then `first_row … first_row + rows`), row numbers for the generator.
    """

    stream: str
    sequence: int
    path: str
    first_row: int
    rows: int
    begin: int
    end: int

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Chunk:
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True)
class Plan:
    """The next chunks, the position after them, and whether bounded input is used up."""

    chunks: tuple[Chunk, ...]
    position: Position
    ended: bool

    @property
    def rows(self) -> int:
        """Planned rows; chunks of unknown length count as none."""
        return sum(max(chunk.rows, 0) for chunk in self.chunks)


REJECTS_SCHEMA = pa.schema(
    [
        pa.field("source", pa.string()),
        pa.field("row", pa.int64()),
        pa.field("reason", pa.string()),
        pa.field("data", pa.string()),
    ]
)


@dataclass(slots=True)
class Rejects:
    """Rows that do not fit the schema, gathered one by one: there are few, or the input is hopeless."""

    source: str
    row: list[int] = field(default_factory=list)
    reason: list[str] = field(default_factory=list)
    data: list[str] = field(default_factory=list)

    def add(self, row_number: int, reason: str, data: str) -> None:
        """`row_number` counts from 0 like everything inside; people count from 1, so the table does."""
        self.row.append(row_number + 1)
        self.reason.append(reason)
        self.data.append(data)

    def to_table(self) -> pa.Table:
        columns: Mapping[str, list[Any]] = {
            "source": [self.source] * len(self.row),
            "row": self.row,
            "reason": self.reason,
            "data": self.data,
        }
        return pa.table(columns, schema=REJECTS_SCHEMA)


@dataclass(slots=True)
class Rows:
    """The rows of a chunk: accepted ones column by column, rejected ones with the reason.

    `ts`, `row_numbers` and `table` have one entry for each accepted row, in file order (a table without
    columns has no length; `len(ts)` always counts). Accepted and rejected rows together are all rows
    of the chunk.
    """

    ts: Int64s
    table: pa.Table
    row_numbers: Int64s
    rejects: pa.Table

    def __len__(self) -> int:
        return len(self.ts)
