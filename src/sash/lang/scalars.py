"""Scalar expressions: from syntax trees to typed operands.

`bind(node, scope)` types an expression bottom-up; the scope says what a column means there, whether
aggregates may stand there, and (in a grouped select) which whole expressions are group keys. A chain of
binary operators is folded without recursion.

Cost: linear in the expression, but in a grouped select with computed keys each node is also compared
with them, which is quadratic in the depth of the expression.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol

from sqlglot import exp

from sash.errors import BindError, InternalError, NotYet, Place, UnknownName
from sash.lang import nodes, operands
from sash.lang.functions import (
    AGGREGATES,
    EXTRACT_PARTS,
    FUNCTIONS,
    divide,
    divide_integers,
    function_names,
    negate,
    remainder,
    shift,
)
from sash.lang.generator import SYMBOLS
from sash.lang.operands import Operand
from sash.lang.types import Type

TYPES: dict[exp.DType, Type] = {
    exp.DType.BIGINT: Type.BIGINT,
    exp.DType.DOUBLE: Type.DOUBLE,
    exp.DType.TEXT: Type.STRING,
    exp.DType.BOOLEAN: Type.BOOLEAN,
    exp.DType.TIMESTAMP: Type.TIMESTAMP,
}

_CASTS: dict[Type, tuple[Type, ...]] = {
    Type.BIGINT: (Type.BIGINT, Type.DOUBLE, Type.STRING, Type.BOOLEAN),
    Type.DOUBLE: (Type.BIGINT, Type.DOUBLE, Type.STRING),
    Type.STRING: (Type.BIGINT, Type.DOUBLE, Type.STRING, Type.BOOLEAN),
    Type.BOOLEAN: (Type.BIGINT, Type.STRING, Type.BOOLEAN),
    Type.TIMESTAMP: (Type.STRING, Type.TIMESTAMP),
}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


class Scope(Protocol):
    text: str

    def whole(self, node: exp.Expression) -> Operand | None:
        """The operand of a node that is known as a whole, such as a group key."""

    def column(self, node: exp.Column) -> Operand: ...

    def aggregate(self, node: exp.Anonymous) -> Operand: ...


def bind(node: exp.Expression, scope: Scope) -> Operand:
    """The operand of an expression, which carries the expression's place."""
    chain: list[exp.Expression] = []
    known = scope.whole(node)
    while known is None and type(node) in SYMBOLS:
        chain.append(node)
        node = node.this
        known = scope.whole(node)
    if known is None and chain and isinstance(node, nodes.Duration) and isinstance(chain[-1], exp.Add):
        microseconds = node.microseconds
        node = chain.pop()
        known = shift("+", exp.Add, bind(node.expression, scope), microseconds)
    left = _at(_bind_one(node, scope) if known is None else known, node, scope)
    for operator in reversed(chain):
        left = _at(_bind_binary(operator, left, scope), operator, scope)
    return left


def bind_condition(node: exp.Expression, scope: Scope, what: str) -> Operand:
    return operands.need(bind(node, scope), Type.BOOLEAN, what)


def _at(operand: Operand, node: exp.Expression, scope: Scope) -> Operand:
    return Operand(
        operand.tree, operand.type, nodes.place_of(node, scope.text), operand.literal, operand.copies
    )


def _bind_binary(node: exp.Expression, left: Operand, scope: Scope) -> Operand:
    symbol = SYMBOLS[type(node)]
    if isinstance(node, exp.Add | exp.Sub) and isinstance(node.expression, nodes.Duration):
        return shift(symbol, type(node), left, node.expression.microseconds)
    if isinstance(node, exp.Is):
        if isinstance(node.expression, exp.Boolean):
            left = operands.need(left, Type.BOOLEAN, f"IS {str(node.expression.this).upper()}")
        elif left.type is None:
            left = operands.cast(left, Type.BOOLEAN)
        tree = exp.Is(this=operands.wrapped(left), expression=node.expression.copy())
        return Operand(tree, Type.BOOLEAN, copies=left.copies)
    right = bind(node.expression, scope)
    if isinstance(node, exp.And | exp.Or):
        left, right = (operands.need(o, Type.BOOLEAN, symbol) for o in (left, right))
        return operands.binary(type(node), Type.BOOLEAN, left, right)
    if isinstance(node, _COMPARISONS):
        _, (left, right) = operands.unify([left, right], symbol)
        return operands.binary(type(node), Type.BOOLEAN, left, right)
    if isinstance(node, exp.DPipe | exp.Like):
        left, right = (operands.need(o, Type.STRING, symbol) for o in (left, right))
        result = Type.STRING if isinstance(node, exp.DPipe) else Type.BOOLEAN
        return operands.binary(type(node), result, left, right)
    if isinstance(node, exp.Div):
        return divide(symbol, left, right)
    if isinstance(node, exp.Mod):
        return remainder(symbol, left, right)
    if isinstance(node, exp.IntDiv):
        return divide_integers(symbol, left, right)
    type_, (left, right) = operands.unify([operands.need_numeric(o, symbol) for o in (left, right)], symbol)
    return operands.binary(type(node), type_, left, right)


