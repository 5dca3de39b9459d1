"""When results of windows of rows are likely to leave (000, section 4.2).

A tuple leaves a window of n rows when n more have come. How many have come since it did is known, nearly,
from how far its stream was after each batch; the others are expected at the rate of the recent past. A result
leaves with the first of its parts. A wrong guess costs time, not truth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.archive import BORN
from sash.archive.estimates import ArrivalRate, guess_deaths
from sash.engine.ingest.watermarks import StreamState
from sash.plan.lifetimes import ARRIVAL, Counted

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class ExpectedLives:
    """`parts` is how many windows a result has its parts from, `units` how many microseconds a stream's times
    count.
    """

    def __init__(self, windows: Sequence[Counted], parts: int, units: Mapping[str, int]) -> None:
        self._windows = tuple(windows)
        self._parts = parts
        self._units = units
        self._rates = {window.stream: ArrivalRate() for window in windows}
        # By stream: up to some instants, how many rows had come.
        self._instants: dict[str, Ints] = {}
        self._counts: dict[str, Ints] = {}

    def observe(self, streams: Mapping[str, StreamState]) -> None:
        """See how far the streams have come."""
        for name, rate in self._rates.items():
            state = streams.get(name)
            if state is None or state.first is None or state.newest is None:
                continue
            instants = self._instants.get(name, np.array([state.first]))
            counts = self._counts.get(name, np.array([0]))
            if state.newest <= instants[-1]:
                continue
            count = state.counts.accepted
            rate.observe(count - int(counts[-1]), state.newest - int(instants[-1]))
            # What lies before the largest window is forgotten.
            largest = max(window.rows for window in self._windows if window.stream == name)
            kept = max(0, int(np.searchsorted(counts, count - largest, side="right")) - 1)
            self._instants[name] = np.append(instants[kept:], state.newest)
            self._counts[name] = np.append(counts[kept:], count)

    @property
    def longest(self) -> int | None:
        """The time that a result can live, in microseconds; None if a rate is not known."""
        spans = []
        for window in self._windows:
            rate = self._rates[window.stream].per_microsecond
            if not rate:
                return None
            spans.append(max(1, round(window.rows / rate)))
        return min(spans, default=None)

    def deaths(self, rows: pa.Table, reached: int) -> Ints | None:
        """When results are likely to leave that are there at an instant; None if a rate is not known."""
        longest = self.longest
        if longest is None:
            return None
        born: Ints = rows.column(BORN).to_numpy()
        if self._parts > len(self._windows):
            # Other windows take results away, too; on average the oldest part has a share of its time left.
            return born + max(1, longest // self._parts)
        first: Ints | None = None
        for window in self._windows:
            arrived = born if self._parts == 1 else self._arrived(rows, window)
            guesses = guess_deaths(
                np.full(len(born), reached),
                window.rows - self._since(arrived, window.stream, reached),
                self._rates[window.stream],
                longest,
            )
            first = guesses if first is None else np.minimum(first, guesses)
        return first

    def _arrived(self, rows: pa.Table, window: Counted) -> Ints:
        """When the parts from a window arrived."""
        times: Ints = rows.column(ARRIVAL + window.qualifier).cast(pa.int64()).to_numpy()
        return times * self._units[window.stream]

    def _since(self, arrived: Ints, stream: str, reached: int) -> Floats:
        """About how many tuples of a stream came after some of them, up to an instant."""
        instants, counts = self._instants[stream], self._counts[stream]
        since: Floats = np.interp(reached, instants, counts) - np.interp(arrived, instants, counts)
        return since
