"""Four streams that are joined on one attribute (002, table 5.5 and section 5.4.1), and the ways to do it.

The streams come out of one loop: each tick brings a tuple of one stream, chosen in proportion to the rates,
with a value drawn from the first v of a common list. A time unit has as many ticks as the rates add up to, so
windows of 100 time units hold 100 λ tuples.

`times` multiplies rates and numbers of values. The predicted cost of every order grows with its square, the
results only in proportion: what the orders have in common then hides less of how they differ, and the
predicted ratios stay what they are.

The join's algorithms here (002, section 5.2; `operators/join.py`):

| algorithm              | windows           | called        | expired tuples go |
|------------------------|-------------------|---------------|-------------------|
| eager                  | at every instant  | every unit    | at every call     |
| eager, lazy expiration | at every instant  | every unit    | every Δ units     |
| lazy                   | at every Δ: SLIDE | every Δ units | at every call     |
| lazyR (with restore)   | at every instant  | every Δ units | at every call     |
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sash.operators.build import build
from sash.operators.dataflow import Dataflow
from sash.operators.delta import Delta
from sash.plan.cost import WindowStatistics
from sash_experiments.drive import SECOND, Feed, planned
from sash_experiments.measure import Pace, Variant
from sash_experiments.reshape import cut_at, join_of, with_join

# The table prints 100 for the first stream; the costs in the text follow from 10.
RATES = (10, 1, 1, 1)
VALUES = (40, 100, 8, 5)
LENGTH = 100
"""Time units of every window."""


class Algorithm(enum.Enum):
    EAGER = "eager"
    EAGER_LAZY_EXPIRATION = "eager, lazy exp."
    LAZY = "lazy"
    LAZY_RESTORE = "lazyR"

    @property
    def is_eager(self) -> bool:
        return self in (Algorithm.EAGER, Algorithm.EAGER_LAZY_EXPIRATION)


@dataclass(frozen=True, slots=True)
class FourStreams:
    """The streams for `units` time units."""

    times: int
    units: int

    @property
    def ticks(self) -> int:
        """Ticks in a time unit."""
        return sum(RATES) * self.times

    def tables(self, seed: int = 1) -> dict[str, pa.Table]:
        random = np.random.Generator(np.random.Philox(key=seed))
        count = self.units * self.ticks
        stream = random.choice(4, count, p=np.array(RATES) / sum(RATES))
        uniform = random.random(count)
        found: dict[str, pa.Table] = {}
        for i, values in enumerate(VALUES):
            at = np.flatnonzero(stream == i)
            drawn = (uniform[at] * values * self.times).astype(np.int64) + 1
            found[f"s{i + 1}"] = pa.table({"t": at + 1, "a": drawn})
        return found

    def pace(self, units_a_round: int, rounds: int) -> Pace:
        """Rounds after the windows have filled; eager joins are called once a time unit."""
        return Pace(LENGTH * self.ticks, self.ticks, units_a_round * self.ticks, rounds)

    def windows(self) -> list[WindowStatistics]:
        """What the cost model is told."""
        pairs = zip(RATES, VALUES, strict=True)
        return [WindowStatistics(self.times * rate, LENGTH, self.times * values) for rate, values in pairs]


def join_text(order: Sequence[int], length: int, slide: int | None) -> str:
    """The join in an order, in ticks. Equalities with the first stream keep every probe in the order."""
    names = [f"s{i + 1}" for i in order]
    declared = "".join(
        f"CREATE STREAM {name} (t BIGINT, a BIGINT) TIMESTAMP BY t FROM 'csv:{name}.csv';\n" for name in names
    )
    window = f"[RANGE {length} SEC{'' if slide is None else f' SLIDE {slide} SEC'}]"
    sources = ", ".join(f"{name} {window}" for name in names)
    equal = " AND ".join(f"{names[0]}.a = {name}.a" for name in names[1:])
    join = "lazy" if slide is not None else "eager"
    select = f"SELECT {names[0]}.a FROM {sources} WHERE {equal} WITH (\"join\" = '{join}')"
    return f"{declared}CREATE QUERY q INTO 'jsonl:q.jsonl' AS {select};"


def join_variant(
    streams: FourStreams,
    tables: dict[str, pa.Table],
    order: Sequence[int],
    algorithm: Algorithm,
    delta: int,
    *,
    is_hashed: bool,
) -> Variant:
    """A join alone, with full windows; `delta` in time units."""
    slide = delta * streams.ticks if algorithm is Algorithm.LAZY else None
    plan = planned(join_text(order, LENGTH * streams.ticks, slide), shape=lambda written: written)
    every = delta * streams.ticks * SECOND if algorithm is Algorithm.EAGER_LAZY_EXPIRATION else 0
    flow = with_join(build(plan), is_hashed=is_hashed, expire_every=every)
    step = None if algorithm.is_eager else max(1, delta) * streams.ticks
    variant = Variant(cut_at(flow, join_of(flow)), Feed(plan, tables), step=step, is_filled=True)
    _fill(variant, LENGTH * streams.ticks)
    return variant


def _fill(variant: Variant, through: int) -> None:
    """Fill the join's windows without joining."""
    (step,) = variant.feed.steps(0, through, through)
    flow = variant.flow
    place = join_of(flow)
    below = Dataflow(flow.vertices[:place], {str(i): i for i in flow.vertices[place].inputs})
    held: dict[str, Delta] = {}
    for given in below.advance(step.sources, step.moment):
        held.update(given)
    tables = [_state(held[str(i)], through) for i in flow.vertices[place].inputs]
    join = flow.vertices[place].operator
    assert join is not None
    join.restore({f"input{i}": table for i, table in enumerate(tables)})


def _state(delta: Delta, through: int) -> pa.Table:
    live = delta.filter(delta.exp > through * SECOND)
    columns = {f"c{i}": column for i, column in enumerate(live.columns)}
    return pa.table({"ts": live.ts, "exp": live.exp, **columns})
