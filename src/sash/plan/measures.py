"""Aggregates taken apart into measures: what is kept per pane and group so that panes combine.

| aggregate          | kept                    | class, as in 002 section 2.2.1 and 004 section 2 |
|--------------------|-------------------------|--------------------------------------------------|
| COUNT(*)           | rows                    | distributive, subtractable                       |
| COUNT(x)           | rows, nulls(x)          | distributive, subtractable                       |
| SUM(x)             | rows, nulls(x), sum(x)  | distributive, subtractable                       |
| AVG(x)             | as SUM                  | algebraic, subtractable                          |
| VAR, STDDEV        | values with counts      | algebraic, subtractable                          |
| MIN, MAX           | rows, nulls(x), min/max | distributive, not subtractable                   |
| QUANTILE, TOP      | values with counts      | holistic                                         |
| HISTOGRAM          | values with counts      | holistic                                         |
| … with ranges      | ranges with counts      | distributive, subtractable                       |
| FREQUENT           | lists of frequent values| holistic                                         |
| … (DISTINCT x)     | values with counts      | holistic                                         |
| APPROX_…           | some of the values      | algebraic, not subtractable                      |

A sum of doubles can be subtracted only where it is kept exactly, as R-INT does it. In a pair of doubles, as
panes have it, subtracting would leave an error that outlives the tuple that caused it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NewType

from sash.errors import AlgebraError, InternalError
from sash.lang.bound import AggregateCall, AggregateFunction, Scalar
from sash.lang.types import Symbol, Type


class MeasureKind(Symbol):
    ROWS = "rows"
    NULLS = "nulls"
    SUM = "sum"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Measure:
    """One value per pane and group. ROWS has no argument."""

    kind: MeasureKind
    argument: Scalar | None = None

    @property
    def is_subtractable(self) -> bool:
        """Whether g(X − Y) follows from g(X) and g(Y), for Y a part of X."""
        return self.kind not in (MeasureKind.MIN, MeasureKind.MAX)

    def __str__(self) -> str:
        return self.kind.value if self.argument is None else f"{self.kind.value}({self.argument.text})"


ROWS = Measure(MeasureKind.ROWS)

SubtractableMeasures = NewType("SubtractableMeasures", tuple[Measure, ...])
"""Measures that `subtractable` has looked at: what a synopsis that takes differences can keep."""


def subtractable(measures: tuple[Measure, ...]) -> SubtractableMeasures:
    """The same measures, if all of them can be subtracted."""
    for measure in measures:
        if not measure.is_subtractable:
            raise AlgebraError(
                f"{measure} cannot be subtracted",
                expected="counts and sums",
                got=str(measure),
                hint="keep it in base intervals (B-INT) or landmark intervals (L-INT)",
            )
    return SubtractableMeasures(measures)


class Kept(enum.Enum):
    """What a synopsis holds per pane and group for an aggregate."""

    MEASURES = "measures"
    VALUES = "values"
    LISTS = "lists"
    SKETCH = "sketch"


class Category(enum.Enum):
    DISTRIBUTIVE = "distributive"
    ALGEBRAIC = "algebraic"
    HOLISTIC = "holistic"


@dataclass(frozen=True, slots=True)
class Algebra:
    """How an aggregate over a window follows from the parts of the window."""

    category: Category
    kept: Kept
    is_subtractable: bool

    def __str__(self) -> str:
        return f"{self.category.value}, {'' if self.is_subtractable else 'not '}subtractable"


_F = AggregateFunction
_D, _A, _H = Category.DISTRIBUTIVE, Category.ALGEBRAIC, Category.HOLISTIC
_ALGEBRAS = {
    **dict.fromkeys((_F.COUNT, _F.SUM), Algebra(_D, Kept.MEASURES, True)),
    _F.AVG: Algebra(_A, Kept.MEASURES, True),
    **dict.fromkeys((_F.MIN, _F.MAX), Algebra(_D, Kept.MEASURES, False)),
    **dict.fromkeys((_F.VAR, _F.VAR_POP, _F.STDDEV, _F.STDDEV_POP), Algebra(_A, Kept.VALUES, True)),
    **dict.fromkeys((_F.QUANTILE, _F.TOP, _F.HISTOGRAM), Algebra(_H, Kept.VALUES, False)),
    _F.FREQUENT: Algebra(_H, Kept.LISTS, False),
    **dict.fromkeys(
        (_F.APPROX_COUNT_DISTINCT, _F.APPROX_QUANTILE, _F.APPROX_TOP), Algebra(_A, Kept.SKETCH, False)
    ),
}


_ANSWERED = {
    MeasureKind.ROWS: (_F.COUNT,),
    MeasureKind.NULLS: (_F.COUNT,),
    MeasureKind.SUM: (_F.SUM, _F.AVG),
    MeasureKind.MIN: (_F.MIN,),
    MeasureKind.MAX: (_F.MAX,),
}
# The type of an aggregate that does not have that of its argument.
_FIXED = {_F.COUNT: Type.BIGINT, _F.AVG: Type.DOUBLE}


def algebra_of(call: AggregateCall) -> Algebra:
    """The class of an aggregate; each value once makes every aggregate holistic."""
    if call.is_distinct:
        return Algebra(_H, Kept.VALUES, False)
    return _ALGEBRAS[call.function] if call.ranges is None else Algebra(_D, Kept.VALUES, True)


def measures_of(call: AggregateCall) -> tuple[Measure, ...]:
    """What a synopsis must keep per group to answer `call`, the number of rows always first.

    Values are kept apart: see `values_of`.
    """
    if call.argument is None or algebra_of(call).kept is not Kept.MEASURES:
        return (ROWS,)
    nulls = Measure(MeasureKind.NULLS, call.argument)
    match call.function:
        case AggregateFunction.COUNT:
            return (ROWS, nulls)
        case AggregateFunction.SUM | AggregateFunction.AVG:
            return (ROWS, nulls, Measure(MeasureKind.SUM, call.argument))
        case AggregateFunction.MIN:
            return (ROWS, nulls, Measure(MeasureKind.MIN, call.argument))
        case AggregateFunction.MAX:
            return (ROWS, nulls, Measure(MeasureKind.MAX, call.argument))
        case _:
            raise InternalError(f"{call.function.value} is not made of measures")


def calls_of(measures: Iterable[Measure]) -> tuple[AggregateCall, ...]:
    """All aggregates that measures, as `measures_of` gives them, answer."""
    calls = []
    for measure in measures:
        argument = measure.argument
        for function in _ANSWERED[measure.kind]:
            calls.append(AggregateCall(function, argument, _FIXED.get(function) or _type_of(argument)))
    return tuple(calls)


def _type_of(argument: Scalar | None) -> Type:
    assert argument is not None
    return argument.type


def values_of(calls: Iterable[AggregateCall]) -> tuple[Scalar, ...]:
    """The arguments whose values, with their counts, answer some of the calls."""
    needing = (call.argument for call in calls if algebra_of(call).kept is Kept.VALUES)
    return tuple(dict.fromkeys(argument for argument in needing if argument is not None))


def frequent_of(calls: Iterable[AggregateCall]) -> tuple[AggregateCall, ...]:
    """The calls of FREQUENT, which are answered from lists of the values of sub-windows."""
    return tuple(dict.fromkeys(call for call in calls if algebra_of(call).kept is Kept.LISTS))
