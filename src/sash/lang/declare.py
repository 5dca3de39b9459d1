"""CREATE STREAM, RELATION, QUERY, ARCHIVE and INDEX to their definitions."""

from __future__ import annotations

import re

from sqlglot import exp

from sash.errors import BindError, DuplicateName, SashError, TypeMismatch, UnknownName
from sash.lang import algebra, intervals, nodes
from sash.lang.bound import (
    ArchiveDefinition,
    IndexDefinition,
    Options,
    OptionValue,
    QueryDefinition,
    RelationDefinition,
    StreamDefinition,
)
from sash.lang.context import Known
from sash.lang.growth import grows, is_internal
from sash.lang.indexing import read_index
from sash.lang.queries import bind_plan
from sash.lang.scalars import TYPES
from sash.lang.types import Column, Schema, Type

# The names of 000, 001 and 002 (chapter 4).
ARCHIVE_TECHNIQUES = (
    "auto", "rebuild", "norebuild", "lazyrebuild", "lazynorebuild", "countrebuild", "countnorebuild",
    "chr-rebuild", "chr-norebuild", "random-rebuild", "random-norebuild",
    "reindex", "del", "r-ins", "d-ins", "r-exp", "d-exp", "wata",
)  # fmt: skip
# What the transactions of readers can promise (002, chapter 7).
ISOLATIONS = ("lws", "ws")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:", re.DOTALL)
_UNITS = {"s": intervals.SECOND, "ms": intervals.MILLISECOND, "us": intervals.MICROSECOND}


def bind_stream(node: nodes.CreateStream, text: str) -> StreamDefinition:
    schema = _schema(node, text)
    options = _options(node, text)
    timestamp, unit = _time(node.args["timestamp"], node, schema, options, text)
    lifetime, most = node.args.get("lifetime"), node.args.get("max_lifetime")
    if lifetime is not None:
        column = _column(lifetime, schema, text)
        if column.type is not Type.BIGINT:
            raise TypeMismatch(
                f"LIFETIME BY does not take {column.type}",
                place=nodes.place_of(lifetime, text),
                expected="a column of type BIGINT, which counts seconds or the unit of integer timestamps",
                got=str(column.type),
            )
    if (lifetime is None) != (most is None):
        raise BindError(
            "LIFETIME BY and MAX LIFETIME go together",
            place=nodes.place_of(lifetime or most, text),
            hint="write LIFETIME BY column MAX LIFETIME 1 HOUR: no row lives longer than that",
        )
    if lifetime is None:
        _refuse_option(node, "lifetime", "streams with LIFETIME BY", text)
    return StreamDefinition(
        name=node.this.name,
        schema=schema,
        timestamp=timestamp,
        unit=unit,
        slack=_length(node, "slack") or 0,
        source=_address(node.args["source"], "FROM", "csv:packets.csv", text),
        options=tuple(options.items()),
        text=nodes.source_of(node, text),
        retain=_positive(node, "retain", "RETAIN", text),
        lifetime=None if lifetime is None else lifetime.name,
        max_lifetime=_positive(node, "max_lifetime", "MAX LIFETIME", text),
        max_ahead=_positive(node, "max_ahead", "MAX AHEAD", text),
    )


