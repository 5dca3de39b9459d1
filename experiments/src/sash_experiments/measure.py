"""Measuring strategies against each other in one run.

All variants fill their windows. Then the rest of the input is cut into rounds; every variant goes through a
round before the next one begins, so that a machine that is slow for a while is slow for all of them. The
fastest round stands for a variant: what slows the others down is the machine's business.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sash.operators.dataflow import Dataflow
from sash_experiments.drive import Feed, Step
from sash_experiments.stored_view import Counting, StoredView

_FILL_STEPS = 20
_COUNTED_STEPS = 10


@dataclass(frozen=True, slots=True)
class Pace:
    """How a run goes: `window` time units to fill windows, then rounds of `round_units` in `step`s."""

    window: int
    step: int
    round_units: int
    rounds: int = 5

    @property
    def units(self) -> int:
        """Time units that it needs: the windows, a round to warm up, the rounds, a few steps to count."""
        return self.window + (self.rounds + 1) * self.round_units + _COUNTED_STEPS * self.step


@dataclass(slots=True)
class Variant:
    """Something that is compared.

    `buffers` are those that count what they look at. `step` is its own step, if it has one, and `is_filled`
    says that its windows are full.
    """

    flow: Dataflow
    feed: Feed
    buffers: Sequence[Counting] = ()
    step: int | None = None
    is_filled: bool = False


@dataclass(slots=True)
class Measured:
    """What was seen of a variant. Counts are per 1,000 tuples of input.

    `moved` are rows that pass between operators, `given` those that leave the last one, `negative` those that
    take others back (by kind of operator in `negative_of`), `looked_at` rows of the result among which the
    expired were found. `state` is all that is held, `results` and `result_bytes` the stored result in it.
    """

    seconds: list[float] = field(default_factory=list)
    tuples: list[int] = field(default_factory=list)
    moved: float = 0.0
    given: float = 0.0
    negative_of: dict[str, float] = field(default_factory=dict)
    looked_at: float = 0.0
    results: int = 0
    result_bytes: int = 0
    state_rows: int = 0
    state_bytes: int = 0

    @property
    def negative(self) -> float:
        return sum(self.negative_of.values())

    @property
    def time(self) -> float:
        """Milliseconds per 1,000 tuples."""
        each = (s / n for s, n in zip(self.seconds, self.tuples, strict=True) if n)
        return 1e6 * min(each)


def compare(variants: Mapping[str, Variant], pace: Pace) -> dict[str, Measured]:
    """All variants over the same input, round by round."""
    measured = {name: Measured() for name in variants}
    for variant in variants.values():
        if not variant.is_filled:
            _pass(variant, variant.feed.steps(0, pace.window, max(pace.step, pace.window // _FILL_STEPS)))
    gc.collect()
    now = pace.window
    counts = {name: _Counts.of(variant.flow) for name, variant in variants.items()}
    for number in range(pace.rounds + 1):
        for name, variant in variants.items():
            steps = variant.feed.steps(now, now + pace.round_units, variant.step or pace.step)
            seconds = _pass(variant, steps)
            # The first round loads what is compiled and grows what must grow.
            if number:
                measured[name].seconds.append(seconds)
                measured[name].tuples.append(variant.feed.tuples(now, now + pace.round_units))
            else:
                counts[name] = _Counts.of(variant.flow)
        now += pace.round_units
    for name, variant in variants.items():
        seen = measured[name]
        thousands = sum(seen.tuples) / 1000
        passed = _Counts.of(variant.flow)
        seen.moved = (passed.moved - counts[name].moved) / thousands
        for kind, count in passed.negative.items():
            seen.negative_of[kind] = (count - counts[name].negative[kind]) / thousands
        seen.given = (passed.given - counts[name].given) / thousands
        seen.state_rows, seen.state_bytes = variant.flow.state_rows, variant.flow.state_bytes
        last = variant.flow.vertices[-1]
        if isinstance(last.operator, StoredView):
            seen.results, seen.result_bytes = last.state_rows, last.state_bytes
        seen.looked_at = _looked_at(variant, pace, now)
    return measured


def _pass(variant: Variant, steps: Sequence[Step]) -> float:
    began = time.perf_counter()
    for step in steps:
        for _ in variant.flow.advance(step.sources, step.moment):
            pass
    return time.perf_counter() - began


@dataclass(frozen=True, slots=True)
class _Counts:
    moved: int
    given: int
    negative: Mapping[str, int]

    @classmethod
    def of(cls, flow: Dataflow) -> _Counts:
        operators = [vertex for vertex in flow.vertices if vertex.operator is not None]
        negative: dict[str, int] = {}
        for vertex in operators:
            kind = type(vertex.operator).__name__
            negative[kind] = negative.get(kind, 0) + vertex.negative_out
        return cls(sum(vertex.rows_in for vertex in operators), operators[-1].rows_out, negative)


def _looked_at(variant: Variant, pace: Pace, now: int) -> float:
    """Rows that buffers look at per 1,000 tuples, over a few steps that are not timed."""
    if not variant.buffers:
        return 0.0
    for buffer in variant.buffers:
        buffer.counts, buffer.looked_at = True, 0
    until = now + _COUNTED_STEPS * pace.step
    _pass(variant, variant.feed.steps(now, until, pace.step))
    for buffer in variant.buffers:
        buffer.counts = False
    tuples = max(1, variant.feed.tuples(now, until))
    return 1000 * sum(buffer.looked_at for buffer in variant.buffers) / tuples
