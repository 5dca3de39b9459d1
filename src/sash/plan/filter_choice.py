"""Whether groups that pass HAVING are found by collective indexes, or by looking at totals; and why.

Costs are counted in merges of one cell, as those of synopses are, per pane that goes by:

| by totals                                          | by indexes (004 section 4)                      |
|----------------------------------------------------|-------------------------------------------------|
| each window moves on and looks at what has changed | each index takes the rows of the pane, once for |
| in it, for Rstream at all groups                   | all windows and thresholds                      |
|                                                    | each window looks at its candidates, whose rows |
|                                                    | are merged                                      |

So indexes pay where windows are many, or groups are many and most of them rest; not for one window, which
looks at what has changed in less time than an index takes it in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sash.lang.bound import AggregateCall, AggregateFunction
from sash.plan.having import RangeCondition
from sash.plan.synopsis_choice import WORTH_A_CHANGE

# Costs in merges, as measured: a row into CI-COUNT or CI-SUM, and if groups below a threshold are asked for.
_INTO_SUMS, _INTO_SUMS_BELOW = 25, 150
# A value into CI-MAX or CI-MIN; a row whose value is of no use to it.
_INTO_EXTREMES, _PAST_EXTREMES = 650, 2
# A group that has changed since the last boundary; one that is only looked at.
_CHANGED, _LOOKED_AT = 4, 0.5
# A candidate, besides the merges of its rows; there are about half as many again as groups that pass.
_CANDIDATE, _SUPERSET = 8, 1.5


def index_name(call: AggregateCall) -> str:
    """The index that a condition on an aggregate needs."""
    return f"CI-{call.function.value}({'*' if call.argument is None else call.argument.text})"


@dataclass(frozen=True, slots=True)
class Selected:
    """A window all of whose queries have thresholds that indexes know.

    It has `width` panes and is answered `rate` times a pane; `passing` groups are beyond the loosest of its
    thresholds, which are `probes`; `is_whole` if some query wants all of those at every boundary,
    `is_changing` if some wants to know what has changed.
    """

    probes: tuple[RangeCondition, ...]
    width: int
    rate: float
    passing: int
    is_whole: bool
    is_changing: bool


@dataclass(frozen=True, slots=True)
class FilterChoice:
    """Whether there are indexes, and the reason in one line."""

    is_used: bool
    reason: str


def choose_filters(windows: Sequence[Selected], rows: float, groups: int, is_used: bool) -> FilterChoice:
    """`rows` are the groups that a pane has rows of; `is_used` tells what there is now."""
    if not windows:
        return FilterChoice(False, "no window has only queries with thresholds on COUNT, SUM, MIN or MAX")
    share = min(1.0, max(window.passing for window in windows) / max(1, groups))
    selective: dict[AggregateCall, bool] = {}
    for probe in (probe for window in windows for probe in window.probes):
        selective[probe.call] = selective.get(probe.call, True) and probe.is_selective
    by_index = rows * sum(_into(call, is_all, share) for call, is_all in selective.items())
    by_index += sum(_by_index(window) for window in windows)
    by_totals = sum(_by_totals(window, rows, groups) for window in windows)
    names = ", ".join(index_name(call) for call in selective)
    costs = f"{by_index:,.0f} merges a pane, by totals {by_totals:,.0f}"
    each = f"{len(windows)} window{'s' if len(windows) > 1 else ''}"
    shape = f"{each}, {groups:,} groups, {rows:,.0f} of them in a pane"
    if by_index < by_totals * (WORTH_A_CHANGE if is_used else 1 / WORTH_A_CHANGE):
        return FilterChoice(True, f"groups are found by {names}: {costs} ({shape})")
    return FilterChoice(False, f"groups are found by totals: {names} would take {costs} ({shape})")


def _into(call: AggregateCall, is_selective: bool, share: float) -> float:
    """What a row costs an index, if such a share of rows is beyond the thresholds."""
    if call.function in (AggregateFunction.MIN, AggregateFunction.MAX):
        return _PAST_EXTREMES + _INTO_EXTREMES * (share if is_selective else 1.0)
    return _INTO_SUMS if is_selective else _INTO_SUMS_BELOW


def _by_totals(window: Selected, rows: float, groups: int) -> float:
    changed = _CHANGED * min(groups, 2 * rows / window.rate) if window.is_changing else 0.0
    looked_at = _LOOKED_AT * groups if window.is_whole else 0.0
    return 2 * rows + window.rate * (changed + looked_at)


def _by_index(window: Selected) -> float:
    return window.rate * _SUPERSET * window.passing * (_CANDIDATE + window.width)
