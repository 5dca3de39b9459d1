"""A layout: which sub-index a row lies in, and which sub-indices an update has to touch.

Time is cut into intervals of `every`; interval k is ((k−1)·every, k·every]. A row born in interval i that
outlives it dies in one of the intervals i+1 … i+p, p = ⌈span / every⌉. Sub-index (g, e) holds the rows whose
birth falls to partition g and whose death falls to partition e; where they fall is arithmetic, so there is
no state, and an update that is repeated does the same.

An update from one instant to a later one inserts into the rows of the grid that take the intervals between
them, and expires from the columns that take them: G + E − 1 sub-indices where they are one interval apart.
With `LAZY` the row that holds the oldest births is left alone until all in it has expired, so G + E − 2.

Source: 000, section 3 and appendix B (algorithms 1 to 4); 002, section 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sash.archive.techniques import Order, Technique, technique_of

Ints = npt.NDArray[np.int64]

_MASK = (1 << 48) - 1


@dataclass(frozen=True, slots=True)
class Layout:
    """`periods` is p; `is_estimated`: deaths are guesses, found in the interval before or after, too."""

    technique: Technique
    generations: int
    expirations: int
    every: int
    periods: int
    is_estimated: bool = False
    seed: int = 0

    @staticmethod
    def of(
        technique: str,
        grid: tuple[int, int] | None,
        every: int,
        span: int,
        *,
        is_estimated: bool = False,
        seed: int = 0,
    ) -> Layout:
        found = technique_of(technique)
        generations, expirations = found.grid(grid)
        periods = max(1, -(-span // every))
        return Layout(found, generations, expirations, every, periods, is_estimated, seed)

    @property
    def size(self) -> int:
        """How many sub-indices there are."""
        return self.generations * self.expirations

    def name(self, slot: int) -> str:
        """`g2e0`: the partitions of a sub-index."""
        return f"g{slot // self.expirations}e{slot % self.expirations}"

    def intervals(self, times: Ints) -> Ints:
        return -(-times // self.every)

    def slots(self, ts: Ints, exp: Ints) -> Ints:
        """The sub-index of each row."""
        return self._generation(self.intervals(ts)) * self.expirations + self._expiration(self.intervals(exp))

    def columns(self, exp: Ints) -> Ints:
        """The partitions of expiration times in which rows lie that die then."""
        return np.unique(self._expiration(self.intervals(exp)))

    def inserted(self, since: int, through: int) -> tuple[int, ...]:
        """The sub-indices that take rows born after `since`, up to `through`, which live at `through`."""
        last = self._interval(through)
        first = max(self._interval(since + 1), last - self.periods)
        rows = np.unique(self._generation(np.arange(first, last + 1)))
        return tuple(int(g) * self.expirations + e for g in rows for e in range(self.expirations))

    def expired(self, since: int, through: int) -> tuple[int, ...]:
        """The sub-indices in which rows die after `since`, up to `through`."""
        first, last = self._interval(since + 1), self._interval(through)
        if self.is_estimated:
            first, last = first - 1, last + 1
        # Nothing lives longer than p intervals, so a long silence need not be counted to its end.
        columns = np.unique(self._expiration(np.arange(first, min(last, first + self.periods + 2) + 1)))
        rows = [g for g in range(self.generations) if g != self._waiting(through)]
        return tuple(sorted(g * self.expirations + int(e) for g in rows for e in columns))

    def _interval(self, time: int) -> int:
        return -(-time // self.every)

    def _generation(self, intervals: Ints) -> Ints:
        if self.technique.insertion is Order.LAZY:
            return self._blocks(intervals) % self.generations
        return _place(self.technique.insertion, intervals, self.generations, self.periods, self.seed)

    def _expiration(self, intervals: Ints) -> Ints:
        order = self.technique.expiration
        return _place(order, intervals, self.expirations, self.periods, self.seed + 1)

    def _waiting(self, through: int) -> int | None:
        """The row of the grid that waits to be thrown away."""
        if self.technique.insertion is not Order.LAZY:
            return None
        block = int(self._blocks(np.array([self._interval(through)]))[0])
        return (block + 1) % self.generations

    def _blocks(self, intervals: Ints) -> Ints:
        """Consecutive intervals in blocks, G − 1 of which have p − 1 intervals together.

        When a block begins, all rows of the block G before it have died, so it can take its place.
        """
        whole = max(1, self.periods - 1)
        parts = max(1, min(self.generations, self.periods) - 1)
        begins = np.concatenate(
            [[0], np.cumsum([whole // parts + (k < whole % parts) for k in range(parts)])]
        )
        rest = intervals % whole
        return intervals // whole * parts + np.searchsorted(begins, rest, side="right") - 1


def _place(order: Order, intervals: Ints, parts: int, periods: int, seed: int) -> Ints:
    match order:
        case Order.ROUND_ROBIN:
            return intervals % parts
        case Order.CHRONOLOGICAL:
            return intervals // -(-periods // parts) % parts
        case Order.RANDOM:
            return _shuffled(intervals, parts, seed)
    return np.zeros(len(intervals), dtype=np.int64)


def _shuffled(intervals: Ints, parts: int, seed: int) -> Ints:
    """Each run of as many intervals as there are partitions, in an order of its own (002, 4.3.3).

    Rates that alternate with the partitions would fill some of them and leave others empty.
    """
    runs, of = np.unique(intervals // parts, return_inverse=True)
    orders = [np.random.default_rng([seed, int(run) & _MASK]).permutation(parts) for run in runs]
    if not orders:
        return np.zeros(0, dtype=np.int64)
    placed: Ints = np.stack(orders)[of, intervals % parts]
    return placed
