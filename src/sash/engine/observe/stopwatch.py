"""How long each part of something took."""

from __future__ import annotations

import time
from collections.abc import Callable


class Stopwatch:
    """Runs from the moment it is made; `now` is passed in by tests."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._began = self._last = now()
        self.laps: dict[str, float] = {}

    def lap(self, part: str) -> None:
        """The time since the last lap belongs to `part`."""
        moment = self._now()
        self.laps[part] = self.laps.get(part, 0.0) + moment - self._last
        self._last = moment

    @property
    def total(self) -> float:
        """Until the last lap."""
        return self._last - self._began
