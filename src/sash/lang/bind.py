"""Statements to definitions, and a whole program to a `Program`.

Invariant: what leaves here is fully checked; a runtime need not look at names or types again. Errors
carry places in the whole program's text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from sash.errors import BindError, DuplicateName, TypeMismatch, UnknownName
from sash.lang import intervals, nodes
from sash.lang.bound import BoundSelect, QueryDefinition, StreamDefinition
from sash.lang.parse import iterate
from sash.lang.scalars import TYPES
from sash.lang.select import bind_select
from sash.lang.types import Column, Schema, Type

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:", re.DOTALL)
_UNITS = {"s": intervals.SECOND, "ms": intervals.MILLISECOND, "us": intervals.MICROSECOND}


@dataclass(frozen=True, slots=True)
class ExplainDefinition:
    """EXPLAIN select."""

    select: BoundSelect
    text: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Program:
    """What a text defines, each kind in the order of the text."""

    streams: tuple[StreamDefinition, ...]
    queries: tuple[QueryDefinition, ...]
    explains: tuple[ExplainDefinition, ...] = ()


def bind_program(text: str) -> Program:
    """Parse and bind a text, statement by statement: the first error in the text is the one reported."""
    streams: dict[str, StreamDefinition] = {}
    queries: dict[str, QueryDefinition] = {}
    explains: list[ExplainDefinition] = []
    for statement in iterate(text):
        node = statement.node
        if isinstance(node, nodes.CreateStream):
            _claim("stream", node.this, streams, text)
            stream = bind_stream(node, text)
            streams[stream.name] = stream
        elif isinstance(node, nodes.CreateQuery):
            _claim("query", node.this, queries, text)
            query = bind_query(node, streams, text)
            queries[query.name] = query
        else:
            select = bind_select(node.this, streams, text)
            explains.append(ExplainDefinition(select, statement.source))
    return Program(tuple(streams.values()), tuple(queries.values()), tuple(explains))


def bind_query(
    node: nodes.CreateQuery, streams: Mapping[str, StreamDefinition], text: str
) -> QueryDefinition:
    sink = _address(node.args["sink"], "INTO", "jsonl:out.jsonl", text)
    select = bind_select(node.expression, streams, text)
    return QueryDefinition(node.this.name, sink, select, nodes.source_of(node, text))


def bind_stream(node: nodes.CreateStream, text: str) -> StreamDefinition:
    schema = _schema(node, text)
    time = node.args["timestamp"]
    column = schema.get(time.name)
    if column is None:
        raise UnknownName("column", time.name, schema.names, place=nodes.place_of(time, text))
    if column.type not in (Type.TIMESTAMP, Type.BIGINT):
        raise TypeMismatch(
            f"TIMESTAMP BY does not take {column.type}",
            place=nodes.place_of(time, text),
            expected="a column of type TIMESTAMP or BIGINT",
            got=str(column.type),
        )
    options = _options(node, text)
    unit = 1
    if "unit" in options:
        option = next(o for o in node.args["options"] if o.this.name == "unit")
        unit = _unit(options.pop("unit"), option, column.type, text)
    elif column.type is Type.BIGINT:
        unit = intervals.SECOND
    slack = node.args.get("slack")
    return StreamDefinition(
        name=node.this.name,
        schema=schema,
        timestamp=column.name,
        unit=unit,
        slack=0 if slack is None else slack.microseconds,
        source=_address(node.args["source"], "FROM", "csv:packets.csv", text),
        options=tuple(options.items()),
        text=nodes.source_of(node, text),
    )


def _schema(node: nodes.CreateStream, text: str) -> Schema:
    columns: dict[str, Column] = {}
    for definition in node.args["columns"]:
        name = definition.this.name
        # DuckDB does not set names apart by case, so neither may a schema.
        if name.casefold() in columns:
            raise DuplicateName(
                f"two columns are called '{name}'", place=nodes.place_of(definition.this, text)
            )
        columns[name.casefold()] = Column(name, TYPES[definition.args["kind"].this])
    return Schema(tuple(columns.values()))


def _options(node: nodes.CreateStream, text: str) -> dict[str, str | int | float | bool]:
    options: dict[str, str | int | float | bool] = {}
    for option in node.args.get("options") or ():
        if option.this.name in options:
            raise DuplicateName(
                f"the option '{option.this.name}' is given twice", place=nodes.place_of(option.this, text)
            )
        options[option.this.name] = _value(option.expression, text)
    return options


def _value(node: exp.Expression, text: str) -> str | int | float | bool:
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    sign = 1
    if isinstance(node, exp.Neg):
        sign, node = -1, node.this
    written = str(node.this)
    if isinstance(node, exp.Literal) and node.is_string:
        return written
    if not written.isdigit():
        return sign * float(written)
    if len(written) > 18:
        raise BindError("a number that is too large for an option", place=nodes.place_of(node, text))
    return sign * int(written)


def _unit(value: object, option: exp.Expression, type_: Type, text: str) -> int:
    if type_ is not Type.BIGINT:
        raise BindError(
            "the option 'unit' is for integer timestamps",
            place=nodes.place_of(option, text),
            hint="a TIMESTAMP column needs no unit; take the option away",
        )
    unit = _UNITS.get(value) if isinstance(value, str) else None
    if unit is None:
        raise BindError(
            f"not a unit of time: {value!r}",
            place=nodes.place_of(option.expression, text),
            expected="'s', 'ms' or 'us'",
            got=repr(value),
        )
    return unit


def _address(node: exp.Expression, clause: str, example: str, text: str) -> str:
    address = str(node.this)
    if not _SCHEME.match(address):
        raise BindError(
            f"{clause} needs a scheme and a path",
            place=nodes.place_of(node, text),
            expected=f"'scheme:path', such as '{example}'",
            got=f"'{address}'",
        )
    return address


def _claim(kind: str, name: exp.Expression, taken: Mapping[str, object], text: str) -> None:
    if name.name in taken:
        raise DuplicateName(
            f"there is a {kind} '{name.name}' already",
            place=nodes.place_of(name, text),
            hint=f"give this {kind} another name",
        )
