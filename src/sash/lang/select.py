"""SELECT to `BoundSelect`: the window, the row filter, keys, aggregates and outputs.

Invariant: nothing in the result depends on spelling. Names, qualifiers, aliases, ordinals and repeated
expressions are resolved, and equal aggregates and keys are there once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from sash.errors import BindError, DuplicateName, NotYet, UnknownName
from sash.lang import intervals, nodes, operands
from sash.lang.bound import (
    AggregateFunction,
    BoundSelect,
    Named,
    OutputOperator,
    Scalar,
    StreamDefinition,
    Window,
)
from sash.lang.operands import Operand
from sash.lang.parse import unparse
from sash.lang.scalars import bind, bind_condition
from sash.lang.scopes import GroupScope, RowScope

# Microseconds stay exact in a double, which sinks and notebooks may use.
MAX_WINDOW = 2**53
RESERVED_OUTPUT = "ts"
RESERVED_IN_VIEW = "op"
_MAX_MADE_NAME = 40


@dataclass(frozen=True, slots=True)
class _Item:
    """A selected expression; `alias` is None where the name must be made."""

    node: exp.Expression
    alias: str | None
    named_by: exp.Expression


def bind_select(node: exp.Expression, streams: Mapping[str, StreamDefinition], text: str) -> BoundSelect:
    """Bind a SELECT, bare or in an output operator; `text` is the whole program."""
    try:
        return _bind_select(node, streams, text)
    except RecursionError:
        raise BindError(
            "a query that is nested too deeply", place=nodes.place_of(node, text), hint="split it into two"
        ) from None


def _bind_select(node: exp.Expression, streams: Mapping[str, StreamDefinition], text: str) -> BoundSelect:
    operator = OutputOperator.VIEW
    if isinstance(node, nodes.OutputClause):
        operator = OutputOperator(node.args["kind"])
        node = node.this
    source = node.args["from_"].this
    stream = _stream(source, streams, text)
    window = _window(source.args["window"], stream, text)
    alias = source.args.get("alias")
    row = RowScope(text, stream.name, None if alias is None else alias.name, stream.schema, "SELECT")
    where_node = node.args.get("where")
    where = None
    if where_node is not None:
        bound = bind_condition(where_node.this, row.within("WHERE"), "WHERE")
        where = operands.to_scalar(bound, nodes.source_of(where_node.this, text))

    items = _items(node, stream)
    names = _names(items, operator, text)
    group = node.args.get("group")
    having_node = node.args.get("having")
    distinct = node.args.get("distinct") is not None
    is_grouped = group is not None or any(_has_aggregate(item.node) for item in items)
    having: Scalar | None = None
    if is_grouped:
        if distinct:
            place = nodes.place_of(node.args["distinct"], text)
            raise NotYet("SELECT DISTINCT of groups cannot be run yet", place=place)
        keys = _group_keys(group, items, row)
        scope = GroupScope(row, keys)
        bound_items = [operands.typed(bind(item.node, scope), "SELECT") for item in items]
        if having_node is not None:
            scope.aliases = dict(zip(names, bound_items, strict=True))
            bound = bind_condition(having_node.this, scope, "HAVING")
            having = operands.to_scalar(bound, nodes.source_of(having_node.this, text))
        key_scalars = tuple(scalar for _, scalar in keys)
        aggregates = tuple(scope.aggregates)
    else:
        if having_node is not None:
            _refuse_having(having_node, text)
        key_scalars, bound_items = _plain_keys(items, row)
        aggregates = ()
    outputs = tuple(
        Named(name, operands.to_scalar(bound, nodes.source_of(item.node, text)))
        for name, item, bound in zip(names, items, bound_items, strict=True)
    )
    return BoundSelect(
        stream=stream.name,
        window=window,
        where=where,
        is_grouped=is_grouped,
        distinct=distinct,
        keys=key_scalars,
        aggregates=aggregates,
        having=having,
        outputs=outputs,
        operator=operator,
    )


# ---------------------------------------------------------------------- FROM


def _stream(source: exp.Expression, streams: Mapping[str, StreamDefinition], text: str) -> StreamDefinition:
    stream = streams.get(source.this.name)
    if stream is None:
        raise UnknownName("stream", source.this.name, streams, place=nodes.place_of(source.this, text))
    return stream


def _window(clause: exp.Expression, stream: StreamDefinition, text: str) -> Window:
    lengths: dict[str, int] = {}
    for key in ("range", "slide"):
        duration = clause.args[key]
        length = duration.microseconds
        if not 0 < length < MAX_WINDOW:
            raise BindError(
                f"{key.upper()} must be longer than nothing and shorter than 2^53 microseconds",
                place=nodes.place_of(duration, text),
                got=intervals.write(length),
            )
        lengths[key] = length
    if lengths["slide"] % stream.unit:
        unit = intervals.write(stream.unit)
        raise BindError(
            f"SLIDE must be a multiple of {unit}, the unit of the timestamps of '{stream.name}'",
            place=nodes.place_of(clause.args["slide"], text),
            expected=f"a multiple of {unit}",
            got=intervals.write(lengths["slide"]),
            hint="a finer unit is set with WITH (unit = 'ms') or 'us' if the timestamps count in it",
        )
    return Window(**lengths)


# --------------------------------------------------------------- select list


def _items(node: exp.Expression, stream: StreamDefinition) -> list[_Item]:
    items: list[_Item] = []
    for selected in node.expressions:
        if isinstance(selected, exp.Star):
            items += (_starred(name, selected) for name in stream.schema.names)
        elif isinstance(selected, exp.Alias):
            alias = selected.args["alias"]
            items.append(_Item(selected.this, alias.name, alias))
        elif isinstance(selected, exp.Column):
            items.append(_Item(selected, selected.name, selected.this))
        else:
            items.append(_Item(selected, None, selected))
    return items


def _starred(name: str, star: exp.Expression) -> _Item:
    identifier = nodes.mark(exp.Identifier(this=name, quoted=True), star)
    column = nodes.mark(exp.Column(this=identifier), star)
    return _Item(column, name, star)


def _names(items: list[_Item], operator: OutputOperator, text: str) -> list[str]:
    """Output names: given ones must be free, made ones step aside. Case alone sets no two names apart."""
    reserved = {RESERVED_OUTPUT: "the instant of the answer"}
    if operator is OutputOperator.VIEW:
        reserved[RESERVED_IN_VIEW] = "the kind of change, '+' or '-'"
    taken: set[str] = set()
    for item in items:
        if item.alias is None:
            continue
        folded = item.alias.casefold()
        place = nodes.place_of(item.named_by, text)
        if folded in reserved:
            starred = isinstance(item.named_by, exp.Star)
            raise DuplicateName(
                f"an output column cannot be called '{item.alias}': that is {reserved[folded]}",
                place=place,
                hint=f"{'list the columns and ' if starred else ''}rename it: {item.alias} AS my_{folded}",
            )
        if folded in taken:
            raise DuplicateName(
                f"two output columns are called '{item.alias}'",
                place=place,
                hint="give one of them another name with AS",
            )
        taken.add(folded)
    taken |= reserved.keys()
    names: list[str] = []
    for item in items:
        name = item.alias
        if name is None:
            made = _made_name(item.node)
            name, count = made, 1
            while name in taken:
                count += 1
                name = f"{made}_{count}"
            taken.add(name)
        names.append(name)
    return names


def _made_name(node: exp.Expression) -> str:
    """The words of the expression: SUM(p.length) → sum_length, length + 8 → length_8."""
    plain = node.copy()
    for column in plain.find_all(exp.Column):
        column.set("table", None)
    name = "_".join(re.findall(r"\w+", unparse(plain).lower()))[:_MAX_MADE_NAME].strip("_")
    return name if name and not name[0].isdigit() else f"column_{name}".rstrip("_")


def _has_aggregate(node: exp.Expression) -> bool:
    return any(call.this in AggregateFunction.__members__ for call in node.find_all(exp.Anonymous))


# ---------------------------------------------------------------- keys


def _plain_keys(items: list[_Item], row: RowScope) -> tuple[tuple[Scalar, ...], list[Operand]]:
    """Where nothing is grouped: the selected expressions, each once, and the outputs as columns of them."""
    keys: dict[Scalar, int] = {}
    outputs: list[Operand] = []
    for item in items:
        operand = operands.typed(bind(item.node, row), "SELECT")
        scalar = operands.to_scalar(operand, nodes.source_of(item.node, row.text))
        index = keys.setdefault(scalar, len(keys))
        outputs.append(operands.column(f"k{index}", scalar.type, operand.place))
    return tuple(keys), outputs


def _group_keys(
    group: exp.Expression | None, items: list[_Item], row: RowScope
) -> list[tuple[exp.Expression, Scalar]]:
    keys: dict[exp.Expression, Scalar] = {}
    scope = row.within("GROUP BY")
    for node in () if group is None else group.expressions:
        meant = _meant(node, items, row)
        operand = operands.typed(bind(meant, scope), "GROUP BY")
        if operand.tree not in keys:
            keys[operand.tree] = operands.to_scalar(operand, nodes.source_of(meant, row.text))
    return list(keys.items())


def _meant(node: exp.Expression, items: list[_Item], row: RowScope) -> exp.Expression:
    """What an ordinal or an output name in GROUP BY stands for; a column of the stream comes first."""
    if isinstance(node, exp.Literal) and not node.is_string:
        position = int(node.this) if node.this.isdigit() and len(node.this) < 6 else 0
        if not 1 <= position <= len(items):
            raise BindError(
                f"GROUP BY {node.this} is not the position of a selected column",
                place=nodes.place_of(node, row.text),
                expected=f"1 to {len(items)}",
                got=str(node.this)[:20],
            )
        return items[position - 1].node
    if isinstance(node, exp.Column) and node.args.get("table") is None and not row.has(node.name):
        for item in items:
            if item.alias == node.name and item.node is not node:
                return item.node
    return node


def _refuse_having(having: exp.Expression, text: str) -> None:
    if _has_aggregate(having):
        message = "HAVING with an aggregate in a select that groups nothing"
        hint = "add GROUP BY, or select an aggregate"
    else:
        message = "HAVING without GROUP BY or an aggregate"
        hint = "use WHERE to filter rows"
    raise BindError(message, place=nodes.place_of(having.this, text), hint=hint)
