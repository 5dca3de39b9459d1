"""Which synopsis should stand under a group of periodic queries, and why.

Costs are counted in merges of one cell (the measures of a group in a pane), per group and pane that goes
by:

| method          | an update           | a look-up                         | can do                 |
|-----------------|---------------------|-----------------------------------|------------------------|
| basic intervals | d, 2·d for a length | none for lengths that slide, else | what can be merged     |
|                 |                     | d·W; d·W for sums of doubles      |                        |
| R-INT           | d + 1               | 1, for sums of doubles more       | what can be subtracted |
| B-INT           | 2                   | 2·log₂ W                          | what can be merged     |
| L-INT           | 1 + 3·γ             | 2, for windows of its widths      | what can be merged     |

d is the share of cells that are not empty. Basic intervals keep only those; the others keep all cells, so
they are taken only if their cells fit the memory they are allowed. A window that slides by s panes is
looked up 1/s times a pane. Values and sketches have one method each.
"""

from __future__ import annotations

import enum
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sash.lang.bound import AggregateCall, Window
from sash.lang.types import Type
from sash.plan.measures import Kept, Measure, MeasureKind, algebra_of
from sash.plan.panes import Panes

# A sum of doubles in R-INT is a number of limbs; subtracting and rounding one is worth so many merges.
_EXACT_SUM = 8
# Another method is taken up only if it promises to be so many times as cheap.
WORTH_A_CHANGE = 1.5
DENSE_BYTES = 1 << 30
# The widest window of a class of L-INT is at most so many times as wide as the narrowest.
WIDTH_RATIO = 2


class Method(enum.Enum):
    BASIC = "basic intervals"
    R_INT = "R-INT"
    B_INT = "B-INT"
    L_INT = "L-INT"
    B_INT_QNT = "B-INT-QNT"
    SKETCHES = "sketches"


@dataclass(frozen=True, slots=True)
class Looked:
    """A window in panes: its width, how far back it ends, how often it is looked up per pane that goes by."""

    width: int
    offset: int
    rate: float


@dataclass(frozen=True, slots=True)
class Workload:
    """What is asked of a synopsis. `density` is the share of (pane, group) that have rows."""

    measures: tuple[Measure, ...]
    windows: tuple[Looked, ...]
    groups: int = 1
    density: float = 1.0
    kept: frozenset[Kept] = field(default_factory=lambda: frozenset({Kept.MEASURES}))

    @property
    def span(self) -> int:
        return max((window.width + window.offset for window in self.windows), default=1)

    @property
    def lookups(self) -> float:
        """Look-ups per pane that goes by."""
        return sum(window.rate for window in self.windows)


def workload_of(
    panes: Panes,
    measures: tuple[Measure, ...],
    windows: Iterable[Window],
    *,
    calls: Iterable[AggregateCall] = (),
    groups: int = 1,
    density: float = 1.0,
    on_demand: Sequence[Looked] = (),
) -> Workload:
    """The workload of periodic queries with these windows, and of what is asked besides."""
    length = panes.period / len(panes.offsets)
    looked = []
    for window in dict.fromkeys(windows):
        widths = _widths(panes, window)
        for width, times in widths.items():
            share = times / widths.total()
            looked.append(Looked(width, 0, min(1.0, length / window.slide) * share))
    kept = frozenset(algebra_of(call).kept for call in calls) or frozenset({Kept.MEASURES})
    looked.sort(key=lambda window: (window.width, window.rate))
    return Workload(measures, (*looked, *on_demand), groups, density, kept)


def _widths(panes: Panes, window: Window) -> Counter[int]:
    """How many panes the window has, and at how many boundaries: uneven panes make uneven windows."""
    cycle = math.lcm(panes.period, window.slide)
    return Counter(
        panes.number_at(end) - panes.number_at(end - window.range)
        for end in range(window.slide, cycle + 1, window.slide)
    )


@dataclass(frozen=True, slots=True)
class SynopsisChoice:
    """The method, the reason in one line, and its cost in merges per group and pane."""

    method: Method
    reason: str
    cost: float

    def __str__(self) -> str:
        return f"{self.method.value}: {self.reason}"


def choose_synopsis(workload: Workload, limit: int = DENSE_BYTES) -> SynopsisChoice:
    """The cheapest method that can keep what the queries need within `limit` bytes."""
    if workload.kept & {Kept.VALUES, Kept.LISTS}:
        return SynopsisChoice(Method.B_INT_QNT, "the values themselves are needed, sorted", math.inf)
    if Kept.SKETCH in workload.kept:
        return SynopsisChoice(Method.SKETCHES, "an approximate answer is merged from sketches", math.inf)
    costs = {Method.BASIC: _basic(workload), Method.B_INT: _b_int(workload), Method.L_INT: _l_int(workload)}
    if all(measure.is_subtractable for measure in workload.measures):
        costs[Method.R_INT] = _r_int(workload)
    sizes = {method: _bytes(method, workload) for method in costs}
    fitting = {m: cost for m, cost in costs.items() if m is Method.BASIC or sizes[m] <= limit}
    # Of equal ones the one that is named first.
    method = min(fitting, key=lambda m: (fitting[m], list(Method).index(m)))
    return SynopsisChoice(method, _reason(method, workload, fitting, costs, sizes, limit), costs[method])


