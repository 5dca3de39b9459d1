"""How long results of windows of rows are likely to live (000, section 4.2).

A tuple leaves a window of n rows when n more have come, so after about n / rate. Of a result of k windows
the oldest part is somewhere in its window; on average it has 1/k of that time left. The rate is that of the
recent past; a wrong guess costs time, not truth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sash.archive.estimates import ArrivalRate
from sash.plan.lifetimes import Counted
from sash.runtime.clock import StreamState


class ExpectedLives:
    """`parts` is how many windows a result has its parts from."""

    def __init__(self, windows: Sequence[Counted], parts: int) -> None:
        self._windows = tuple(windows)
        self._parts = parts
        self._rates = {window.stream: ArrivalRate() for window in windows}
        # By stream: the rows that were counted, and up to which instant.
        self._counted: dict[str, tuple[int, int]] = {}

    def observe(self, streams: Mapping[str, StreamState]) -> None:
        """See how far the streams have come."""
        for name, rate in self._rates.items():
            state = streams.get(name)
            if state is None or state.first is None or state.newest is None:
                continue
            rows, instant = self._counted.get(name, (0, state.first))
            rate.observe(state.counts.accepted - rows, state.newest - instant)
            self._counted[name] = state.counts.accepted, max(instant, state.newest)

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

    @property
    def usual(self) -> int | None:
        """The time that a result lives on average."""
        longest = self.longest
        return None if longest is None else max(1, longest // self._parts)
