"""Windows by recomputation, and values of every type to fill them with."""

from __future__ import annotations

import collections
import datetime
import math
from fractions import Fraction
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from sash.indexes import Purging

EPOCH = datetime.datetime(1970, 1, 1)
POOLS: dict[pa.DataType, list[Any]] = {
    pa.int64(): [-(1 << 63), -7, -1, 0, 1, 2, 3, 100, (1 << 63) - 1],
    pa.float64(): [-math.inf, -1.5, -0.0, 0.0, 1e-300, 2.5, math.inf, math.nan],
    pa.string(): ["", "a", "aa", "ab", "b", "é", "z\x00", "\U0001f600", "zz"],
    pa.bool_(): [False, True],
    pa.timestamp("us"): [EPOCH + datetime.timedelta(microseconds=n) for n in (-5, 0, 1, 10**15)],
}
PURGINGS = (Purging(share=0.0), Purging(share=0.5), Purging(tuples=5), Purging(slides=2))
SHARES = (Fraction(1, 100), Fraction(1, 3), Fraction(1, 2), Fraction(9, 10), Fraction(1))


@st.composite
def basic_windows(draw, type_):
    """Some basic windows: empty ones, skewed ones, NULLs among the values."""
    pool = POOLS[type_]
    favourite = st.just(draw(st.sampled_from(pool)))
    value = st.one_of(favourite, favourite, st.sampled_from(pool), st.none())
    windows = draw(st.lists(st.lists(value, max_size=12), min_size=1, max_size=8))
    return [pa.array(values, type_) for values in windows]


types = st.sampled_from(list(POOLS))


def rank(value):
    """A key by which values sort as in CQL."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value + 0.0)
    return value.encode() if isinstance(value, str) else value


class Truth:
    """The newest basic windows as lists, and what follows from them."""

    def __init__(self, size):
        self._held: collections.deque[list[Any]] = collections.deque(maxlen=size)
        self.first = 0

    def slide(self, values):
        if len(self._held) == self._held.maxlen:
            self.first += len(self._held[0])
        self._held.append([tidy(value) for value in values.to_pylist()])

    def expire(self):
        if self._held:
            self.first += len(self._held.popleft())

    @property
    def tuples(self):
        return [value for values in self._held for value in values]

    @property
    def values(self):
        """All values but NULL, in order."""
        return sorted((value for value in self.tuples if value is not None), key=rank)

    @property
    def nulls(self):
        return sum(value is None for value in self.tuples)

    def counts(self):
        """Pairs of value and count, in order."""
        counted = collections.Counter(rank(value) for value in self.values)
        once = {rank(value): value for value in self.values}
        return [(once[key], count) for key, count in counted.items()]

    def quantile(self, share):
        values = self.values
        return values[math.ceil(share * len(values)) - 1] if values else None

    def top(self, limit):
        return sorted(self.counts(), key=lambda pair: (-pair[1], rank(pair[0])))[:limit]

    def positions(self, is_wanted):
        """Positions of the tuples that are not NULL and wanted."""
        return [
            self.first + i
            for i, value in enumerate(self.tuples)
            if value is not None and is_wanted(rank(value))
        ]


def tidy(value):
    """One zero, one NaN."""
    return value + 0.0 if isinstance(value, float) and not math.isnan(value) else value


def same(found, expected):
    """Whether lists are equal, NaN being equal to itself."""
    return repr(found) == repr(expected)
