"""Range conditions in HAVING: those parts that a collective index can answer (004 section 4).

A condition is `aggregate comparison constant` between the outermost ANDs, for COUNT, SUM, MIN or MAX of
numbers. What else HAVING asks is evaluated for the groups that the index gives.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from sash.lang.bound import AggregateCall, AggregateFunction, BoundSelect
from sash.lang.types import Type
from sash.plan.constants import value_of
from sash.plan.scalars import columns_of, parts_of, tree_of

_INDEXED = frozenset(AggregateFunction[name] for name in ("COUNT", "SUM", "MIN", "MAX"))


class Comparison(enum.Enum):
    MORE = ">"
    AT_LEAST = ">="
    LESS = "<"
    AT_MOST = "<="

    @property
    def is_upwards(self) -> bool:
        return self in (Comparison.MORE, Comparison.AT_LEAST)

    @property
    def turned(self) -> Comparison:
        """What it is when its sides are exchanged."""
        return _TURNED[self]

    def holds(
        self, values: npt.NDArray[np.float64] | npt.NDArray[np.int64], threshold: float
    ) -> npt.NDArray[np.bool_]:
        match self:
            case Comparison.MORE:
                return np.asarray(values > threshold)
            case Comparison.AT_LEAST:
                return np.asarray(values >= threshold)
            case Comparison.LESS:
                return np.asarray(values < threshold)
            case Comparison.AT_MOST:
                return np.asarray(values <= threshold)


_TURNED = {
    Comparison.MORE: Comparison.LESS,
    Comparison.LESS: Comparison.MORE,
    Comparison.AT_LEAST: Comparison.AT_MOST,
    Comparison.AT_MOST: Comparison.AT_LEAST,
}
_OPERATORS: dict[type[exp.Expr], Comparison] = {
    exp.GT: Comparison.MORE,
    exp.GTE: Comparison.AT_LEAST,
    exp.LT: Comparison.LESS,
    exp.LTE: Comparison.AT_MOST,
}


@dataclass(frozen=True, slots=True)
class Threshold:
    """`comparison value`, such as > 1000."""

    comparison: Comparison
    value: float


@dataclass(frozen=True, slots=True)
class RangeCondition:
    """A threshold on an aggregate of a query."""

    call: AggregateCall
    threshold: Threshold


def range_conditions(select: BoundSelect) -> tuple[RangeCondition, ...]:
    """The parts of HAVING that an index can answer, in the order in which they stand."""
    if select.having is None:
        return ()
    found = []
    for part in parts_of(tree_of(select.having.sql)):
        for aggregate, comparison, constant in _compared(part):
            call, value = _call(select, aggregate), _number(constant)
            if call is not None and value is not None:
                found.append(RangeCondition(call, Threshold(comparison, value)))
    return tuple(found)


def _compared(part: exp.Expr) -> list[tuple[exp.Expr, Comparison, exp.Expr]]:
    if isinstance(part, exp.Between):
        return [
            (part.this, Comparison.AT_LEAST, part.args["low"]),
            (part.this, Comparison.AT_MOST, part.args["high"]),
        ]
    comparison = _OPERATORS.get(type(part))
    if comparison is None:
        return []
    left, right = part.this, part.expression
    return [(left, comparison, right), (right, comparison.turned, left)]


def _call(select: BoundSelect, tree: exp.Expr) -> AggregateCall | None:
    """The aggregate that an expression is, as it is or made a double."""
    tree = tree.unnest()
    if isinstance(tree, exp.Cast) and tree.to.is_type(exp.DType.DOUBLE):
        tree = tree.this.unnest()
    if not isinstance(tree, exp.Column):
        return None
    call = next((call for i, call in enumerate(select.aggregates) if tree.name == f"a{i}"), None)
    if call is None or call.function not in _INDEXED or call.is_distinct:
        return None
    if call.argument is not None and call.function is not AggregateFunction.COUNT:
        if call.argument.type not in (Type.BIGINT, Type.DOUBLE):
            return None
    return call


def _number(tree: exp.Expr) -> float | None:
    if columns_of(tree):
        return None
    value = value_of(tree.sql(dialect="duckdb"))
    if value is None:
        return None
    if isinstance(value, exp.Cast):
        value = value.this
    sign = 1
    if isinstance(value, exp.Neg):
        value, sign = value.this, -1
    if not isinstance(value, exp.Literal) or value.is_string:
        return None
    return sign * float(value.this)
