"""Range conditions in HAVING: queries that differ in them alone are answered together, and by indexes.

A condition is `aggregate comparison constant` between the outermost ANDs, the aggregate being a number. Those
on COUNT, SUM, MIN and MAX a collective index can look up (004 section 4); what else HAVING asks is evaluated
for the groups that the index gives.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from sash.lang.bound import AggregateCall, AggregateFunction, BoundSelect, Scalar
from sash.lang.types import Type
from sash.plan.constants import is_plain, value_of
from sash.plan.measures import Kept, algebra_of
from sash.plan.scalars import columns_of, parts_of, tree_of

_INDEXED = frozenset(AggregateFunction[name] for name in ("COUNT", "SUM", "MIN", "MAX"))
# Conditions that few groups pass, as a rule; True: upwards.
_SELECTIVE = {
    (AggregateFunction.COUNT, True),
    (AggregateFunction.SUM, True),
    (AggregateFunction.MAX, True),
    (AggregateFunction.MIN, False),
}
_COMPARING = (exp.Column, exp.Predicate, exp.And, exp.Or, exp.Not, exp.Paren)


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
_CLOSED = (Comparison.AT_LEAST, Comparison.AT_MOST)
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

    def is_looser(self, other: Threshold) -> bool:
        """Whether it lets more pass than another one in the same direction."""
        if self.value == other.value:
            return self.comparison in _CLOSED and other.comparison not in _CLOSED
        return self.value < other.value if self.comparison.is_upwards else self.value > other.value


@dataclass(frozen=True, slots=True)
class RangeCondition:
    """A threshold on an aggregate of a query, which is compared as it is or as a double."""

    call: AggregateCall
    threshold: Threshold
    is_double: bool

    @property
    def is_indexed(self) -> bool:
        """Whether a collective index can look such a condition up."""
        return self.call.function in _INDEXED and not self.call.is_distinct

    @property
    def is_selective(self) -> bool:
        """Whether few groups pass, as a rule; an index then need not know the others."""
        return (self.call.function, self.threshold.comparison.is_upwards) in _SELECTIVE

    @property
    def is_measured(self) -> bool:
        """Whether panes have what its aggregate is made of."""
        return algebra_of(self.call).kept is Kept.MEASURES

    def __str__(self) -> str:
        argument = "*" if self.call.argument is None else self.call.argument.text
        distinct = "DISTINCT " if self.call.is_distinct else ""
        threshold = f"{self.threshold.comparison.value} {self.threshold.value:,}"
        return f"{self.call.function.value}({distinct}{argument}) {threshold}"


@dataclass(frozen=True, slots=True)
class Having:
    """The range conditions of HAVING, in the order in which they stand.

    `is_all`: they are all of it; `is_safe`: what else there is cannot end in an error.
    """

    ranges: tuple[RangeCondition, ...] = ()
    is_all: bool = False
    is_safe: bool = False

    @staticmethod
    def of(select: BoundSelect) -> Having:
        if select.having is None:
            return Having()
        return _having(select.having, select.aggregates)


def range_conditions(select: BoundSelect) -> tuple[RangeCondition, ...]:
    """The parts of HAVING that an index can answer, in the order in which they stand."""
    return tuple(condition for condition in Having.of(select).ranges if condition.is_indexed)


@lru_cache(maxsize=16_384)
def _having(having: Scalar, aggregates: tuple[AggregateCall, ...]) -> Having:
    found: list[RangeCondition] = []
    others = []
    for part in parts_of(tree_of(having.sql)):
        sides = _compared(part)
        ranges = [each for each in (_condition(aggregates, *side) for side in sides) if each is not None]
        if len(ranges) != (2 if isinstance(part, exp.Between) else 1):
            others.append(part)
        found += ranges
    return Having(tuple(found), not others, all(_is_safe(part) for part in others))


def _is_safe(part: exp.Expr) -> bool:
    """Whether an expression only compares columns and constants, which cannot fail."""
    return all(isinstance(node, _COMPARING) or is_plain(node) for node in _outside_constants(part))


def _outside_constants(tree: exp.Expr) -> Iterator[exp.Expr]:
    return tree.walk(prune=lambda node: isinstance(node, exp.Column) or is_plain(node))


def probe_of(select: BoundSelect) -> RangeCondition | None:
    """The condition by which the groups of a query's answer are found; None if any group may be one."""
    having = Having.of(select)
    if not having.is_safe:
        return None
    measured = [condition for condition in having.ranges if condition.is_measured]
    return min(measured, key=_preference, default=None)


def _preference(condition: RangeCondition) -> tuple[bool, bool]:
    return not condition.is_indexed, not condition.is_selective


def loosest(selects: Iterable[BoundSelect]) -> tuple[RangeCondition, ...] | None:
    """Conditions of which a group of any answer passes one; None if any group may be in an answer."""
    found: dict[object, RangeCondition] = {}
    for select in selects:
        probe = probe_of(select)
        if probe is None:
            return None
        key = probe.call, probe.is_double, probe.threshold.comparison.is_upwards
        if key not in found or probe.threshold.is_looser(found[key].threshold):
            found[key] = probe
    return tuple(found.values()) or None


def _condition(
    aggregates: tuple[AggregateCall, ...], aggregate: exp.Expr, comparison: Comparison, constant: exp.Expr
) -> RangeCondition | None:
    tree = aggregate.unnest()
    is_cast = isinstance(tree, exp.Cast) and tree.to.is_type(exp.DType.DOUBLE)
    call, value = _call(aggregates, tree.this.unnest() if is_cast else tree), _number(constant)
    if call is None or value is None:
        return None
    return RangeCondition(call, Threshold(comparison, value), is_cast or call.type is Type.DOUBLE)


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


def _call(aggregates: tuple[AggregateCall, ...], tree: exp.Expr) -> AggregateCall | None:
    """The aggregate that an expression is, if its values are numbers."""
    if not isinstance(tree, exp.Column):
        return None
    call = next((call for i, call in enumerate(aggregates) if tree.name == f"a{i}"), None)
    return call if call is not None and call.type in (Type.BIGINT, Type.DOUBLE) else None


def _number(tree: exp.Expr) -> float | None:
    """A constant: an integer where it is a BIGINT."""
    if columns_of(tree):
        return None
    value = tree if is_plain(tree) else value_of(tree.sql(dialect="duckdb"))
    is_integer = isinstance(value, exp.Cast)
    if isinstance(value, exp.Cast):
        value = value.this
    sign = 1
    if isinstance(value, exp.Neg):
        value, sign = value.this, -1
    if not isinstance(value, exp.Literal) or value.is_string:
        return None
    return sign * (int(value.this) if is_integer else float(value.this))
