"""The five types of CQL, columns and schemas."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass


class Symbol(enum.Enum):
    """An enumeration for what is looked up by: Python's own hashes the name of a member, in Python."""

    __hash__ = object.__hash__


class Type(Symbol):
    """A column type. INT is read as BIGINT: every integer has 64 bits."""

    BIGINT = "BIGINT"
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    BOOLEAN = "BOOLEAN"
    TIMESTAMP = "TIMESTAMP"

    @property
    def is_numeric(self) -> bool:
        return self in (Type.BIGINT, Type.DOUBLE)

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Schema:
    """Columns in order. Names are lower case and unique."""

    columns: tuple[Column, ...]

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def get(self, name: str) -> Column | None:
        return next((column for column in self.columns if column.name == name), None)
