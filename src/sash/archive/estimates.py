"""Guessing when results of windows of rows expire (000, section 4.2).

A tuple leaves a window of n rows when n more have arrived, so it leaves about n / rate after its arrival. The
rate is that of the recent past; the guess only chooses a sub-index, so a wrong one costs time, not truth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int64] | npt.NDArray[np.float64]


@dataclass(slots=True)
class ArrivalRate:
    """How many tuples of a stream arrive in a microsecond: an average that forgets by `memory` at each
    look.
    """

    memory: float = 0.5
    _rate: float | None = None

    def observe(self, tuples: int, microseconds: int) -> None:
        if microseconds <= 0:
            return
        seen = tuples / microseconds
        self._rate = seen if self._rate is None else self.memory * self._rate + (1 - self.memory) * seen

    @property
    def per_microsecond(self) -> float | None:
        return self._rate


def guess_deaths(since: Ints, to_come: Numbers, rate: ArrivalRate, span: int) -> Ints:
    """When rows leave that stay until some more tuples have come since an instant, for `span` at most."""
    speed = rate.per_microsecond
    if not speed:
        return since + span
    waiting = np.clip(np.ceil(to_come / speed), 1, span).astype(np.int64)
    return since + waiting
