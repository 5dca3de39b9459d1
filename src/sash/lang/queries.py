"""Whole queries: set operations, ORDER BY and LIMIT, output operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from sash.errors import BindError, InternalError, TypeMismatch
from sash.lang import algebra, nodes, operands
from sash.lang.algebra import Field, OutputKind
from sash.lang.context import BoundQuery, Context, Known, Naming
from sash.lang.growth import grows, is_internal, is_periodic, level_nodes
from sash.lang.nesting import MAX_DEPTH, deepest_in
from sash.lang.scalars import bind
from sash.lang.scopes import OutputScope
from sash.lang.select import bind_block, bind_distinct, position_of
from sash.lang.subqueries import refused_internal
from sash.lang.types import Type
from sash.lang.values import Named, Scalar
from sash.lang.windows import bind_output_window, check_slides
from sash.lang.wstream import nested, with_internal_windows

_TS = ("ts", "the instant of the answer")
_OP = ("op", "the kind of change, '+' or '-'")
_RESTORE = (OutputKind.ISTREAM_RESTORE, OutputKind.RSTREAM_RESTORE)
_WHOLE = (OutputKind.RSTREAM, OutputKind.RSTREAM_RESTORE)

Selected = Mapping[exp.Expression, Field]


def bind_plan(
    node: exp.Expression,
    known: Known,
    text: str,
    *,
    is_one_time: bool = False,
    allow_unbounded: bool = False,
    is_explained: bool = False,
) -> algebra.Output:
    """The plan of a query; `text` is the whole program, in which errors show their place."""
    reserved = () if is_one_time else (_TS,) if isinstance(node, nodes.OutputClause) else (_TS, _OP)
    ctx = Context(
        text,
        known,
        bind_query,
        is_one_time=is_one_time,
        allow_unbounded=allow_unbounded,
        reserved=reserved,
    )
    bound = bind_query(node, ctx, list)
    if deepest_in(bound.node) > MAX_DEPTH:
        raise BindError(
            "a query whose expressions are nested too deeply",
            place=ctx.place(node),
            expected=f"at most {MAX_DEPTH} levels of operators, those of sub-queries included",
            hint="split it into two",
        )
    check_slides(bound.node, ctx)
    if is_one_time:
        _check_one_time(bound, node, ctx)
    elif not is_explained and not any(isinstance(found, algebra.Stream) for found in bound.node.walk()):
        raise BindError(
            "a standing query over relations only",
            place=ctx.place(node),
            expected="a stream in FROM",
            hint="its answer has no time; ask it once: SELECT … without CREATE QUERY",
        )
    return bound.output()


def bind_query(node: exp.Expression, ctx: Context, naming: Naming) -> BoundQuery:
    match node:
        case nodes.OutputClause():
            return _bind_output(node, ctx, naming)
        case exp.Subquery():
            inner = bind_query(node.this, ctx, naming)
            ordered = _ordered(inner.node, node, inner.names, {}, ctx)
            if ordered is not inner.node and inner.kind is not OutputKind.VIEW:
                raise _misplaced_operator(node.this, ctx)
            return replace(inner, node=ordered)
        case exp.Select():
            block = bind_block(nested(node, ctx), ctx, naming)
            return BoundQuery(_ordered(block.node, node, block.names, block.selected, ctx), block.names)
        case exp.Union() | exp.Except() | exp.Intersect():
            return _bind_set_operation(node, ctx, naming)
    raise InternalError(f"no rule binds the query {type(node).__name__}", place=ctx.place(node))


# ------------------------------------------------------------ output operators


def _bind_output(node: nodes.OutputClause, ctx: Context, naming: Naming) -> BoundQuery:
    kind = OutputKind(node.args["kind"])
    window = None
    query = node.this
    if kind is OutputKind.WSTREAM:
        window = bind_output_window(node.args["window"], ctx)
        query = with_internal_windows(query, ctx)
    bound = bind_query(query, ctx, naming)
    if bound.kind is not OutputKind.VIEW:
        raise _misplaced_operator(node.this, ctx)
    name = kind.value.capitalize()
    if kind is OutputKind.WSTREAM and is_periodic(bound.node):
        raise BindError(
            "Wstream does not go with SLIDE",
            place=ctx.place(node),
            hint="an evaluation may give more results than the window on the output holds; take SLIDE away",
        )
    if kind in _RESTORE and not is_periodic(bound.node):
        raise BindError(
            f"{name} needs windows with SLIDE",
            place=ctx.place(node),
            expected="[RANGE … SLIDE …]",
            hint=f"without SLIDE nothing is lost between evaluations; write {name.partition('-')[0]}",
        )
    if kind in _WHOLE and (grows(bound.node) or is_internal(bound.node)):
        ctx.refuse_growth(f"{name} of an answer that only grows", ctx.place(node), "write Istream instead")
    return BoundQuery(bound.node, bound.names, kind, window)


def _misplaced_operator(node: exp.Expression, ctx: Context) -> BindError:
    kind = node.args["kind"].capitalize() if isinstance(node, nodes.OutputClause) else "an output operator"
    return BindError(
        f"{kind} inside another query",
        place=ctx.place(node),
        expected="one output operator around the whole query, or around a sub-query in FROM",
    )


def _check_one_time(bound: BoundQuery, node: exp.Expression, ctx: Context) -> None:
    kind = bound.kind
    if kind not in (OutputKind.VIEW, OutputKind.RSTREAM):
        raise BindError(
            f"a one-time query has one answer, so {kind.value.capitalize()} says nothing",
            place=ctx.place(node),
            hint="take the operator away, or write CREATE QUERY name AS before it",
        )
    for window in level_nodes(bound.node):
        if isinstance(window, algebra.Window) and window.spec.is_internal:
            raise BindError(
                "a one-time query is over the windows as they are, so INTERNAL says nothing",
                place=ctx.window_place(window),
                hint="take INTERNAL away; of a standing query it keeps the results",
            )


# -------------------------------------------------------------- set operations


def _bind_set_operation(node: exp.Expression, ctx: Context, naming: Naming) -> BoundQuery:
    word = type(node).__name__.upper()
    left = bind_query(node.this, ctx, naming)
    names = left.node.names
    right = bind_query(
        node.expression,
        replace(ctx, reserved=()),
        lambda given: names if len(given) == len(names) else list(given),
    )
    for side, bound in ((node.this, left), (node.expression, right)):
        if bound.kind is not OutputKind.VIEW:
            raise _misplaced_operator(side, ctx)
    if len(left.node.fields) != len(right.node.fields):
        raise BindError(
            f"{word} of answers with different numbers of columns",
            place=ctx.place(node.expression),
            expected=_columns(len(left.node.fields)),
            got=_columns(len(right.node.fields)),
        )
    types = [
        _common(word, position, first.type, second.type, node, ctx)
        for position, (first, second) in enumerate(zip(left.node.fields, right.node.fields, strict=True), 1)
    ]
    first, second = _widened(left.node, types), _widened(right.node, types)
    is_distinct = bool(node.args.get("distinct"))
    result: algebra.Node
    if isinstance(node, exp.Union):
        result = algebra.Union(first, second)
        if is_distinct:
            result = bind_distinct(result, "UNION", node.expression, ctx)
    else:
        result = _difference(node, first, second, is_distinct, ctx)
    return BoundQuery(_ordered(result, node, left.names, {}, ctx), left.names)


def _difference(
    node: exp.Expression, first: algebra.Node, second: algebra.Node, is_distinct: bool, ctx: Context
) -> algebra.Node:
    """EXCEPT and INTERSECT, which compare their inputs and so must keep them."""
    word = type(node).__name__.upper()
    place = ctx.place(node.expression)
    if isinstance(node, exp.Except) and (is_internal(first) or is_internal(second)):
        raise refused_internal(word, node.expression, ctx)
    if is_distinct:
        first, second = (bind_distinct(side, word, node.expression, ctx) for side in (first, second))
    if grows(first) or grows(second):
        ctx.refuse_growth(f"{word} over a whole stream", place)
    operator = algebra.Except if isinstance(node, exp.Except) else algebra.Intersect
    return operator(first, second)


def _columns(count: int) -> str:
    return f"{count} column{'' if count == 1 else 's'}"


def _common(word: str, position: int, left: Type, right: Type, node: exp.Expression, ctx: Context) -> Type:
    if left is right:
        return left
    if left.is_numeric and right.is_numeric:
        return Type.DOUBLE
    raise TypeMismatch(
        f"column {position} of {word} has two types",
        place=ctx.place(node.expression),
        expected=str(left),
        got=str(right),
        hint=f"convert it with CAST(… AS {left})",
    )


def _widened(node: algebra.Node, types: list[Type]) -> algebra.Node:
    if [field.type for field in node.fields] == types:
        return node
    outputs: list[Named] = []
    for field, type_ in zip(node.fields, types, strict=True):
        column = operands.column(field.name, field.type, None)
        outputs.append(
            Named(field.name, operands.to_scalar(operands.need(column, type_, "a set operation"), ""))
        )
    return algebra.Project(node, tuple(outputs))


# ------------------------------------------------------------ ORDER BY, LIMIT


def _ordered(
    input_: algebra.Node, node: exp.Expression, names: tuple[str, ...], selected: Selected, ctx: Context
) -> algebra.Node:
    order, limit = node.args.get("order"), node.args.get("limit")
    if order is None and limit is None:
        return input_
    at = order.expressions[0] if order is not None else limit
    word = "LIMIT" if order is None else "ORDER BY"
    if not ctx.is_one_time and not is_periodic(input_):
        raise BindError(
            f"{word} needs windows with SLIDE",
            place=ctx.place(at),
            expected="a periodic answer, as over [RANGE 1 MIN SLIDE 10 SEC]",
            hint="an answer that changes with every row has no order of its own",
        )
    if not ctx.is_one_time and is_internal(input_):
        raise refused_internal(word, at, ctx)
    columns = dict(zip(names, input_.fields, strict=True))
    scope = OutputScope(ctx.text, columns, selected)
    keys = () if order is None else tuple(_sort_key(key, input_.fields, scope) for key in order.expressions)
    count = None if limit is None else int(limit.expression.this)
    result = algebra.Limit(input_, keys, count)
    if grows(result):
        ctx.refuse_growth(f"{word} over a whole stream", ctx.place(at))
    return result


def _sort_key(node: nodes.SortKey, fields: tuple[Field, ...], scope: OutputScope) -> algebra.SortKey:
    value = node.this
    if isinstance(value, exp.Literal) and not value.is_string:
        field = fields[position_of(value, len(fields), "ORDER BY", scope.text) - 1]
        operand = operands.column(field.name, field.type, nodes.place_of(value, scope.text))
    else:
        operand = operands.typed(bind(value, scope), "ORDER BY")
    scalar: Scalar = operands.to_scalar(operand, nodes.source_of(value, scope.text))
    return algebra.SortKey(scalar, bool(node.args.get("descending")), node.args.get("nulls") == "first")