def bind_relation(node: nodes.CreateRelation, text: str) -> RelationDefinition:
    schema = _schema(node, text)
    options = _options(node, text)
    timestamp, unit = None, 1
    time, operation = node.args.get("timestamp"), node.args.get("operation")
    key = tuple(dict.fromkeys(_column(name, schema, text).name for name in node.args.get("key") or ()))
    if time is not None:
        timestamp, unit = _time(time, node, schema, options, text)
    else:
        _refuse_option(node, "unit", "relations with TIMESTAMP BY", text)
    _refuse_option(node, "lifetime", "streams with LIFETIME BY", text)
    if operation is not None:
        if time is None:
            raise BindError(
                "OP BY without TIMESTAMP BY",
                place=nodes.place_of(operation, text),
                hint="a feed of changes needs the time of each change: add TIMESTAMP BY column",
            )
        column = _column(operation, schema, text)
        if column.type is not Type.STRING:
            raise TypeMismatch(
                f"OP BY does not take {column.type}",
                place=nodes.place_of(operation, text),
                expected="a column of type STRING that holds insert, update or delete",
                got=str(column.type),
            )
        if not key or column.name in key:
            raise BindError(
                "OP BY needs a KEY of other columns",
                place=nodes.place_of(operation, text),
                hint="KEY (columns) says which row an update or a delete is for",
            )
    return RelationDefinition(
        name=node.this.name,
        schema=schema,
        key=key,
        is_retroactive=not node.args.get("non_retroactive"),
        timestamp=timestamp,
        unit=unit,
        operation=None if operation is None else operation.name,
        source=_address(node.args["source"], "FROM", "csv:hosts.csv", text),
        options=tuple(options.items()),
        text=nodes.source_of(node, text),
    )


def bind_query_definition(node: nodes.CreateQuery, known: Known, text: str) -> QueryDefinition:
    sink = node.args.get("sink")
    address = "" if sink is None else _address(sink, "INTO", "jsonl:out.jsonl", text)
    allow = bool(node.args.get("allow_unbounded"))
    plan = bind_plan(node.expression, known, text, allow_unbounded=allow)
    return QueryDefinition(
        name=node.this.name,
        sink=address,
        plan=plan,
        options=bind_options(node, text),
        allow_unbounded=allow,
        text=nodes.source_of(node, text),
        place=nodes.place_of(node.expression, text),
    )


def bind_archive(node: nodes.CreateArchive, known: Known, text: str) -> ArchiveDefinition:
    technique = node.args.get("technique")
    plan = bind_plan(node.expression, known, text)
    if plan.kind is not algebra.OutputKind.VIEW:
        raise BindError(
            "an archive keeps an answer, not its output stream",
            place=nodes.place_of(node.expression, text),
            hint="take the output operator away",
        )
    if grows(plan.input) or is_internal(plan.input):
        raise BindError(
            "an archive of results that never expire",
            place=nodes.place_of(node.expression, text),
            expected="windows of RANGE, without INTERNAL",
            id="unbounded-state",
        )
    key: list[str] = []
    for column in node.args["key"]:
        if column.name not in plan.names:
            raise UnknownName("output column", column.name, plan.names, place=nodes.place_of(column, text))
        key.append(column.name)
    every = _positive(node, "every", "EVERY", text)
    assert every is not None
    return ArchiveDefinition(
        name=node.this.name,
        key=tuple(dict.fromkeys(key)),
        technique="auto" if technique is None else _technique(technique, text),
        grid=None if technique is None else _grid(technique, text),
        every=every,
        sink=str(node.args["sink"].this),
        plan=plan,
        options=bind_options(node, text),
        text=nodes.source_of(node, text),
    )


def bind_index(node: nodes.CreateIndex, known: Known, text: str) -> IndexDefinition:
    name = node.args["stream"]
    stream = known.streams.get(name.name)
    if stream is None:
        raise UnknownName("stream", name.name, known.streams, place=nodes.place_of(name, text))
    column = _column(node.args["column"], stream.schema, text)
    for other in known.indexes.values():
        if (other.stream, other.column) == (stream.name, column.name):
            raise DuplicateName(
                f"the index '{other.name}' is on '{column.name}' of '{stream.name}' already",
                place=nodes.place_of(node.args["column"], text),
                hint="drop it first: a column has one index, for values and for rows",
            )
    written = node.args["technique"]
    words = str(written.this.this)
    try:
        spec = None if words == "auto" else read_index(words)
    except SashError as failure:
        failure.place = nodes.place_of(written, text)
        raise
    if node.args.get("options") is not None:
        raise BindError(
            "an index has no options",
            place=nodes.place_of(node.this, text),
            hint="what it is stands after USING: T, H OVER HASH, G(50), RING DB, AUTO",
        )
    return IndexDefinition(node.this.name, stream.name, column.name, spec, nodes.source_of(node, text))


# -------------------------------------------------------------------- pieces


