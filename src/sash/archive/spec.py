"""What an archive holds: columns, key, how often it is brought up to date, how long a row may live."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from sash.errors import ArchiveError, InternalError, UnknownName
from sash.lang.types import Column, Schema, Type
from sash.operators.delta import ARROW_TYPES
from sash.state.fingerprints import fingerprint
from sash.state.groups import plain

BORN = "sash_ts"
"""The column with the instant at which a row entered the result, in microseconds."""
DIES = "sash_exp"
"""The column with the instant at which it leaves: it is in the result on [BORN, DIES)."""
IDENTITY = "sash_id"
"""A hash of the values of a row, in archives whose rows may be taken back: equal rows have equal ones."""

_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class ArchiveSpec:
    """The contents of an archive; techniques may change, this may not.

    `span` bounds the lifetime of a row. With `is_estimated` the instants in DIES are guesses that only say
    where a row is put: it is gone when it is said to be (000, section 4). `positions` are more BIGINT columns
    with the places of the row's parts in windows of rows; a row is gone when one of them is below the least
    place in that window. `is_strict`: rows may be taken back before they die. `grain`: a smaller window is
    shorter by a multiple of it, None if none can be taken. `name` is what readers call the archive.
    `schema` has the columns of its files.
    """

    columns: Schema
    key: tuple[str, ...]
    every: int
    span: int
    is_strict: bool = False
    is_estimated: bool = False
    positions: tuple[str, ...] = ()
    grain: int | None = 1
    name: str = field(default="", compare=False)
    schema: pa.Schema = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.every <= 0 or self.span <= 0 or not self.key:
            raise InternalError(f"an archive by {self.key}, every {self.every} of {self.span} microseconds")
        names = self.columns.names
        for column in self.key:
            if column not in names:
                raise UnknownName("column", column, names)
        taken = next((name for name in names if name in (BORN, DIES, IDENTITY, *self.positions)), None)
        if taken is not None:
            raise ArchiveError(
                f"an archive cannot have a column '{taken}'",
                hint=f"give it another name with AS: the files hold their own '{taken}'",
                id="archive-column",
            )
        fields = [(column.name, ARROW_TYPES[column.type]) for column in self.columns]
        identity = (IDENTITY,) if self.is_strict else ()
        times = [(name, pa.int64()) for name in (*self.positions, *identity, BORN, DIES)]
        object.__setattr__(self, "schema", pa.schema([*fields, *times]))

    def to_json(self) -> dict[str, Any]:
        return {
            "columns": [[column.name, column.type.value] for column in self.columns],
            "key": list(self.key),
            "every": self.every,
            "span": self.span,
            "strict": self.is_strict,
            "estimated": self.is_estimated,
            "positions": list(self.positions),
            "grain": self.grain,
            "name": self.name,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> ArchiveSpec:
        return ArchiveSpec(
            Schema(tuple(Column(name, Type(kind)) for name, kind in data["columns"])),
            tuple(data["key"]),
            data["every"],
            data["span"],
            data["strict"],
            data["estimated"],
            tuple(data["positions"]),
            data["grain"],
            data["name"],
        )

    def fit(self, table: pa.Table) -> pa.Table:
        """A table with the columns of the files, in their order and of their types."""
        if self.is_strict and IDENTITY not in table.column_names:
            table = table.append_column(IDENTITY, self.identities(table))
        missing = [name for name in self.schema.names if name not in table.column_names]
        if missing:
            raise InternalError(f"rows for an archive lack the columns {', '.join(missing)}")
        return table.select(self.schema.names).cast(self.schema)

    def identities(self, table: pa.Table) -> pa.Array:
        """The hash of the values of each row."""
        schema = pa.schema([self.schema.field(name) for name in self.columns.names])
        values = table.select(schema.names).cast(schema)
        prints = fingerprint([plain(column) for column in values.columns], table.num_rows)
        return pa.array((prints.first ^ (prints.second * _ODD)).view(np.int64))
