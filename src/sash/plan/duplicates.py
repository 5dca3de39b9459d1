"""What an aggregate allows to be done with the synopses of other predicates (002, section 8.3.3).

- Duplicate-insensitive (MIN, MAX, DISTINCT): parts may overlap, f(X ∪ Y) = f(X) ∪ f(Y).
- Duplicate-sensitive (SUM, COUNT, AVG, bags): parts must not overlap.
- Subtractable (SUM and AVG of integers, COUNT, bags): parts may also be taken away. A sum of doubles is not
  (`plan/measures.py` says why).
"""

from __future__ import annotations

import enum

from sash.lang.bound import BoundSelect
from sash.lang.types import Type
from sash.plan.measures import Measure, MeasureKind

_EXTREMA = (MeasureKind.MIN, MeasureKind.MAX)


class Algebra(enum.Enum):
    INSENSITIVE = "duplicate-insensitive"
    SENSITIVE = "duplicate-sensitive"
    SUBTRACTABLE = "duplicate-sensitive, subtractable"


def is_subtractable(measure: Measure) -> bool:
    if measure.kind in _EXTREMA:
        return False
    return not (
        measure.kind is MeasureKind.SUM
        and measure.argument is not None
        and measure.argument.type is Type.DOUBLE
    )


def is_coded(measure: Measure) -> bool:
    """Whether values are codes of strings, which are each synopsis's own and cannot be put together."""
    return measure.kind in _EXTREMA and measure.argument is not None and measure.argument.type is Type.STRING


def algebra_of(measures: tuple[Measure, ...], *, counts_matter: bool) -> Algebra:
    """The algebra of measures; numbers of rows and NULLs may only be asked whether they are 0."""
    values = [m for m in measures if m.kind not in (MeasureKind.ROWS, MeasureKind.NULLS)]
    if not counts_matter and all(measure.kind in _EXTREMA for measure in values):
        return Algebra.INSENSITIVE
    return Algebra.SUBTRACTABLE if all(map(is_subtractable, values)) else Algebra.SENSITIVE


def counts_matter(select: BoundSelect) -> bool:
    """Whether it is answered how many rows there are, not only whether there are any."""
    if not select.is_grouped:
        return not select.distinct
    return any(call.function.value not in ("MIN", "MAX") for call in select.aggregates)
