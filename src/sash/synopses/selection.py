"""Which groups can be in an answer of any query of a window: those beyond the loosest of its thresholds.

A group that fails the loosest threshold on each aggregate that HAVING compares is in no answer, so nobody
needs to look at its state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sash.lang.bound import AggregateCall, AggregateFunction, BoundSelect
from sash.lang.types import Type
from sash.plan.having import RangeCondition, loosest
from sash.plan.measures import Kept, algebra_of
from sash.state.layout import Layout
from sash.synopses.finalize import finalize
from sash.synopses.thresholds import Column, interval_of

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Selection:
    """`probes` are the loosest conditions; `sums` may overflow, which is an error of any group."""

    probes: tuple[RangeCondition, ...]
    sums: tuple[AggregateCall, ...]

    @staticmethod
    def of(selects: Sequence[BoundSelect]) -> Selection | None:
        """None if some query may have any group in its answer."""
        probes = loosest(selects)
        if probes is None:
            return None
        calls = (call for select in selects for call in select.aggregates)
        return Selection(probes, tuple(dict.fromkeys(call for call in calls if _may_overflow(call))))

    @property
    def is_indexed(self) -> bool:
        """Whether collective indexes find the groups."""
        return all(probe.is_indexed for probe in self.probes)

    def passes(self, layout: Layout, ints: Ints, floats: Floats) -> Bools:
        """Which groups, of which these are the measures, may be in an answer."""
        calls = dict.fromkeys((*self.sums, *(probe.call for probe in self.probes)))
        found = {call: finalize(call, layout, ints, floats, {}) for call in calls}
        passes = np.zeros(len(ints), dtype=np.bool_)
        for probe in self.probes:
            values = found[probe.call]
            ordinals = Column.of(probe).ordinals(values)
            low, high = interval_of(probe)
            passes |= values.valid & (ordinals >= low) & (ordinals <= high)
        return passes & (ints[:, 0] > 0)


def _may_overflow(call: AggregateCall) -> bool:
    is_sum = call.function is AggregateFunction.SUM and call.type is Type.BIGINT
    return is_sum and algebra_of(call).kept is Kept.MEASURES