def _bind_one(node: exp.Expression, scope: Scope) -> Operand:
    match node:
        case exp.Paren():
            return bind(node.this, scope)
        case exp.Column():
            return scope.column(node)
        case exp.Literal():
            return _literal(node, scope)
        case exp.Boolean():
            return operands.boolean(bool(node.this))
        case exp.Null():
            return operands.null()
        case exp.Neg():
            if isinstance(node.this, exp.Literal) and not node.this.is_string:
                return _literal(node.this, scope, sign=-1)
            return negate(bind(node.this, scope))
        case exp.Not():
            inner = operands.need(bind(node.this, scope), Type.BOOLEAN, "NOT")
            return Operand(exp.Not(this=operands.wrapped(inner)), Type.BOOLEAN, copies=inner.copies)
        case exp.In():
            return _in(node, scope)
        case exp.Between():
            return _between(node, scope)
        case exp.Case():
            return _case(node, scope)
        case exp.Cast():
            return _cast(node, scope)
        case exp.Extract():
            return _extract(node, scope)
        case nodes.TimestampLiteral():
            return _timestamp(node, scope)
        case exp.Anonymous():
            return _call(node, scope)
        case exp.Star():
            raise BindError(
                "'*' is not a value", place=nodes.place_of(node, scope.text), hint="only COUNT takes '*'"
            )
        case nodes.Duration():
            raise BindError(
                "an interval is not a value",
                place=nodes.place_of(node, scope.text),
                hint="an interval is added to a timestamp or taken from one: at + INTERVAL '1' HOUR",
            )
        case exp.Exists():
            raise _misplaced("EXISTS", node, scope)
        case nodes.OutputCall():
            raise BindError(
                f"{node.args['kind'].capitalize()} cannot stand inside an expression",
                place=nodes.place_of(node, scope.text),
                hint="write it around the whole select list; only Wstream may stand in an aggregate, as in "
                "SELECT SUM(Wstream(SUM(a))[ROWS 10]) FROM …",
            )
        case exp.Distinct():
            raise BindError(
                "DISTINCT is for arguments of aggregates",
                place=nodes.place_of(node, scope.text),
                hint="COUNT(DISTINCT x) counts different values",
            )
    raise InternalError(f"no rule binds {type(node).__name__}", place=nodes.place_of(node, scope.text))


def _literal(node: exp.Literal, scope: Scope, sign: int = 1) -> Operand:
    place = nodes.place_of(node, scope.text)
    written = str(node.this)
    if node.is_string:
        return operands.string(written, place)
    if written.isdigit():
        digits = written.lstrip("0") or "0"
        # Python refuses to read very long integers; any of twenty digits is out of range.
        return operands.integer(sign * int(digits[:20]), place)
    return operands.double(sign * float(written), place)


def _misplaced(what: str, node: exp.Expression, scope: Scope) -> BindError:
    return BindError(
        f"{what} with a sub-query cannot stand here",
        place=nodes.place_of(node, scope.text),
        expected=f"{what} as a condition of its own in WHERE, joined to others by AND",
        hint="a query with OR can be written as a UNION of two",
    )


def _in(node: exp.In, scope: Scope) -> Operand:
    if node.args.get("query") is not None:
        raise _misplaced("IN", node, scope)
    members = [bind(node.this, scope), *(bind(value, scope) for value in node.expressions)]
    _, (left, *values) = operands.unify(members, "IN")
    tree = exp.In(this=operands.wrapped(left), expressions=[value.tree for value in values])
    return Operand(tree, Type.BOOLEAN, copies=operands.most_copies(left, *values))


