"""What a schedule costs per unit of time (002, section 8.4.4).

Blocks are executed at the multiples of their periods, those that coincide together. Together they scan each
thing once, as far as the farthest (`sharing/work.py`). The scans are counted over the least common multiple
of the periods, or over its beginning where that is very long.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from sash.scheduling.policy import Block
from sash.state.jit import kernel

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

MOST_STEPS = 27_720


def cost_rate(blocks: Sequence[Block], most_steps: int = MOST_STEPS) -> float:
    """The cost of executing the blocks, per unit of time."""
    return Costs(blocks).rate([(i,) for i in range(len(blocks))], most_steps)


class Costs:
    """The costs of some blocks, from which those of merged ones follow."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._unit = math.gcd(*(block.period for block in blocks))
        self._periods = np.array([block.period // self._unit for block in blocks], dtype=np.int64)
        keys: dict[Hashable, int] = {}
        for block in blocks:
            for query in block.queries:
                for key in query.work.scans:
                    keys.setdefault(key, len(keys))
        self._scans = np.zeros((len(blocks), len(keys)))
        self._posts = np.zeros(len(blocks))
        for row, block in enumerate(blocks):
            for query in block.queries:
                self._posts[row] += query.work.post
                for key, cost in query.work.scans.items():
                    self._scans[row, keys[key]] = max(self._scans[row, keys[key]], cost)

    def rate(self, merged: Sequence[tuple[int, ...]], most_steps: int = MOST_STEPS) -> float:
        """The cost per unit of time if the blocks of each tuple are one, with its shortest period."""
        periods = np.array([self._periods[list(rows)].min() for rows in merged])
        scans = np.array([self._scans[list(rows)].max(axis=0) for rows in merged])
        posts = np.array([self._posts[list(rows)].sum() for rows in merged])
        steps = min(math.lcm(*periods.tolist()), most_steps)
        farthest = np.zeros((steps, scans.shape[1]))
        return _rate(periods, scans, posts, np.ones(len(merged), np.bool_), farthest) / self._unit

    def merge_greedily(self, most_steps: int) -> list[tuple[int, ...]]:
        """The best merge of two blocks is made as long as one pays; all in one, if that is cheaper still."""
        steps = min(math.lcm(*self._periods.tolist()), most_steps)
        farthest = np.zeros((steps, self._scans.shape[1]))
        labels = _merge(self._periods.copy(), self._scans.copy(), self._posts.copy(), farthest)
        return [tuple(np.flatnonzero(labels == label).tolist()) for label in np.unique(labels)]


@kernel
def _rate(periods: Ints, scans: Floats, posts: Floats, is_live: Bools, farthest: Floats) -> float:
    """The cost per step over as many steps as `farthest` has rows, in which it notes what is scanned."""
    steps, things = farthest.shape
    farthest[:] = 0.0
    total = 0.0
    for block in range(periods.shape[0]):
        if not is_live[block]:
            continue
        period = periods[block]
        total += posts[block] / period * steps
        for thing in range(things):
            cost = scans[block, thing]
            if period > steps:
                # It does not come up in the part that is looked at; nothing is known of coincidences.
                total += cost / period * steps
            for step in range(period - 1, steps, period):
                if cost > farthest[step, thing]:
                    farthest[step, thing] = cost
    rate: float = (total + farthest.sum()) / steps
    return rate


@kernel
def _merge(periods: Ints, scans: Floats, posts: Floats, farthest: Floats) -> Ints:
    """Which blocks are merged: equal labels. The arrays are used up."""
    count = periods.shape[0]
    labels = np.arange(count)
    is_live = np.ones(count, dtype=np.bool_)
    shortest, all_scans, all_posts = periods.min(), np.zeros(scans.shape[1]), posts.sum()
    for block in range(count):
        all_scans = np.maximum(all_scans, scans[block])
    best = _rate(periods, scans, posts, is_live, farthest)
    while True:
        one, other = -1, -1
        for i in range(count):
            if not is_live[i]:
                continue
            period, scan, post = periods[i], scans[i].copy(), posts[i]
            for j in range(i + 1, count):
                if not is_live[j]:
                    continue
                periods[i], posts[i] = min(period, periods[j]), post + posts[j]
                scans[i] = np.maximum(scan, scans[j])
                is_live[j] = False
                rate = _rate(periods, scans, posts, is_live, farthest)
                is_live[j] = True
                if rate < best - 1e-9:
                    best, one, other = rate, i, j
            periods[i], scans[i], posts[i] = period, scan, post
        if one < 0:
            break
        periods[one] = min(periods[one], periods[other])
        scans[one] = np.maximum(scans[one], scans[other])
        posts[one] += posts[other]
        is_live[other] = False
        labels[labels == other] = one
    is_live[:] = False
    is_live[0] = True
    periods[0], scans[0], posts[0] = shortest, all_scans, all_posts
    if _rate(periods, scans, posts, is_live, farthest) < best - 1e-9:
        labels[:] = 0
    return labels
