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
from sash.plan.measures import Kept, MeasureKind, algebra_of
from sash.state.jit import kernel
from sash.state.kernels import LOW_BITS
from sash.state.layout import Layout
from sash.synopses.finalize import finalize
from sash.synopses.thresholds import Column, interval_of

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

# What is compared.
_COUNT, _SUM, _EXTREMUM = 0, 1, 2


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


class Passing:
    """Tells groups that pass a selection from others, by their measures."""

    def __init__(self, selection: Selection, layout: Layout) -> None:
        self._selection = selection
        self._layout = layout
        sums = [layout.column(MeasureKind.SUM, call.argument)[0] for call in selection.sums]
        self.sums = np.array(sums, dtype=np.int64)
        tests = [_test(probe, layout) for probe in selection.probes]
        are_integers = all(test is not None for test in tests)
        # Most compare whole numbers, which is done group by group (`passes`); others column by column.
        self.tests = np.array(tests, dtype=np.int64).reshape(-1, 5) if are_integers else None

    def among(self, slots: Ints, ints: Ints, floats: Floats) -> Bools:
        """Which of some slots may be in an answer; the measures are those of all."""
        if self.tests is not None:
            found = np.empty(len(slots), dtype=np.bool_)
            if _compare(slots, ints, self.tests, self.sums, found):
                return found
        return self._column_by_column(ints[slots], floats[slots])

    def _column_by_column(self, ints: Ints, floats: Floats) -> Bools:
        probes, layout = self._selection.probes, self._layout
        calls = dict.fromkeys((*self._selection.sums, *(probe.call for probe in probes)))
        found = {call: finalize(call, layout, ints, floats, {}) for call in calls}
        passing = np.zeros(len(ints), dtype=np.bool_)
        for probe in probes:
            values = found[probe.call]
            ordinals = Column.of(probe).ordinals(values)
            low, high = interval_of(probe)
            passing |= values.valid & (ordinals >= low) & (ordinals <= high)
        return passing & (ints[:, 0] > 0)


def _test(probe: RangeCondition, layout: Layout) -> tuple[int, int, int, int, int] | None:
    """A comparison of whole numbers: of what, in which column, NULLs in which, least and greatest."""
    call = probe.call
    if probe.is_double or call.type is not Type.BIGINT:
        return None
    if call.argument is None:
        return _COUNT, -1, -1, *interval_of(probe)
    nulls = layout.column(MeasureKind.NULLS, call.argument)[0]
    match call.function:
        case AggregateFunction.COUNT:
            return _COUNT, -1, nulls, *interval_of(probe)
        case AggregateFunction.SUM:
            return _SUM, layout.column(MeasureKind.SUM, call.argument)[0], nulls, *interval_of(probe)
        case AggregateFunction.MIN | AggregateFunction.MAX:
            kind = MeasureKind.MIN if call.function is AggregateFunction.MIN else MeasureKind.MAX
            return _EXTREMUM, layout.column(kind, call.argument)[0], nulls, *interval_of(probe)
        case _:
            return None


@kernel
def overflow(totals: Ints, sums: Ints) -> bool:
    """Whether some sum of a group does not fit 64 bits."""
    limit = 1 << (63 - LOW_BITS)
    is_beyond = False
    for column in sums:
        is_beyond |= totals[column] < -limit or totals[column] >= limit
    return is_beyond


@kernel
def passes(totals: Ints, tests: Ints) -> bool:
    """Whether a group has rows, and a value that is not NULL between two."""
    rows = totals[0]
    if rows <= 0:
        return False
    for test in range(len(tests)):
        what, column, nulls = tests[test, 0], tests[test, 1], tests[test, 2]
        present = rows if nulls < 0 else rows - totals[nulls]
        if what == _COUNT:
            value = present
        elif what == _SUM:
            value = (totals[column] << LOW_BITS) + totals[column + 1]
        else:
            value = totals[column]
        if (what == _COUNT or present > 0) and tests[test, 3] <= value <= tests[test, 4]:
            return True
    return False


@kernel
def _compare(slots: Ints, ints: Ints, tests: Ints, sums: Ints, found: Bools) -> bool:
    """Which slots pass; gives whether all sums fit 64 bits."""
    for i in range(len(slots)):
        if overflow(ints[slots[i]], sums):
            return False
        found[i] = passes(ints[slots[i]], tests)
    return True


def _may_overflow(call: AggregateCall) -> bool:
    is_sum = call.function is AggregateFunction.SUM and call.type is Type.BIGINT
    return is_sum and algebra_of(call).kept is Kept.MEASURES