def _between(node: exp.Between, scope: Scope) -> Operand:
    members = [bind(part, scope) for part in (node.this, node.args["low"], node.args["high"])]
    _, (value, low, high) = operands.unify(members, "BETWEEN")
    tree = exp.Between(this=operands.wrapped(value), low=operands.wrapped(low), high=operands.wrapped(high))
    copies = operands.most_copies(value, low, high)
    return operands.copied(Operand(tree, Type.BOOLEAN, copies=copies), value)


def _case(node: exp.Case, scope: Scope) -> Operand:
    branches = node.args["ifs"]
    default = node.args.get("default")
    subject = None
    if node.this is None:
        conditions = [bind_condition(branch.this, scope, "WHEN") for branch in branches]
    else:
        members = [bind(node.this, scope), *(bind(branch.this, scope) for branch in branches)]
        _, (subject, *conditions) = operands.unify(members, "CASE")
    results = [bind(branch.args["true"], scope) for branch in branches]
    if default is not None:
        results.append(bind(default, scope))
    type_, results = operands.unify(results, "CASE", nulls=True)
    tree = exp.Case(
        this=None if subject is None else operands.wrapped(subject),
        ifs=[exp.If(this=c.tree, true=r.tree) for c, r in zip(conditions, results, strict=False)],
        default=None if default is None else results[-1].tree,
    )
    result = Operand(tree, type_, copies=operands.most_copies(*conditions, *results))
    return result if subject is None else operands.copied(result, subject, max(2, len(branches)))


def _cast(node: exp.Cast, scope: Scope) -> Operand:
    operand = bind(node.this, scope)
    target = TYPES[node.args["to"].this]
    if operand.type is target:
        return operand
    if operand.type is Type.STRING and target is Type.TIMESTAMP:
        raise NotYet(
            "CAST of a STRING to TIMESTAMP cannot be run yet",
            place=operand.place,
            hint="declare the column as TIMESTAMP; a constant is TIMESTAMP '2026-01-31 12:00:00'",
        )
    if operand.type is not None and target not in _CASTS[operand.type]:
        hint = "EXTRACT(EPOCH FROM x) gives seconds" if operand.type is Type.TIMESTAMP else None
        takes = ", ".join(str(t) for t, targets in _CASTS.items() if target in targets)
        raise operands.mismatch(operand, takes, f"CAST to {target}", hint)
    return operands.cast(operand, target)


def _extract(node: exp.Extract, scope: Scope) -> Operand:
    part = node.this.name.upper()
    if part not in EXTRACT_PARTS:
        place = nodes.place_of(node.this, scope.text)
        known = [name.lower() for name in EXTRACT_PARTS]
        raise UnknownName("part of a timestamp", part.lower(), known, place=place)
    operand = operands.need(bind(node.expression, scope), Type.TIMESTAMP, "EXTRACT")
    tree = exp.Extract(this=exp.Var(this=part), expression=operand.tree)
    return Operand(tree, EXTRACT_PARTS[part], copies=operand.copies)


def _timestamp(node: nodes.TimestampLiteral, scope: Scope) -> Operand:
    written = node.this.this
    try:
        instant = datetime.fromisoformat(written)
        if instant.tzinfo is not None:
            instant = instant.astimezone(UTC)
    except (ValueError, OverflowError):
        raise BindError(
            "not a timestamp",
            place=nodes.place_of(node.this, scope.text),
            expected="TIMESTAMP 'YYYY-MM-DD HH:MM:SS[.ffffff][+HH:MM]'",
            got=f"'{written}'",
        ) from None
    return operands.timestamp(instant)


def _call(node: exp.Anonymous, scope: Scope) -> Operand:
    name = str(node.this)
    place = name_place(node, scope.text)
    if name in AGGREGATES:
        return scope.aggregate(node)
    function = FUNCTIONS.get(name)
    if function is None:
        raise UnknownName("function", name.lower(), function_names(), place=place)
    return function.apply([bind(argument, scope) for argument in node.expressions], place)


def name_place(node: exp.Anonymous, text: str) -> Place | None:
    """The place of a called function's name."""
    span = nodes.span_of(node)
    return None if span is None else Place(text, span[0], span[0] + len(str(node.this)))
