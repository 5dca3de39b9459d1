"""Calls of aggregates: how many arguments, of which types, and the type of the answer."""

from __future__ import annotations

from sqlglot import exp

from sash.errors import BindError, TypeMismatch
from sash.lang import nodes, operands
from sash.lang.functions import AGGREGATES
from sash.lang.histograms import bind_ranges
from sash.lang.operands import Operand
from sash.lang.scalars import Scope, bind, name_place
from sash.lang.types import Type
from sash.lang.values import AggregateCall, AggregateFunction

_F = AggregateFunction
_NUMERIC = frozenset({_F.SUM, _F.AVG, _F.VAR, _F.VAR_POP, _F.STDDEV, _F.STDDEV_POP})
_RESULTS = {
    _F.COUNT: Type.BIGINT,
    _F.APPROX_COUNT_DISTINCT: Type.BIGINT,
    **dict.fromkeys((_F.AVG, _F.VAR, _F.VAR_POP, _F.STDDEV, _F.STDDEV_POP), Type.DOUBLE),
    # A list of pairs, written as JSON: [["a", 3], ["b", 1]].
    **dict.fromkeys((_F.TOP, _F.FREQUENT, _F.APPROX_TOP, _F.HISTOGRAM), Type.STRING),
}
_QUANTILES = frozenset({_F.QUANTILE, _F.APPROX_QUANTILE})
_COUNTED = frozenset({_F.TOP, _F.FREQUENT, _F.APPROX_TOP})
# DISTINCT changes nothing for MIN and MAX.
_DISTINCT = frozenset({_F.COUNT, _F.SUM, _F.AVG})
_MAX_K = 100_000


def has_aggregate(node: exp.Expression) -> bool:
    return any(call.this in AGGREGATES for call in node.find_all(exp.Anonymous))


def bind_aggregate(node: exp.Anonymous, row: Scope) -> AggregateCall:
    """A call whose argument reads the rows of `row`."""
    name = str(node.this)
    function = AGGREGATES[name]
    arguments = list(node.expressions)
    is_distinct = len(arguments) == 1 and isinstance(arguments[0], exp.Distinct)
    if is_distinct:
        arguments = list(arguments[0].expressions)
    expected = 2 if function in _QUANTILES | _COUNTED and name != "MEDIAN" else 1
    if len(arguments) != expected and not (function is _F.HISTOGRAM and len(arguments) > 1):
        raise BindError(
            f"{name} with {len(arguments)} arguments",
            place=name_place(node, row.text),
            expected=str(expected),
            got=str(len(arguments)),
        )
    argument = arguments[0]
    if isinstance(argument, exp.Star):
        if function is _F.COUNT:
            return AggregateCall(function, None, Type.BIGINT)
        raise BindError(
            f"{name}(*) has no meaning",
            place=nodes.place_of(argument, row.text),
            expected="a column or an expression",
            hint="only COUNT takes '*'",
        )
    if is_distinct and function not in _DISTINCT | {_F.MIN, _F.MAX}:
        raise BindError(
            f"{name} does not take DISTINCT",
            place=nodes.place_of(node.expressions[0], row.text),
            expected="COUNT, SUM, AVG, MIN or MAX",
            got=name,
        )
    operand = operands.typed(bind(argument, row), name)
    if function in _NUMERIC:
        operands.need_numeric(operand, name)
    parameter: float | int | tuple[str, ...] | None
    if function is _F.HISTOGRAM and len(arguments) > 1:
        operand, parameter = bind_ranges(node, operand, arguments[1:], row)
    else:
        parameter = 0.5 if name == "MEDIAN" else _parameter(function, name, arguments, row)
    assert operand.type is not None
    return AggregateCall(
        function,
        operands.to_scalar(operand, nodes.source_of(argument, row.text)),
        _RESULTS.get(function, operand.type),
        is_distinct and function in _DISTINCT,
        parameter,
    )


def _parameter(
    function: AggregateFunction, name: str, arguments: list[exp.Expression], row: Scope
) -> float | int | None:
    if len(arguments) == 1:
        return None
    operand = bind(arguments[1], row)
    value = operand.literal
    if function in _QUANTILES:
        if _is_number(value) and 0 < float(value or 0) <= 1:
            return float(value or 0)
        raise _wrong(operand, name, "a constant above 0 and up to 1, such as 0.95")
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MAX_K:
        return value
    raise _wrong(operand, name, f"a constant from 1 to {_MAX_K}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _wrong(operand: Operand, name: str, expected: str) -> TypeMismatch:
    got = operand.type_name if operand.literal is None else str(operand.literal)
    return TypeMismatch(
        f"the second argument of {name} does not fit",
        place=operand.place,
        expected=expected,
        got=got,
    )
