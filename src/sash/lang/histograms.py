"""HISTOGRAM(x, low, high, n) and HISTOGRAM(x, BOUNDS(a, b, …)): how many values lie in each range.

A range begins with its bound and ends before the next; before the first bound there is one more. What is
aggregated is the number of the range that a value is in, found by comparisons with the bounds themselves, so
a value that equals a bound is where it belongs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise

from sqlglot import exp

from sash.errors import BindError, TypeMismatch
from sash.lang import operands
from sash.lang.operands import Operand
from sash.lang.scalars import Scope, bind, name_place
from sash.lang.types import Type

MAX_RANGES = 1_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FORMS = "HISTOGRAM(x), HISTOGRAM(x, low, high, n) or HISTOGRAM(x, BOUNDS(a, b, …))"


def bind_ranges(
    node: exp.Anonymous, value: Operand, arguments: Sequence[exp.Expression], row: Scope
) -> tuple[Operand, tuple[str, ...]]:
    """The number of the range of a value, and where all but the first begin, as JSON."""
    if len(arguments) == 3:
        value, bounds = _equal_ranges(value, arguments, row)
    elif len(arguments) == 1 and isinstance(arguments[0], exp.Anonymous) and arguments[0].this == "BOUNDS":
        value, bounds = _given_bounds(value, arguments[0], row)
    else:
        count = len(arguments) + 1
        raise BindError(
            f"HISTOGRAM with {count} arguments",
            place=name_place(node, row.text),
            expected=_FORMS,
            got=f"{count} arguments",
        )
    return _number_of_range(value, bounds), tuple(_as_json(bound) for bound in bounds)


def _given_bounds(value: Operand, node: exp.Anonymous, row: Scope) -> tuple[Operand, list[Operand]]:
    if not 1 <= len(node.expressions) < MAX_RANGES:
        raise BindError(
            f"BOUNDS with {len(node.expressions)} arguments",
            place=name_place(node, row.text),
            expected=f"1 to {MAX_RANGES - 1} constants in ascending order",
            got=str(len(node.expressions)),
        )
    given = [bind(each, row) for each in node.expressions]
    type_, (value, *bounds) = operands.unify([value, *given], "HISTOGRAM")
    keys = [_key(bound, f"a constant of type {type_}, such as a literal") for bound in bounds]
    for (before, after), bound in zip(pairwise(keys), bounds[1:], strict=True):
        if not before < after:  # type: ignore[operator]
            raise BindError(
                "the bounds of HISTOGRAM do not ascend",
                place=bound.place,
                expected="each bound greater than the one before",
                got=_as_json(bound),
            )
    return value, bounds


def _equal_ranges(
    value: Operand, arguments: Sequence[exp.Expression], row: Scope
) -> tuple[Operand, list[Operand]]:
    given = [bind(each, row) for each in arguments[:2]]
    type_, (value, low, high) = operands.unify([value, *given], "HISTOGRAM")
    if type_ not in (Type.BIGINT, Type.DOUBLE, Type.TIMESTAMP):
        raise operands.mismatch(value, "BIGINT, DOUBLE or TIMESTAMP", "HISTOGRAM with ranges of equal width")
    first, last = (_number(each) for each in (low, high))
    if not first < last:
        raise BindError(
            "the ranges of HISTOGRAM end before they begin",
            place=high.place,
            expected=f"more than {_as_json(low)}",
            got=_as_json(high),
        )
    number = bind(arguments[2], row)
    count = number.literal
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count < MAX_RANGES:
        raise TypeMismatch(
            "the number of ranges of HISTOGRAM does not fit",
            place=number.place,
            expected=f"a constant from 1 to {MAX_RANGES - 1}",
            got=number.type_name if count is None else str(count),
        )
    edges = [first + (last - first) * i / count for i in range(count + 1)]
    bounds = [_constant(edge, type_) for edge in edges]
    if any(not _number(a) < _number(b) for a, b in pairwise(bounds)):
        raise BindError(
            "HISTOGRAM has more ranges than there are values",
            place=number.place,
            expected="ranges of at least one value each",
            got=f"{count} ranges from {_as_json(low)} to {_as_json(high)}",
        )
    return value, bounds


def _number_of_range(value: Operand, bounds: Sequence[Operand]) -> Operand:
    """Halves of the bounds first, so that a value is compared with few of them."""

    def among(first: int, last: int) -> Operand:
        if first == last:
            return operands.integer(first)
        middle = (first + last) // 2
        is_below = operands.binary(exp.LT, Type.BOOLEAN, value, bounds[middle])
        branches = among(first, middle), among(middle + 1, last)
        return _choose(is_below, branches[0].tree, branches[1].tree)

    is_there = Operand(
        exp.Is(this=operands.wrapped(value), expression=exp.Not(this=exp.Null())), Type.BOOLEAN
    )
    numbered = _choose(is_there, among(0, len(bounds)).tree, None)
    return operands.copied(numbered, value, len(bounds).bit_length() + 1)


def _choose(condition: Operand, then: exp.Expression, otherwise: exp.Expression | None) -> Operand:
    branch = exp.If(this=condition.tree, true=then)
    return Operand(exp.Case(ifs=[branch], default=otherwise), Type.BIGINT)


# ----------------------------------------------------------------- constants


def _key(bound: Operand, expected: str) -> object:
    """A constant so that it compares as values do."""
    if bound.literal is None:
        moment = _moment(bound)
        if moment is None:
            raise TypeMismatch(
                "a bound of HISTOGRAM is no constant",
                place=bound.place,
                expected=expected,
                got=f"an expression of type {bound.type_name}",
            )
        return moment
    return bound.literal.encode() if isinstance(bound.literal, str) else bound.literal


def _number(bound: Operand) -> Fraction:
    """A constant as a number: of microseconds, if it is a timestamp."""
    key = _key(bound, "a number or a timestamp, such as 100 or TIMESTAMP '2026-01-31 12:00:00'")
    if isinstance(key, datetime):
        return Fraction((key - _EPOCH) // _MICROSECOND)
    assert isinstance(key, int | float)
    return Fraction(key)


def _constant(number: Fraction, type_: Type) -> Operand:
    """The least value of the type that is not below the number; for a double, the nearest."""
    match type_:
        case Type.DOUBLE:
            return operands.double(float(number))
        case Type.TIMESTAMP:
            moment = _EPOCH + timedelta(microseconds=-(-number.numerator // number.denominator))
            return operands.timestamp(moment)
        case _:
            return operands.integer(-(-number.numerator // number.denominator))


def _moment(bound: Operand) -> datetime | None:
    tree = bound.tree
    if bound.type is not Type.TIMESTAMP or not isinstance(tree, exp.Cast) or not tree.this.is_string:
        return None
    return datetime.fromisoformat(tree.this.this).replace(tzinfo=UTC)


def _as_json(bound: Operand) -> str:
    moment = _moment(bound)
    if moment is not None:
        return json.dumps(moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z")
    return json.dumps(bound.literal, ensure_ascii=False)
