"""The collective indexes of a synopsis: one for each aggregate that HAVING compares (004 section 4).

They are fed with sealed panes, once for all windows and thresholds, and give a superset of the groups that
pass; whoever asks looks the totals of those up in the log, so answers are exact. They know only the loosest
threshold of each window: CI-COUNT and CI-SUM keep no other levels and count in units of a part of the least,
and values below all of them do not come into CI-MAX, nor those above into CI-MIN.

Feeding is refused, and the indexes are of no use any more, when a sum is negative or not finite, or so large
that sums of windows may not fit into BIGINT, which is an error also of groups that no index looks at.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from sash.errors import AlgebraError
from sash.lang.bound import AggregateCall, AggregateFunction
from sash.lang.types import Type
from sash.plan.having import RangeCondition
from sash.plan.measures import MeasureKind
from sash.state.kernels import INT64_MAX, INT64_MIN, LOW_BITS
from sash.state.keytable import distinct
from sash.state.layout import Layout
from sash.synopses.collective.ci_max import CollectiveExtremes
from sash.synopses.collective.ci_sum import CollectiveSums
from sash.synopses.rows import PaneRows
from sash.synopses.selection import Selection
from sash.synopses.thresholds import interval_of

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# Candidates may miss a threshold by up to 2/p of it; with this p they cost least altogether.
P = 4


class Filters:
    """`reach` is the longest window, in panes; only the probes of `selections` can be asked for."""

    def __init__(self, layout: Layout, reach: int, selections: Iterable[Selection]) -> None:
        self._layout = layout
        self._reach = reach
        self.refusal: str | None = None
        self._newest: int | None = None
        self._probes: dict[RangeCondition, None] = {}
        self._sums: dict[AggregateCall, None] = {}
        for selection in selections:
            self._probes.update(dict.fromkeys(selection.probes))
            self._sums.update(dict.fromkeys(selection.sums))
        asked: dict[AggregateCall, list[RangeCondition]] = defaultdict(list)
        for probe in self._probes:
            asked[probe.call].append(probe)
        self._indexes = {call: _index(call, reach, probes) for call, probes in asked.items()}
        # Values outside are of no use to any condition.
        self._ranges = {call: _range(probes) for call, probes in asked.items()}

    def feed(self, rows: PaneRows, through: int) -> None:
        """Take rows in order of pane, none before the last ones; a `refusal` is the end of it."""
        self._newest = through if self._newest is None else max(self._newest, through)
        try:
            self._check(rows)
            for call, index in self._indexes.items():
                self._update(call, index, rows)
                index.expire(through)
        except AlgebraError as error:
            self.refusal = f"groups are found by totals: {error.message}"

    def _check(self, rows: PaneRows) -> None:
        limit = (1 << (63 - LOW_BITS)) // (self._reach + 1)
        for call in self._sums:
            column, _ = self._layout.column(MeasureKind.SUM, call.argument)
            high = rows.ints[:, column]
            if len(high) and (high.max() >= limit or high.min() < -limit):
                raise AlgebraError(f"{_text(call)} may not fit into BIGINT")

    def _update(
        self, call: AggregateCall, index: CollectiveSums | CollectiveExtremes, rows: PaneRows
    ) -> None:
        weights: Ints | Floats = self._counts(call, rows)
        if isinstance(index, CollectiveExtremes):
            kind = MeasureKind.MIN if index.is_min else MeasureKind.MAX
            values = rows.ints[:, self._layout.column(kind, call.argument)[0]]
            low, high = self._ranges[call]
            kept = np.flatnonzero((weights > 0) & (values >= low) & (values <= high))
            index.update(rows.slots[kept], rows.panes[kept], values[kept])
            return
        if call.function is AggregateFunction.SUM:
            column, first = self._layout.column(MeasureKind.SUM, call.argument)
            if column < 0:
                weights = rows.floats[:, first] + rows.floats[:, first + 1]
            else:
                upper = rows.ints[:, column].astype(np.float64)
                weights = upper * (1 << LOW_BITS) + rows.ints[:, column + 1]
            if len(weights) and not weights.min() >= 0:
                raise AlgebraError(f"{_text(call)} has been negative")
        index.update(rows.slots, rows.panes, weights)

    def _counts(self, call: AggregateCall, rows: PaneRows) -> Ints:
        if call.argument is None:
            return rows.ints[:, 0]
        return rows.ints[:, 0] - rows.ints[:, self._layout.column(MeasureKind.NULLS, call.argument)[0]]

    def cover(self, selection: Selection, width: int, newest: int) -> bool:
        """Whether they find the groups of a selection in a window of so many panes up to `newest`."""
        return (
            self._newest == newest
            and width <= self._reach
            and self._probes.keys() >= set(selection.probes)
            and self._sums.keys() >= set(selection.sums)
        )

    def candidates(self, selection: Selection, left: int, right: int) -> Ints:
        """All groups that pass over the panes (left, right], and some others, ascending."""
        return distinct(np.concatenate([self._found(probe, left, right) for probe in selection.probes]))

    def _found(self, probe: RangeCondition, left: int, right: int) -> Ints:
        index = self._indexes[probe.call]
        if isinstance(index, CollectiveSums):
            return index.candidates(right, right - left, probe.threshold)
        low, high = _values(probe)
        return index.between(right, right - left, low, high) if low <= high else np.zeros(0, dtype=np.int64)

    def renumber(self, slots: Ints) -> None:
        """Slot slots[i] is now slot i; the others are gone."""
        for index in self._indexes.values():
            index.renumber(slots)

    @property
    def nbytes(self) -> int:
        return sum(index.nbytes for index in self._indexes.values())


def _index(
    call: AggregateCall, reach: int, probes: Sequence[RangeCondition]
) -> CollectiveSums | CollectiveExtremes:
    if call.function in (AggregateFunction.MIN, AggregateFunction.MAX):
        return CollectiveExtremes(reach, is_min=call.function is AggregateFunction.MIN)
    thresholds = [probe.threshold for probe in probes]
    unit: float | None = min((each.value for each in thresholds if each.value > 0), default=1.0) / (4 * P)
    if call.function is AggregateFunction.COUNT and unit is not None and unit < 2:
        unit = None
    return CollectiveSums(P, reach, unit, only=thresholds)


def _range(probes: Sequence[RangeCondition]) -> tuple[int, int]:
    """The values that may decide a condition: an extremum that fails in the usual direction decides none."""
    if not all(probe.is_selective for probe in probes):
        return INT64_MIN, INT64_MAX
    lows, highs = zip(*(_values(probe) for probe in probes), strict=True)
    return min(lows), max(highs)


def _values(probe: RangeCondition) -> tuple[int, int]:
    """The integers by which panes have the values that pass, and perhaps some more."""
    if not (probe.is_double and probe.call.type is Type.BIGINT):
        return interval_of(probe)
    # Integers that are compared as doubles.
    value = probe.threshold.value
    if probe.threshold.comparison.is_upwards:
        return math.floor(min(max(math.nextafter(value, -math.inf), INT64_MIN), INT64_MAX)), INT64_MAX
    return INT64_MIN, math.ceil(max(min(math.nextafter(value, math.inf), INT64_MAX), INT64_MIN))


def _text(call: AggregateCall) -> str:
    return f"{call.function.value}({'' if call.argument is None else call.argument.text})"