def rechoose_synopsis(
    current: SynopsisChoice, workload: Workload, limit: int = DENSE_BYTES
) -> SynopsisChoice:
    """The choice for a workload that has changed; what stands is kept while it is nearly as good."""
    best = choose_synopsis(workload, limit)
    standing = _COSTS.get(current.method)
    can_stay = (
        best.method is not current.method
        and standing is not None
        and best.method in _COSTS
        and (current.method is not Method.R_INT or all(m.is_subtractable for m in workload.measures))
        and (current.method is Method.BASIC or _bytes(current.method, workload) <= limit)
    )
    if can_stay and standing is not None and standing(workload) < WORTH_A_CHANGE * best.cost:
        cost = standing(workload)
        reason = f"stays: {cost:.3g} merges a pane and group, {best.method.value} would take {best.cost:.3g}"
        return SynopsisChoice(current.method, reason, cost)
    return best


def _basic(workload: Workload) -> float:
    lengths = {window.width for window in workload.windows if window.offset == 0 and window.rate > 0}
    cost = workload.density * (1 + 2 * len(lengths))
    for window in workload.windows:
        if window.offset:
            cost += window.rate * workload.density * window.width
        elif _double_sums(workload):
            cost += min(1.0, window.rate) * workload.density * window.width
    if any(not measure.is_subtractable for measure in workload.measures):
        # Found again once in as many panes as a window has, if maxima come in any order.
        cost += workload.density * len(lengths)
    return cost


def _r_int(workload: Workload) -> float:
    each = 1 + _EXACT_SUM * _double_sums(workload)
    return workload.density * each + 1 + workload.lookups * each


def _b_int(workload: Workload) -> float:
    return 2 + sum(window.rate * 2 * math.log2(window.width + 1) for window in workload.windows)


def _l_int(workload: Workload) -> float:
    classes = len(width_classes(window.width for window in workload.windows))
    return 1 + 3 * classes + 2 * workload.lookups


_COSTS = {Method.BASIC: _basic, Method.R_INT: _r_int, Method.B_INT: _b_int, Method.L_INT: _l_int}


def width_classes(widths: Iterable[int]) -> list[tuple[int, int]]:
    """The least and the greatest width of each class of L-INT, ascending: as few as the ratio allows."""
    classes: list[tuple[int, int]] = []
    for width in sorted(set(widths)):
        if classes and width <= WIDTH_RATIO * classes[-1][0]:
            classes[-1] = (classes[-1][0], width)
        else:
            classes.append((width, width))
    return classes


def _double_sums(workload: Workload) -> int:
    return sum(
        measure.kind is MeasureKind.SUM
        and measure.argument is not None
        and measure.argument.type is Type.DOUBLE
        for measure in workload.measures
    )


def _bytes(method: Method, workload: Workload) -> float:
    doubles = _double_sums(workload)
    cell = 8 * sum(2 if measure.kind is MeasureKind.SUM else 1 for measure in workload.measures)
    cells = workload.groups * workload.span
    match method:
        case Method.BASIC:
            return workload.density * cells * (cell + 24)
        case Method.R_INT:
            return cells * (cell + (_EXACT_SUM * 8 + 8) * doubles)
        case Method.B_INT:
            return 2 * cells * cell
        case _:
            classes = len(width_classes(window.width for window in workload.windows))
            return (1 + 3 * classes) * cells * cell


def _reason(
    method: Method,
    workload: Workload,
    fitting: dict[Method, float],
    costs: dict[Method, float],
    sizes: dict[Method, float],
    limit: int,
) -> str:
    others = {m: cost for m, cost in fitting.items() if m is not method}
    parts = []
    match method:
        case Method.R_INT:
            parts.append("everything can be subtracted")
        case Method.B_INT:
            parts.append("windows of any width, few look-ups")
        case Method.L_INT:
            classes = len(width_classes(window.width for window in workload.windows))
            parts.append(f"window widths in {classes} class{'es' if classes > 1 else ''}, many look-ups")
        case _:
            lengths = {window.width for window in workload.windows}
            parts.append(f"{len(lengths)} window length{'s' if len(lengths) > 1 else ''} slide on")
    parts.append(f"{workload.lookups:.3g} look-ups a pane cost {costs[method]:.3g} merges a group")
    if others:
        second = min(others, key=lambda m: others[m])
        parts.append(f"{second.value} {others[second]:.3g}")
    barred = [m for m in costs if m not in fitting and costs[m] < costs[method]]
    if barred:
        cheapest = min(barred, key=lambda m: costs[m])
        parts.append(f"{cheapest.value} would take {sizes[cheapest] / 1e9:.1f} GB of {limit / 1e9:.1f}")
    return ", ".join(parts)
