"""Aggregates taken apart into measures: what is kept per pane and group so that panes combine.

| aggregate | measures                | algebra                             |
|-----------|-------------------------|-------------------------------------|
| COUNT(*)  | rows                    | distributive, subtractable          |
| COUNT(x)  | rows, nulls(x)          | distributive, subtractable          |
| SUM(x)    | rows, nulls(x), sum(x)  | distributive, subtractable if BIGINT|
| AVG(x)    | as SUM                  | algebraic                           |
| MIN, MAX  | rows, nulls(x), min/max | distributive, not subtractable      |

A sum of doubles could be subtracted too, but not without an error that outlives the tuple that caused
it, so it counts as not subtractable (002 section 2.2.1 has the classes).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from sash.errors import InternalError
from sash.lang.bound import AggregateCall, AggregateFunction, Scalar


class MeasureKind(enum.Enum):
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

    def __str__(self) -> str:
        return self.kind.value if self.argument is None else f"{self.kind.value}({self.argument.text})"


ROWS = Measure(MeasureKind.ROWS)


def measures_of(call: AggregateCall) -> tuple[Measure, ...]:
    """What a synopsis must keep to answer `call`, the number of rows always first."""
    if call.argument is None:
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
