"""The kinds of synopses that queries share, and the rule that chooses one (002, sections 2.3.4 and 8.3)."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable

import numpy as np

from sash.plan.duplicates import is_subtractable
from sash.plan.measures import Measure

# A period of schedules beyond this many steps is looked at in part.
_MOST_STEPS = 1 << 15


class Kind(enum.Enum):
    """The synopses of section 2.3.4, and their forms for joins of section 8.3.2."""

    RUNNING = "running"
    INTERVAL = "interval"
    BASIC_INTERVAL = "basic interval"
    RJ = "running-join"
    IJ = "interval-join"
    BIJ = "basic-interval-join"

    @property
    def is_basic(self) -> bool:
        """Whether answers over shorter windows come along the way as it is read."""
        return self in (Kind.BASIC_INTERVAL, Kind.BIJ)

    @property
    def is_running(self) -> bool:
        return self in (Kind.RUNNING, Kind.RJ)


def break_even(intervals: int) -> float:
    """b / log b: from so many queries together on, a basic interval synopsis beats an interval synopsis."""
    return intervals / math.log2(intervals) if intervals > 2 else 1.0


def choose_kind(
    measures: tuple[Measure, ...], intervals: int, together: float, *, is_join: bool = False
) -> Kind:
    """Running where all can be subtracted; else basic interval if enough queries read it together.

    A basic interval synopsis accesses b intervals for all of its readers, an interval synopsis log b for
    each.
    """
    if all(map(is_subtractable, measures)):
        return Kind.RJ if is_join else Kind.RUNNING
    if together >= break_even(intervals):
        return Kind.BIJ if is_join else Kind.BASIC_INTERVAL
    return Kind.IJ if is_join else Kind.INTERVAL


def executed_together(periods: Iterable[int]) -> float:
    """How many queries an execution has on the average, if those due at one time go together."""
    periods = list(periods)
    if not periods:
        return 0.0
    unit = math.gcd(*periods)
    steps = [period // unit for period in periods]
    horizon = min(math.lcm(*steps), _MOST_STEPS)
    due = np.zeros(horizon, dtype=np.int64)
    for step in steps:
        due[step - 1 :: step] += 1
    executions = int(np.count_nonzero(due))
    return float(due.sum()) / executions if executions else float(len(steps))
