"""Approximate aggregates: what is kept of a pane for them, and how far from the exact answer one can be.

| aggregate             | a pane keeps of a group                 | an answer is off by                      |
|-----------------------|-----------------------------------------|------------------------------------------|
| APPROX_COUNT_DISTINCT | the 4,097 least hashes of values        | 3.1 % of the number, with 95% confidence |
| APPROX_QUANTILE       | 512 values, each for as many ranks      | 0.2 % of the ranks at most               |
| APPROX_TOP            | the 512 most frequent values and counts | 0.2 % of all values at most, and too low |

What has fewer values is kept whole, so its answer is exact. All three follow from the values of a complete
pane alone: neither the order of rows nor how they were cut into batches matters, and nothing is drawn by lot.
The hashes of a window follow from the window alone; the others depend on its panes.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable
from dataclasses import dataclass

from sash.lang import algebra
from sash.lang.bound import AggregateCall, AggregateFunction, Scalar

HASHES = 1 << 12
POINTS = 1 << 9


class SketchKind(enum.Enum):
    DISTINCT = "distinct"
    RANKS = "ranks"
    COUNTS = "counts"


_F = AggregateFunction
_KINDS = {
    _F.APPROX_COUNT_DISTINCT: SketchKind.DISTINCT,
    _F.APPROX_QUANTILE: SketchKind.RANKS,
    _F.APPROX_TOP: SketchKind.COUNTS,
}


@dataclass(frozen=True, slots=True)
class Sketched:
    """What is kept of the values of an argument."""

    kind: SketchKind
    argument: Scalar

    @property
    def depends_on_panes(self) -> bool:
        return self.kind is not SketchKind.DISTINCT


@dataclass(frozen=True, slots=True)
class Bound:
    """An answer's error: `size` is relative to what `of` says."""

    size: float
    of: str
    confidence: float

    def __str__(self) -> str:
        how = "always" if self.confidence == 1 else f"{self.confidence:.0%} confidence"
        return f"±{self.size:.2g}% of {self.of}, {how}"


BOUNDS = {
    # Two standard deviations of the estimate from so many least hashes.
    SketchKind.DISTINCT: Bound(200 / math.sqrt(HASHES - 1), "the number", 0.95),
    SketchKind.RANKS: Bound(100 / POINTS, "the ranks", 1),
    SketchKind.COUNTS: Bound(100 / (POINTS + 1), "the number of values", 1),
}


def sketched(call: AggregateCall) -> Sketched | None:
    """What an approximate aggregate is answered from; None for others."""
    kind = _KINDS.get(call.function)
    return None if kind is None or call.argument is None else Sketched(kind, call.argument)


def sketches_of(calls: Iterable[AggregateCall]) -> tuple[Sketched, ...]:
    return tuple(dict.fromkeys(each for call in calls if (each := sketched(call)) is not None))


def bound_of(call: AggregateCall) -> Bound | None:
    each = sketched(call)
    return None if each is None else BOUNDS[each.kind]


def written(call: AggregateCall) -> str:
    """A call as a user writes it."""
    distinct = "DISTINCT " if call.is_distinct else ""
    parameter = "" if call.parameter is None else f", {call.parameter}"
    if call.ranges is not None:
        *_, last = call.ranges
        middle = ", …, " if len(call.ranges) > 3 else ", "
        parameter = f", BOUNDS({last if len(call.ranges) == 2 else call.ranges[1] + middle + last})"
    argument = "*" if call.argument is None else call.argument.text
    return f"{call.function.value}({distinct}{argument}{parameter})"


def error_bounds(plan: algebra.Node) -> dict[str, str]:
    """By column, the approximate aggregates that it is made of and their bounds; other columns are exact."""
    found: dict[str, dict[str, None]] = {}
    below = [error_bounds(child) for child in plan.children]
    match plan:
        case algebra.Aggregate():
            for i, call in enumerate(plan.calls):
                bound = bound_of(call)
                if bound is not None:
                    found.setdefault(f"a{i}", {})[f"{written(call)} {bound}"] = None
                if call.argument is not None:
                    _inherit(found, f"a{i}", call.argument, below[0])
            for i, key in enumerate(plan.keys):
                _inherit(found, f"k{i}", key, below[0])
        case algebra.Project():
            for output in plan.outputs:
                _inherit(found, output.name, output.scalar, below[0])
        case algebra.Union() | algebra.Except() | algebra.Intersect():
            for names, own in zip((plan.left.names, plan.right.names), below, strict=True):
                for name, other in zip(plan.names, names, strict=True):
                    if other in own:
                        found.setdefault(name, {})[own[other]] = None
        case _:
            for own in below:
                for name in (name for name in plan.names if name in own):
                    found.setdefault(name, {})[own[name]] = None
    return {name: "; ".join(found[name]) for name in plan.names if name in found}


def _inherit(found: dict[str, dict[str, None]], name: str, scalar: Scalar, below: dict[str, str]) -> None:
    for read in scalar.inputs:
        if read in below:
            found.setdefault(name, {})[below[read]] = None
