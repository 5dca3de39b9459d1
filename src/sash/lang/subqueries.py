"""WHERE and the conditions in it that are sub-queries: [NOT] EXISTS and [NOT] IN.

A sub-query is correlated by equalities between an expression of its own and one of the outer query;
they become the keys of a semi-join. A sub-query that groups, or is more than a plain SELECT, is
evaluated as it stands and cannot be correlated.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sash.errors import BindError
from sash.lang import algebra, nodes, operands
from sash.lang.aggregates import has_aggregate
from sash.lang.conjuncts import Conjunct, bind_conjunct, split, unwrapped
from sash.lang.context import Context
from sash.lang.growth import grows, is_internal
from sash.lang.joins import assemble
from sash.lang.operands import Operand
from sash.lang.scalars import bind
from sash.lang.scopes import FromScope, Source
from sash.lang.sources import bind_sources
from sash.lang.values import Scalar


@dataclass(frozen=True, slots=True)
class Rows:
    """FROM and WHERE of a SELECT; `correlations` pair outer with inner scalars."""

    node: algebra.Node
    scope: FromScope
    correlations: tuple[tuple[Scalar, Scalar], ...]


def bind_rows(select: exp.Select, ctx: Context) -> Rows:
    sources = bind_sources(select, ctx)
    scope = FromScope(ctx.text, sources, "SELECT", ctx.enclosing)
    conjuncts: list[Conjunct] = []
    outer: dict[int, list[Conjunct]] = {}
    tests: list[tuple[exp.Expression, bool]] = []
    correlations: list[tuple[Scalar, Scalar]] = []
    for position, join in enumerate(select.args.get("joins") or (), start=1):
        condition = join.args.get("on")
        if condition is None:
            continue
        seen = FromScope(ctx.text, sources[: position + 1], "ON", ctx.enclosing)
        parts = [bind_conjunct(part, seen) for part in split(condition)]
        if join.args.get("side"):
            _require_relation(sources[position], join, ctx)
            outer[position] = parts
        else:
            conjuncts += parts
    where = select.args.get("where")
    row = scope.within("WHERE")
    for part in () if where is None else split(where.this):
        inner, negated = _test(part)
        if inner is not None:
            tests.append((inner, negated))
            continue
        pair = None if ctx.enclosing is None else _correlation(part, row, ctx.enclosing)
        if pair is not None:
            correlations.append(pair)
        else:
            conjuncts.append(bind_conjunct(part, row))
    node = assemble(sources, conjuncts, {index: tuple(parts) for index, parts in outer.items()}, ctx)
    for inner, negated in tests:
        node = _semi_join(node, inner, negated, row, ctx)
    return Rows(node, scope, tuple(correlations))


def _require_relation(source: Source, join: exp.Expression, ctx: Context) -> None:
    if source.kind != "relation":
        got = "a sub-query" if source.kind == "query" else f"the {source.kind} '{source.name}'"
        raise BindError(
            f"LEFT JOIN with {got} on the right",
            place=ctx.place(join.this),
            expected="a relation",
            got=got,
            hint="a row of the stream would change its mind when a match arrives; use JOIN",
        )


def _test(node: exp.Expression) -> tuple[exp.Expression | None, bool]:
    """The EXISTS or IN (SELECT …) that the condition is, and whether it is negated."""
    negated = False
    while isinstance(node, exp.Not):
        node, negated = unwrapped(node.this), not negated
    if isinstance(node, exp.Exists) or (isinstance(node, exp.In) and node.args.get("query") is not None):
        return node, negated
    return None, False


# ---------------------------------------------------------------- correlation


def _correlation(node: exp.Expression, inner: FromScope, outer: FromScope) -> tuple[Scalar, Scalar] | None:
    """Outer and inner side of the condition, if it is correlated."""
    if not _outer_columns(node, inner, outer):
        return None
    if isinstance(node, exp.EQ):
        for ours, theirs in ((node.this, node.expression), (node.expression, node.this)):
            if _outer_columns(ours, inner, outer):
                continue
            if all(not inner.knows(column) for column in theirs.find_all(exp.Column)):
                return _pair(bind(theirs, outer), bind(ours, inner), theirs, ours, inner.text)
    raise BindError(
        "a correlation that is not an equality",
        place=nodes.place_of(node, inner.text),
        expected="an inner expression = an outer one",
        got=nodes.source_of(node, inner.text),
        hint="write the query as a join",
        id="correlation",
    )


def _outer_columns(node: exp.Expression, inner: FromScope, outer: FromScope) -> bool:
    return any(not inner.knows(column) and outer.knows(column) for column in node.find_all(exp.Column))


def _pair(
    outer: Operand, inner: Operand, outer_node: exp.Expression, inner_node: exp.Expression, text: str
) -> tuple[Scalar, Scalar]:
    _, (left, right) = operands.unify([outer, inner], "=")
    return (
        operands.to_scalar(left, nodes.source_of(outer_node, text)),
        operands.to_scalar(right, nodes.source_of(inner_node, text)),
    )


# ----------------------------------------------------------------- semi-joins


def _semi_join(
    left: algebra.Node, test: exp.Expression, negated: bool, scope: FromScope, ctx: Context
) -> algebra.SemiJoin:
    query = test.this if isinstance(test, exp.Exists) else test.args["query"]
    inner = ctx.inner(scope)
    pairs: list[tuple[Scalar, Scalar]] = []
    plain = _plain_select(query)
    if plain is not None:
        rows = bind_rows(plain, inner)
        right = rows.node
        if isinstance(test, exp.In):
            (item,) = _one_item(plain, test, rows.scope, ctx)
            value = bind(item, rows.scope)
            pairs.append(_member(bind(test.this, scope), value, test, item, ctx.text))
        else:
            for item in plain.expressions:
                _check_item(item, rows.scope)
        pairs += rows.correlations
    else:
        qualifier = ctx.subquery_qualifier()
        bound = ctx.bind_query(query, inner, lambda names: [f"{qualifier}.c{i}" for i in range(len(names))])
        _refuse_operator(bound.kind, query, ctx)
        right = bound.node
        if isinstance(test, exp.In):
            if len(right.fields) != 1:
                raise _too_many(len(right.fields), query, ctx)
            field = right.fields[0]
            value = operands.column(field.name, field.type, ctx.place(query))
            pairs.append(_member(bind(test.this, scope), value, test, query, ctx.text))
    what = "EXISTS" if isinstance(test, exp.Exists) else "IN"
    place = ctx.place(test)
    for side in (left, right):
        if grows(side):
            ctx.refuse_growth(f"{'NOT ' if negated else ''}{what} over a whole stream", place)
    if negated and (is_internal(left) or is_internal(right)):
        raise refused_internal(f"NOT {what}", test, ctx)
    return algebra.SemiJoin(
        left,
        right,
        tuple(outer for outer, _ in pairs),
        tuple(inner for _, inner in pairs),
        is_anti=negated,
        nulls_match=negated and isinstance(test, exp.In),
    )


def refused_internal(what: str, node: exp.Expression | None, ctx: Context) -> BindError:
    return BindError(
        f"{what} does not go with INTERNAL windows or Wstream",
        place=ctx.place(node),
        hint="results of INTERNAL windows never expire, so they could break what the operator promises",
        id="internal-window",
    )


def _plain_select(query: exp.Expression) -> exp.Select | None:
    while isinstance(query, exp.Subquery) and not (query.args.get("order") or query.args.get("limit")):
        query = query.this
    if not isinstance(query, exp.Select):
        return None
    if any(query.args.get(key) for key in ("group", "having", "order", "limit")):
        return None
    return None if any(has_aggregate(item) for item in query.expressions) else query


def _one_item(
    select: exp.Select, test: exp.Expression, scope: FromScope, ctx: Context
) -> list[exp.Expression]:
    items: list[exp.Expression] = []
    for item in select.expressions:
        starred = isinstance(item, exp.Star) or isinstance(item.this, exp.Star)
        if starred:
            table = item.args.get("table")
            chosen = scope.sources if table is None else [scope.one(table)]
            items += (
                nodes.mark(exp.Column(this=nodes.mark(exp.Identifier(this=name, quoted=True), item)), item)
                for source in chosen
                for name in source.columns
            )
        else:
            items.append(item.this if isinstance(item, exp.Alias) else item)
    if len(items) != 1:
        raise _too_many(len(items), select, ctx)
    return items


def _check_item(item: exp.Expression, scope: FromScope) -> None:
    inner = item.this if isinstance(item, exp.Alias) else item
    if isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star):
        scope.one(inner.args["table"])
    elif not isinstance(inner, exp.Star):
        bind(inner, scope)


def _too_many(count: int, query: exp.Expression, ctx: Context) -> BindError:
    return BindError(
        "IN needs a sub-query of one column",
        place=ctx.place(query),
        expected="1 column",
        got=f"{count} columns",
        hint="EXISTS compares several columns",
    )


def _member(
    outer: Operand, inner: Operand, test: exp.Expression, inner_node: exp.Expression, text: str
) -> tuple[Scalar, Scalar]:
    for operand in (outer, inner):
        operands.typed(operand, "IN")
    _, (left, right) = operands.unify([outer, inner], "IN")
    return (
        operands.to_scalar(left, nodes.source_of(test.this, text)),
        operands.to_scalar(right, nodes.source_of(inner_node, text)),
    )


def _refuse_operator(kind: algebra.OutputKind, query: exp.Expression, ctx: Context) -> None:
    if kind is not algebra.OutputKind.VIEW:
        raise BindError(
            f"{kind.value.capitalize()} cannot stand in EXISTS or IN",
            place=ctx.place(query),
            hint="take the output operator away",
        )
