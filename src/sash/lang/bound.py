"""What binding makes of a statement: names resolved, types known, every expression ready to run.

A `Scalar` is an expression written as DuckDB SQL over the columns of one input. Two scalars with the
same SQL mean the same, so they are compared, hashed and shared by value.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from sash.lang.types import Schema, Type


@dataclass(frozen=True, slots=True)
class Scalar:
    """An expression over named input columns.

    `column` is the name of the input column where the expression is nothing but that column.
    """

    sql: str
    type: Type
    inputs: tuple[str, ...]
    column: str | None = None
    # Not part of what it is, so not of its repr, by which a checkpoint knows its program.
    text: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Named:
    """An output column: a name and the expression that fills it."""

    name: str
    scalar: Scalar


class AggregateFunction(enum.Enum):
    COUNT = "COUNT"
    SUM = "SUM"
    AVG = "AVG"
    MIN = "MIN"
    MAX = "MAX"


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """`function(argument)`; COUNT(*) has no argument."""

    function: AggregateFunction
    argument: Scalar | None
    type: Type


@dataclass(frozen=True, slots=True)
class Window:
    """`[RANGE range SLIDE slide]`, both in microseconds."""

    range: int
    slide: int


class OutputOperator(enum.Enum):
    """How answers leave: as a change log of the view, or as one of CQL's three streams."""

    VIEW = "view"
    ISTREAM = "istream"
    DSTREAM = "dstream"
    RSTREAM = "rstream"


@dataclass(frozen=True, slots=True)
class BoundSelect:
    """A SELECT over one windowed stream.

    `where`, `keys` and the arguments of `aggregates` read the stream's columns. `having` and `outputs`
    read the grouped row, whose columns are called k0, k1, … (keys) and a0, a1, … (aggregates).
    Where nothing is aggregated (`is_grouped` false) the keys are the selected expressions and the
    answer is a bag: a row comes as often as it stands in the window, or once with `distinct`.
    """

    stream: str
    window: Window
    where: Scalar | None
    is_grouped: bool
    distinct: bool
    keys: tuple[Scalar, ...]
    aggregates: tuple[AggregateCall, ...]
    having: Scalar | None
    outputs: tuple[Named, ...]
    operator: OutputOperator

    @property
    def schema(self) -> tuple[tuple[str, Type], ...]:
        return tuple((output.name, output.scalar.type) for output in self.outputs)


@dataclass(frozen=True, slots=True)
class StreamDefinition:
    """CREATE STREAM. `unit` is how many microseconds an integer timestamp counts; 1 for TIMESTAMP."""

    name: str
    schema: Schema
    timestamp: str
    unit: int
    slack: int
    source: str
    options: tuple[tuple[str, str | int | float | bool], ...]
    text: str = field(default="", compare=False)

    def option(self, name: str, default: str | int | float | bool) -> str | int | float | bool:
        return dict(self.options).get(name, default)

    @property
    def has_integer_time(self) -> bool:
        column = self.schema.get(self.timestamp)
        return column is not None and column.type is Type.BIGINT


@dataclass(frozen=True, slots=True)
class QueryDefinition:
    """CREATE QUERY name INTO sink AS select."""

    name: str
    sink: str
    select: BoundSelect
    text: str = field(default="", compare=False)
