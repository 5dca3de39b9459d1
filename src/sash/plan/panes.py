"""Panes: the sub-windows into which the windows of several queries cut time.

A window (pL − T, pL] begins and ends on the edges of panes, so an answer is a combination of whole
panes. For one query the edges are the multiples of L and, where L does not divide T, the instants
pL − T: at most two panes a slide. Queries that share a synopsis share the union of their edges.

Invariant: pane n covers (edge(n−1), edge(n)], edges ascend, and they repeat with `period`.
The idea is Krishnamurthy, Wu and Franklin's (On-the-fly sharing for streamed aggregation, 2006);
002 section 2.3.4 has the special case in which L divides T.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from sash.lang.bound import Window

# Beyond this many edges a period, queries are better off with panes of their own.
MAX_EDGES = 4096

Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Panes:
    """Edges at q·period + offset for every integer q and every offset in `offsets`."""

    period: int
    offsets: tuple[int, ...]

    @staticmethod
    def covering(windows: Iterable[Window]) -> Panes | None:
        """The coarsest panes on whose edges all `windows` begin and end, if they are not too many."""
        distinct = dict.fromkeys(windows)
        period = math.lcm(*(window.slide for window in distinct))
        if sum(2 * (period // window.slide) for window in distinct) > 4 * MAX_EDGES:
            return None
        offsets = set[int]()
        for window in distinct:
            lag = window.range % window.slide
            for end in range(window.slide, period + 1, window.slide):
                offsets.add(end)
                if lag:
                    offsets.add(end - lag)
        if len(offsets) > MAX_EDGES:
            return None
        return Panes(period, tuple(sorted(offsets)))._coarsest()

    def _coarsest(self) -> Panes:
        """The same edges with the shortest period, so that equal panes compare equal."""
        gaps = np.diff(np.array((0, *self.offsets)))
        if (gaps == gaps[0]).all():
            return Panes(int(gaps[0]), (int(gaps[0]),))
        return self

    def have(self, window: Window) -> bool:
        """Whether a window begins and ends on edges at each of its boundaries."""
        cycle = math.lcm(self.period, window.slide)
        if cycle // window.slide > MAX_EDGES:
            return False
        ends = np.arange(window.slide, cycle + 1, window.slide)
        instants = np.concatenate([ends, ends - window.range])
        return bool(np.isin((instants - 1) % self.period + 1, self.offsets).all())

    def number_of(self, ts: Int64Array) -> Int64Array:
        """The pane in which each instant lies."""
        if len(self.offsets) == 1:
            return -(-ts // self.period) - 1
        cycle = (ts - 1) // self.period
        within = np.searchsorted(np.array(self.offsets), ts - cycle * self.period, side="left")
        return cycle * len(self.offsets) + within

    def number_at(self, instant: int) -> int:
        """The pane in which `instant` lies, its right edge included."""
        cycle = (instant - 1) // self.period
        within = bisect_left(self.offsets, instant - cycle * self.period)
        return cycle * len(self.offsets) + within

    def right_edge(self, number: int) -> int:
        cycle, within = divmod(number, len(self.offsets))
        return cycle * self.period + self.offsets[within]

    def right_edges(self, numbers: Int64Array) -> Int64Array:
        cycles, within = np.divmod(numbers, len(self.offsets))
        edges: Int64Array = cycles * self.period + np.array(self.offsets)[within]
        return edges

    @lru_cache(maxsize=256)  # noqa: B019 - panes are values
    def refine(self, others: Panes) -> bool:
        """Whether all edges of the others are edges of these."""
        cycle = math.lcm(self.period, others.period)
        if cycle // others.period * len(others.offsets) > MAX_EDGES:
            return False
        edges = np.add.outer(np.arange(0, cycle, others.period), np.array(others.offsets))
        return bool(np.isin((edges - 1) % self.period + 1, self.offsets).all())

    def last_closed(self, through: int) -> int:
        """The newest pane whose right edge is not after `through`."""
        number = self.number_at(through)
        return number if self.right_edge(number) == through else number - 1

    def count_in(self, span: int) -> int:
        """How many panes a span of that length holds at the most."""
        return -(-span * len(self.offsets) // self.period) + 1


def first_boundary(instant: int, slide: int) -> int:
    """The first multiple of `slide` that is not before `instant`."""
    return -(-instant // slide) * slide


def last_boundary(instant: int, slide: int) -> int:
    """The last multiple of `slide` that is not after `instant`."""
    return instant // slide * slide