def _schema(node: exp.Expression, text: str) -> Schema:
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


def _column(name: exp.Expression, schema: Schema, text: str) -> Column:
    column = schema.get(name.name)
    if column is None:
        raise UnknownName("column", name.name, schema.names, place=nodes.place_of(name, text))
    return column


def _time(
    name: exp.Expression, node: exp.Expression, schema: Schema, options: dict[str, OptionValue], text: str
) -> tuple[str, int]:
    """The column of time and the microseconds in its unit; the option 'unit' is taken from `options`."""
    column = _column(name, schema, text)
    if column.type not in (Type.TIMESTAMP, Type.BIGINT):
        raise TypeMismatch(
            f"TIMESTAMP BY does not take {column.type}",
            place=nodes.place_of(name, text),
            expected="a column of type TIMESTAMP or BIGINT",
            got=str(column.type),
        )
    option = _option(node, "unit")
    if option is not None:
        return column.name, _unit(options.pop(option.this.name), option, column.type, text)
    return column.name, intervals.SECOND if column.type is Type.BIGINT else 1


def _option(node: exp.Expression, name: str) -> exp.Expression | None:
    """An option, however its name is spelled."""
    return next((o for o in node.args.get("options") or () if o.this.name.lower() == name), None)


def _refuse_option(node: exp.Expression, name: str, what: str, text: str) -> None:
    """Raise BindError for an option that does nothing here, because it is for something else."""
    option = _option(node, name)
    if option is not None:
        raise BindError(
            f"the option '{name}' is for {what}",
            place=nodes.place_of(option, text),
            hint="it does nothing here: take it away",
        )


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


def bind_options(node: exp.Expression, text: str) -> Options:
    return tuple(_options(node, text).items())


def bind_isolation(node: exp.Expression, text: str) -> str | None:
    """The isolation that a one-time query asks for in its options, which has no others."""
    for option in node.args.get("options") or ():
        if option.this.name != "isolation":
            raise UnknownName(
                "option of a one-time query",
                option.this.name,
                ("isolation",),
                place=nodes.place_of(option.this, text),
            )
        value = option.expression
        if not isinstance(value, exp.Literal) or str(value.this).lower() not in ISOLATIONS:
            raise BindError(
                "there is no such isolation",
                place=nodes.place_of(value, text),
                expected="'lws' (the newest state) or 'ws' (a true state)",
            )
    found = _options(node, text).get("isolation")
    return None if found is None else str(found).lower()


def _options(node: exp.Expression, text: str) -> dict[str, OptionValue]:
    options: dict[str, OptionValue] = {}
    for option in node.args.get("options") or ():
        if option.this.name in options:
            raise DuplicateName(
                f"the option '{option.this.name}' is given twice", place=nodes.place_of(option.this, text)
            )
        options[option.this.name] = _value(option.expression, text)
    return options


def _value(node: exp.Expression, text: str) -> OptionValue:
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


def _length(node: exp.Expression, key: str) -> int | None:
    duration = node.args.get(key)
    return None if duration is None else int(duration.microseconds)


def _positive(node: exp.Expression, key: str, clause: str, text: str) -> int | None:
    length = _length(node, key)
    if length == 0:
        raise BindError(f"{clause} must be longer than nothing", place=nodes.place_of(node.args[key], text))
    return length


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


def _technique(node: exp.Expression, text: str) -> str:
    name = str(node.this.this)
    if name not in ARCHIVE_TECHNIQUES:
        raise UnknownName("technique", name, ARCHIVE_TECHNIQUES, place=nodes.place_of(node, text))
    return name


def _grid(technique: exp.Expression, text: str) -> tuple[int, int] | None:
    if technique.args.get("generations") is None:
        return None
    sizes = int(technique.args["generations"].this), int(technique.args["expirations"].this)
    if min(sizes) < 1 or max(sizes) > 1000:
        raise BindError(
            "a grid of an archive has from 1 to 1000 partitions each way",
            place=nodes.place_of(technique, text),
            got=f"{sizes[0]}x{sizes[1]}",
        )
    return sizes
