"""The cost of an n-way sliding-window join, per unit time (002, section 5.3.1).

A global order of the windows is fixed. A tuple that arrives on stream i probes the other windows in the
global order without i (Table 5.2): it scans the first one; for each match it scans the second one; and so
on. The cost counts tuple accesses (comparisons of the join attribute) per unit time. Insertion and
expiration are the same in every order and are left out.

Sizes follow from containment of value sets (each window draws its values from a prefix of one list) and
uniform values: a join of a partial result with v values and a window of C tuples with w values multiplies
its size by C / max(v, w) and leaves min(v, w) values.

φ does not depend on the order of its subset, although it is defined recursively: each step divides by the
greater of two numbers of values and keeps the smaller one, so in the end every number but the smallest
has been divided by: φ = min(v) · Π C / Π v. (Rounding apart; `result_size` follows the order that it is
given.)

Beyond the paper: several join attributes. `distinct` may name them; each attribute is counted by itself,
windows without a common attribute multiply (a cross product), and several attributes are taken to be
independent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sash.errors import InternalError

# The name of the join attribute where there is only one.
COMMON = ""


@dataclass(frozen=True, slots=True)
class WindowStatistics:
    """λ, T, v of a window (Table 5.1), and b where it is hashed.

    `distinct` is a number where all windows are joined on one attribute, and else the number of values by
    join attribute. `buckets` is how many hash buckets the window has; None: as many as the join
    attributes in use have values, one bucket for each.
    """

    rate: float
    length: float
    distinct: float | Mapping[str, float]
    buckets: float | None = None

    def __post_init__(self) -> None:
        if self.rate < 0 or self.length < 0:
            raise ValueError(f"rates and lengths are not negative, got {self.rate} and {self.length}")
        if any(value <= 0 for value in self.attributes.values()):
            raise ValueError(f"a join attribute has some values, got {self.distinct}")
        if self.buckets is not None and self.buckets < 1:
            raise ValueError(f"a hash table has at least one bucket, got {self.buckets}")

    @property
    def size(self) -> float:
        """C = λT, the tuples in the window."""
        return self.rate * self.length

    @property
    def attributes(self) -> Mapping[str, float]:
        return {COMMON: self.distinct} if isinstance(self.distinct, int | float) else self.distinct


Windows = Sequence[WindowStatistics]
Order = Sequence[int]


@dataclass(slots=True)
class _Partial:
    """A partial join result: its size, and the values that it has by attribute."""

    size: float
    distinct: dict[str, float]

    def matches(self, window: WindowStatistics) -> float:
        """How many tuples of the window one row of the result joins with, on average."""
        matches = window.size
        for attribute, values in window.attributes.items():
            if attribute in self.distinct:
                matches /= max(self.distinct[attribute], values)
        return matches

    def scan(self, window: WindowStatistics, is_hashed: bool) -> float:
        """How many tuples one probe of the window looks at: all, or an average bucket and all that match.

        A window that shares no attribute with the result has no bucket to look in.
        """
        common = [values for name, values in window.attributes.items() if name in self.distinct]
        if not is_hashed or not common:
            return window.size
        buckets = window.buckets
        if buckets is None:
            buckets = 1.0
            for values in common:
                buckets *= values
        return max(window.size / max(buckets, 1.0), self.matches(window))

    def extend(self, window: WindowStatistics) -> None:
        self.size *= self.matches(window)
        for attribute, values in window.attributes.items():
            self.distinct[attribute] = min(values, self.distinct.get(attribute, values))


def result_size(windows: Windows, subset: Order) -> float:
    """φ of a subset of the windows: the expected size of their join (5.3.1, Table 5.4)."""
    if not subset:
        raise ValueError("a join result has at least one window")
    partial = _Partial(1.0, {})
    for i in subset:
        partial.extend(windows[i])
    return partial.size


def matches_per_tuple(windows: Windows, arriving: int) -> float:
    """How many results one tuple of the stream is part of when it arrives: φ / C of the stream."""
    return _matches_of_one(windows, arriving)


def _matches_of_one(windows: Windows, arriving: int) -> float:
    partial = _Partial(1.0, dict(windows[arriving].attributes))
    for i, window in enumerate(windows):
        if i != arriving:
            partial.extend(window)
    return partial.size


def cost_per_tuple(windows: Windows, order: Order, arriving: int, *, is_hashed: bool = False) -> float:
    """Tuple accesses for one tuple of stream `arriving`: the bracket in X_i (5.3.1)."""
    _check(windows, order)
    partial = _Partial(1.0, dict(windows[arriving].attributes))
    cost = 0.0
    for i in order:
        if i != arriving:
            cost += partial.size * partial.scan(windows[i], is_hashed)
            partial.extend(windows[i])
    return cost


def cost_of_stream(windows: Windows, order: Order, arriving: int, *, is_hashed: bool = False) -> float:
    """X_i: tuple accesses per unit time for the tuples of one stream (5.3.1)."""
    return windows[arriving].rate * cost_per_tuple(windows, order, arriving, is_hashed=is_hashed)


def join_cost(windows: Windows, order: Order, *, is_hashed: bool = False) -> float:
    """X_1 + … + X_n: tuple accesses per unit time of the whole join in a global order (5.3.1).

    With `is_hashed` a probe looks at one bucket of λT/b tuples instead of the window (5.3.2). O(n²).

    >>> windows = [WindowStatistics(10, 100, 500), WindowStatistics(1, 100, 50)]
    >>> join_cost(windows, (0, 1))
    2000.0
    """
    return sum(cost_of_stream(windows, order, i, is_hashed=is_hashed) for i in order)


def _check(windows: Windows, order: Order) -> None:
    if sorted(order) != list(range(len(windows))):
        raise InternalError(f"{list(order)} is not an order of {len(windows)} windows")
