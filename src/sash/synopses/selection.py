"""Which groups can be in an answer of any query of a window: those beyond the loosest of its thresholds.

Of each query one range condition is taken. A group that fails the loosest of those, for each aggregate that
they compare, is in no answer, so nobody needs to look at its state.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sash.lang.bound import AggregateCall, AggregateFunction, BoundSelect
from sash.lang.types import Type
from sash.operators.compare import comparisons_of
from sash.plan.having import Having, RangeCondition
from sash.plan.measures import Kept, algebra_of
from sash.state.layout import Layout
from sash.synopses.finalize import finalize
from sash.synopses.thresholds import Column, interval_of

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

# Conditions that few groups pass, as a rule.
_SELECTIVE = {
    (AggregateFunction.COUNT, True),
    (AggregateFunction.SUM, True),
    (AggregateFunction.MAX, True),
    (AggregateFunction.MIN, False),
}


@dataclass(frozen=True, slots=True)
class Selection:
    """`probes` are the loosest conditions; `sums` may overflow, which is an error of any group."""

    probes: tuple[RangeCondition, ...]
    sums: tuple[AggregateCall, ...]

    @staticmethod
    def of(selects: Iterable[BoundSelect]) -> Selection | None:
        """None if some query may have any group in its answer."""
        loosest: dict[tuple[Column, bool], RangeCondition] = {}
        sums: dict[AggregateCall, None] = {}
        for select in selects:
            condition = _probe(select)
            if condition is None:
                return None
            key = Column.of(condition), condition.threshold.comparison.is_upwards
            if key not in loosest or _is_looser(condition, loosest[key]):
                loosest[key] = condition
            sums.update(dict.fromkeys(call for call in select.aggregates if _may_overflow(call)))
        return Selection(tuple(loosest.values()), tuple(sums)) if loosest else None

    def passes(self, layout: Layout, ints: Ints, floats: Floats) -> Bools:
        """Which groups, of which these are the measures, may be in an answer."""
        for call in self.sums:
            finalize(call, layout, ints, floats, {})
        passes = np.zeros(len(ints), dtype=np.bool_)
        for probe in self.probes:
            values = finalize(probe.call, layout, ints, floats, {})
            ordinals = Column.of(probe).ordinals(values)
            low, high = interval_of(probe)
            passes |= values.valid & (ordinals >= low) & (ordinals <= high)
        return passes & (ints[:, 0] > 0)


def _may_overflow(call: AggregateCall) -> bool:
    return call.function is AggregateFunction.SUM and call.type is Type.BIGINT and _is_measured(call)


def _is_measured(call: AggregateCall) -> bool:
    return algebra_of(call).kept is Kept.MEASURES


def _probe(select: BoundSelect) -> RangeCondition | None:
    """The condition by which a query's groups are found, if the others cannot end in an error."""
    having = Having.of(select)
    if select.having is None or not (having.is_all or comparisons_of(select.having)):
        return None
    measured = [condition for condition in having.ranges if _is_measured(condition.call)]
    return min(measured, key=_preference, default=None)


def _preference(condition: RangeCondition) -> tuple[bool, bool]:
    is_selective = (condition.call.function, condition.threshold.comparison.is_upwards) in _SELECTIVE
    return not condition.is_indexed, not is_selective


def _is_looser(condition: RangeCondition, other: RangeCondition) -> bool:
    (low, high), (other_low, other_high) = interval_of(condition), interval_of(other)
    return low < other_low if condition.threshold.comparison.is_upwards else high > other_high
