"""How many results negation, EXISTS, EXCEPT and INTERSECT have, and how many expire before their time.

The model (002, sections 2.2.2, 3.5.2 and 5.3): values are uniform, arrivals independent (Poisson), and
value sets contained: the side with fewer values draws them from those of the other. For a left side with
λ₁, N₁ live tuples and v₁ values and a right side with λ₂, N₂, v₂:

    c = min(1, v₂/v₁)       share of left tuples whose value the right side ever has
    r = λ₂/v₂               arrivals of one such value on the right, per second
    p = 1 − exp(−N₂/v₂)     chance that the right side has it now

Left tuples without a match: N₁(1 − cp). They expire
    in time:      λ₁(1 − cp)           the left tuple leaves its window while the value is absent on the right
    prematurely:  N₁ c (1 − p) r       the value arrives on the right; as many come back when it leaves again
so the share of premature expirations is
    T₁ c (1 − p) r / (T₁ c (1 − p) r + 1 − cp)      with T₁ = N₁/λ₁.
It is 0 where the sides have no value in common (a right side without tuples). With c = 1 it is
T₁r / (T₁r + 1): it grows with the right side's rate, while the number of results, and of those that expire
prematurely, shrinks as the right side comes to have every value always.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Side:
    """An input of a negation: tuples per second, live tuples, values of the compared expressions."""

    rate: float
    live: float
    distinct: float

    @property
    def rate_of_value(self) -> float:
        return self.rate / self.distinct

    @property
    def copies(self) -> float:
        """Live tuples of one value."""
        return self.live / self.distinct

    @property
    def presence(self) -> float:
        """The chance that a value is among the live tuples."""
        return -math.expm1(-self.copies)

    @property
    def lifetime(self) -> float:
        return self.live / self.rate if self.rate else math.inf


@dataclass(frozen=True, slots=True)
class Results:
    """Live results, and how many expire per second: as foreseen, and prematurely."""

    live: float
    in_time: float
    premature: float

    @property
    def rate(self) -> float:
        """Results per second; in a steady state as many are born as die."""
        return self.in_time + self.premature

    @property
    def premature_share(self) -> float:
        return self.premature / self.rate if self.rate else 0.0


def containment(left: Side, right: Side) -> float:
    """c: the share of left tuples whose value the right side can have (5.3)."""
    return min(1.0, right.distinct / left.distinct)


def negation(left: Side, right: Side) -> Results:
    """Left tuples without a match: NOT EXISTS, NOT IN (2.2.2, 3.5.2)."""
    share, present = containment(left, right), right.presence
    premature = left.live * share * (1 - present) * right.rate_of_value
    return Results(left.live * (1 - share * present), left.rate * (1 - share * present), premature)


def semi_join(left: Side, right: Side) -> Results:
    """Left tuples with a match: EXISTS, IN. A weak operator: nothing is premature.

    A result expires with its left tuple or with its youngest match, and is given again if a younger match
    has come meanwhile, as in duplicate elimination (3.2.2).
    """
    matched = containment(left, right) * right.presence
    renewals = left.live * matched / representative_lifetime(right)
    return Results(left.live * matched, left.rate * matched + renewals, 0.0)


def difference(left: Side, right: Side) -> Results:
    """EXCEPT by multiplicities: a value as often as the left has it more than the right.

    With X and Y copies of a value, both Poisson: max(X − Y, 0) results. A right arrival takes one away
    while there is one; a left tuple that leaves does so too.
    """
    share = containment(left, right)
    surplus, chance = _surplus(left.copies, right.copies)
    live = left.live * (1 - share) + share * left.distinct * surplus
    in_time = left.rate * (1 - share + share * chance)
    premature = min(left.distinct, right.distinct) * right.rate_of_value * chance
    return Results(live, in_time, premature)


def intersection(left: Side, right: Side) -> Results:
    """INTERSECT by multiplicities: min(X, Y) copies of each value that both sides have; weak like a join."""
    values = min(left.distinct, right.distinct)
    surplus, chance = _surplus(left.copies, right.copies)
    births = values * (left.rate_of_value * (1 - chance) + right.rate_of_value * chance)
    return Results(values * max(0.0, left.copies - surplus), births, 0.0)


def representative_lifetime(side: Side) -> float:
    """How long the youngest tuple of a value has to live when it follows the one before (3.2.2).

    A lifetime T less the age of the youngest: T − (1 − (1 + rT) e^(−rT)) / r for r arrivals of the value
    per second. Between T (all values different) and T − 1/r (many duplicates).
    """
    rate, lifetime = side.rate_of_value, side.lifetime
    if rate == 0 or math.isinf(lifetime):
        return math.inf
    expected = rate * lifetime
    return lifetime - (1 - (1 + expected) * math.exp(-expected)) / rate if expected > 1e-6 else lifetime


def _surplus(left: float, right: float) -> tuple[float, float]:
    """E[max(X − Y, 0)] and P(X > Y) of Poisson variables; by a normal law where there are many copies."""
    if left + right > 60:
        deviation = math.sqrt(left + right)
        z = (left - right) / deviation
        chance = 0.5 * math.erfc(-z / math.sqrt(2))
        density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        return min(left, (left - right) * chance + deviation * density), chance
    lefts, rights = _poisson(left), _poisson(right)
    surplus = chance = 0.0
    for x, of_x in enumerate(lefts):
        for y, of_y in enumerate(rights[:x]):
            surplus += (x - y) * of_x * of_y
            chance += of_x * of_y
    return surplus, chance


def _poisson(mean: float) -> list[float]:
    shares = [math.exp(-mean)]
    while len(shares) < mean + 10 * math.sqrt(mean) + 10:
        shares.append(shares[-1] * mean / len(shares))
    return shares
