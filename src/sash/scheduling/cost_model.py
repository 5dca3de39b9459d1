"""What a schedule costs per unit of time (002, section 8.4.4).

Blocks are executed at the multiples of their periods, those that coincide together. Together they scan each
thing once, as far as the farthest (`sharing/work.py`). The scans are counted over the least common multiple of
the periods, or over its beginning where that is very long.
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
        posts = sum(self._posts[list(rows)].sum() / period for rows, period in zip(merged, periods, strict=True))
        steps = min(math.lcm(*periods.tolist()), most_steps)
        # The dearest first: at a step the first block that is due decides, where there is one thing to scan.
        order = np.argsort(-scans.sum(axis=1), kind="stable")
        return float(_scan_rate(periods[order], scans[order], steps) + posts) / self._unit


@kernel
def _scan_rate(periods: Ints, scans: Floats, steps: int) -> float:
    total = 0.0
    for step in range(1, steps + 1):
        for thing in range(scans.shape[1]):
            most = 0.0
            for block in range(periods.shape[0]):
                if scans[block, thing] > most and step % periods[block] == 0:
                    most = scans[block, thing]
                    if scans.shape[1] == 1:
                        break
            total += most
    return total / steps
