"""What an estimate says: rates, live tuples, state and work per second of an operator and of all below it.

Units: tuples, seconds, and work units. One work unit is one tuple touched: compared, hashed, inserted,
deleted or passed on (002, sections 3.5.3 and 5.3: a per-unit-time model after Kang, Naughton and Viglas,
2003).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from sash.lang.algebra import Node
from sash.plan.cost.buffers import Buffer, Load, Strategy, choose_buffer
from sash.plan.cost.statistics import Statistics
from sash.plan.patterns import pattern_of

# A hashed state is probed by hashing a tuple and looking at what is there.
PROBE = 2.0


@dataclass(frozen=True, slots=True)
class Cost:
    """Work units per second, in the three parts that 3.5.3 names."""

    processing: float = 0.0
    maintenance: float = 0.0
    negative: float = 0.0

    @property
    def total(self) -> float:
        return self.processing + self.maintenance + self.negative

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.processing + other.processing,
            self.maintenance + other.maintenance,
            self.negative + other.negative,
        )


@dataclass(frozen=True, slots=True)
class Estimate:
    """An operator in a plan.

    `rate_out` and `negative_rate`: tuples and negative tuples per second that leave it.
    `live`: rows of its result at an instant; `buffers`: what it stores itself.
    `cost`: of this operator alone; `total` includes all below it.
    `distinct`: values by field. `period`: seconds between changes, 0 where it changes at any time.
    `announces`: every expiration leaves as a negative tuple.
    `replaces`: a row replaces the one with its key, without a negative tuple (aggregates, 3.5.2).
    `premature_share`: of a negation, the share of its expirations that nobody foresees (3.5.2).
    """

    node: Node
    rate_out: float
    live: float
    cost: Cost = Cost()
    negative_rate: float = 0.0
    buffers: tuple[Buffer, ...] = ()
    inputs: tuple[Estimate, ...] = ()
    distinct: Mapping[str, float] = field(default_factory=dict)
    period: float = 0.0
    announces: bool = False
    replaces: bool = False
    premature_share: float | None = None

    @property
    def state(self) -> float:
        """Live tuples that the operator stores."""
        return sum(buffer.size for buffer in self.buffers)

    @property
    def total(self) -> Cost:
        """The cost of the plan from here down."""
        total = self.cost
        for below in self.inputs:
            total = total + below.total
        return total

    @property
    def total_state(self) -> float:
        return self.state + sum(below.total_state for below in self.inputs)

    @property
    def lifetime(self) -> float:
        """Seconds that a row lives on average: live = rate · lifetime."""
        return self.live / self.rate_out if self.rate_out else math.inf

    @property
    def withdrawn(self) -> float:
        """Rows per second that an operator with state above it has to take back by name."""
        return self.rate_out if self.replaces else self.negative_rate

    @property
    def row_values(self) -> float:
        """How many different rows there can be: the product over the fields, if it is a number."""
        values = 1.0
        for name in self.node.names:
            values = min(values * self.distinct.get(name, 1.0), 1e300)
        return values


@dataclass(frozen=True, slots=True)
class Context:
    """What holds for the whole plan. `announces`: the operator must announce all of its expirations."""

    statistics: Statistics
    strategy: Strategy
    announces: bool


def keep(inputs: tuple[Estimate, ...], position: int, context: Context, *, is_eager: bool) -> Buffer:
    """The buffer in which an operator stores one of its inputs."""
    stored = inputs[position]
    checks = sum(each.rate_out for each in inputs)
    if all(each.period for each in inputs):
        checks = min(checks, 1 / min(each.period for each in inputs))
    return choose_buffer(
        pattern_of(stored.node),
        context.strategy,
        stored.live,
        Load(stored.rate_out, stored.withdrawn, checks),
        is_announced=stored.announces or stored.replaces,
        is_eager=is_eager,
    )


def upkeep(buffers: tuple[Buffer, ...]) -> Cost:
    return Cost(0.0, sum(b.maintenance for b in buffers), sum(b.negative for b in buffers))


def common_period(inputs: tuple[Estimate, ...]) -> float:
    return min(each.period for each in inputs)
