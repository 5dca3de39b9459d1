"""A SELECT without ORDER BY: rows, groups, the select list, DISTINCT.

Invariant: nothing in the result depends on spelling. Names, qualifiers, aliases, ordinals and repeated
expressions are resolved, and equal aggregates and keys are there once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sash.errors import BindError, DuplicateName
from sash.lang import algebra, nodes, operands
from sash.lang.aggregates import has_aggregate
from sash.lang.context import Context, Naming
from sash.lang.growth import grows, has_endless_groups, is_internal
from sash.lang.operands import Operand
from sash.lang.parse import unparse
from sash.lang.scalars import bind, bind_condition
from sash.lang.scopes import FromScope, GroupScope
from sash.lang.subqueries import bind_rows, refused_internal
from sash.lang.values import Named, Scalar

_MAX_MADE_NAME = 40


@dataclass(frozen=True, slots=True)
class _Item:
    """A selected expression; `alias` is None where the name must be made."""

    node: exp.Expression
    alias: str | None
    named_by: exp.Expression


@dataclass(frozen=True, slots=True)
class Block:
    """`selected` gives the fields by the expressions that they were selected with."""

    node: algebra.Node
    names: tuple[str, ...]
    selected: Mapping[exp.Expression, algebra.Field]


def bind_block(select: exp.Select, ctx: Context, naming: Naming) -> Block:
    rows = bind_rows(select, ctx)
    if rows.correlations:
        raise BindError(
            "a correlated sub-query that is more than a plain SELECT",
            place=ctx.place(select),
            expected="SELECT … FROM … WHERE, without aggregates, GROUP BY, LIMIT and set operations",
            hint="write the query as a join",
            id="correlation",
        )
    items = _items(select, rows.scope)
    names = _names(items, ctx)
    group = select.args.get("group")
    having = select.args.get("having")
    node = rows.node
    if group is not None or any(has_aggregate(item.node) for item in items):
        keys = _group_keys(group, items, rows.scope)
        scope = GroupScope(rows.scope, keys)
        bound = [operands.typed(bind(item.node, scope), "SELECT") for item in items]
        predicate = None
        if having is not None:
            scope.aliases = dict(zip(names, bound, strict=True))
            condition = bind_condition(having.this, scope, "HAVING")
            predicate = operands.to_scalar(condition, nodes.source_of(having.this, ctx.text))
        aggregate = algebra.Aggregate(node, tuple(key for _, key in keys), tuple(scope.aggregates))
        _refuse_growing_groups(aggregate, group, select, ctx)
        node = aggregate if predicate is None else algebra.Select(aggregate, predicate)
    else:
        if having is not None:
            _refuse_having(having, ctx)
        bound = [operands.typed(bind(item.node, rows.scope), "SELECT") for item in items]
    outputs = tuple(
        Named(name, operands.to_scalar(operand, nodes.source_of(item.node, ctx.text)))
        for name, item, operand in zip(naming(names), items, bound, strict=True)
    )
    node = algebra.Project(node, outputs)
    fields = node.fields
    distinct = select.args.get("distinct")
    if distinct is not None:
        node = bind_distinct(node, "SELECT DISTINCT", distinct, ctx)
    selected = {item.node: field for item, field in zip(items, fields, strict=True)}
    return Block(node, tuple(names), selected)


def bind_distinct(node: algebra.Node, what: str, at: exp.Expression | None, ctx: Context) -> algebra.Distinct:
    if is_internal(node):
        raise refused_internal(what, at, ctx)
    if grows(node):
        ctx.refuse_growth(f"{what} over a whole stream", ctx.place(at))
    return algebra.Distinct(node)


def _refuse_growing_groups(
    aggregate: algebra.Aggregate, group: exp.Expression | None, select: exp.Select, ctx: Context
) -> None:
    if not grows(aggregate.input):
        return
    if has_endless_groups(aggregate) and group is not None:
        ctx.refuse_growth("GROUP BY over a whole stream", ctx.place(group.expressions[0]))
    for call in aggregate.calls:
        if not call.has_bounded_state:
            name = f"{call.function.value}{'(DISTINCT …)' if call.is_distinct else ''}"
            ctx.refuse_growth(f"{name} over a whole stream", ctx.place(select.args["from_"].this))


def _refuse_having(having: exp.Expression, ctx: Context) -> None:
    if has_aggregate(having):
        message = "HAVING with an aggregate in a select that groups nothing"
        hint = "add GROUP BY, or select an aggregate"
    else:
        message = "HAVING without GROUP BY or an aggregate"
        hint = "use WHERE to filter rows"
    raise BindError(message, place=ctx.place(having.this), hint=hint)


# --------------------------------------------------------------- select list


def _items(select: exp.Select, scope: FromScope) -> list[_Item]:
    items: list[_Item] = []
    taken: set[str] = set()
    for selected in select.expressions:
        if isinstance(selected, exp.Alias):
            alias = selected.args["alias"]
            items.append(_Item(selected.this, alias.name, alias))
        elif isinstance(selected, exp.Star):
            items += _starred(selected, range(len(scope.sources)), scope, taken)
        elif isinstance(selected, exp.Column) and isinstance(selected.this, exp.Star):
            source = scope.one(selected.args["table"])
            items += _starred(selected, [scope.sources.index(source)], scope, taken)
        elif isinstance(selected, exp.Column):
            items.append(_Item(selected, selected.name, selected.this))
        else:
            items.append(_Item(selected, None, selected))
    return items


def _starred(
    star: exp.Expression, positions: Sequence[int], scope: FromScope, taken: set[str]
) -> list[_Item]:
    """The columns that '*' stands for. A second one of a name gets that of its source before its own."""
    items: list[_Item] = []
    for position in positions:
        source = scope.sources[position]
        for name in source.columns:
            identifier = nodes.mark(exp.Identifier(this=name, quoted=True), star)
            column = nodes.mark(exp.Column(this=identifier), star)
            column.meta["source"] = position
            shown = f"{source.alias or source.name or 'q'}_{name}" if name.casefold() in taken else name
            taken.add(shown.casefold())
            items.append(_Item(column, shown, star))
    return items


def _names(items: list[_Item], ctx: Context) -> list[str]:
    """Output names: given ones must be free, made ones step aside. Case alone sets no two names apart."""
    reserved = dict(ctx.reserved)
    taken: set[str] = set()
    for item in items:
        if item.alias is None:
            continue
        folded = item.alias.casefold()
        place = ctx.place(item.named_by)
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
            made = made_name(item.node)
            name, count = made, 1
            while name in taken:
                count += 1
                name = f"{made}_{count}"
            taken.add(name)
        names.append(name)
    return names


def made_name(node: exp.Expression) -> str:
    """The words of the expression: SUM(p.length) → sum_length, length + 8 → length_8."""
    plain = node.copy()
    for column in plain.find_all(exp.Column):
        column.set("table", None)
    name = "_".join(re.findall(r"\w+", unparse(plain).lower()))[:_MAX_MADE_NAME].strip("_")
    return name if name and not name[0].isdigit() else f"column_{name}".rstrip("_")


# ---------------------------------------------------------------- keys


def _group_keys(
    group: exp.Expression | None, items: list[_Item], row: FromScope
) -> list[tuple[exp.Expression, Scalar]]:
    keys: dict[exp.Expression, Scalar] = {}
    scope = row.within("GROUP BY")
    for node in () if group is None else group.expressions:
        meant = _meant(node, items, row)
        operand: Operand = operands.typed(bind(meant, scope), "GROUP BY")
        if operand.tree not in keys:
            keys[operand.tree] = operands.to_scalar(operand, nodes.source_of(meant, row.text))
    return list(keys.items())


def _meant(node: exp.Expression, items: list[_Item], row: FromScope) -> exp.Expression:
    """What an ordinal or an output name in GROUP BY stands for; a column of FROM comes first."""
    if isinstance(node, exp.Literal) and not node.is_string:
        return items[position_of(node, len(items), "GROUP BY", row.text) - 1].node
    if isinstance(node, exp.Column) and node.args.get("table") is None and not row.has(node.name):
        for item in items:
            if item.alias == node.name and item.node is not node:
                return item.node
    return node


def position_of(node: exp.Literal, count: int, clause: str, text: str) -> int:
    """The position that an ordinal means, from 1."""
    position = int(node.this) if node.this.isdigit() and len(node.this) < 6 else 0
    if not 1 <= position <= count:
        raise BindError(
            f"{clause} {str(node.this)[:20]} is not the position of a selected column",
            place=nodes.place_of(node, text),
            expected=f"1 to {count}",
            got=str(node.this)[:20],
        )
    return position
