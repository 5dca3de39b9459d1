"""When the next batch begins, and how much it reads: a trigger for live streams, and a bound of time.

A batch of live streams begins a trigger after the one before it, so that a stream of few rows does not make
a batch of each. Nobody waits while there is more to read than a batch takes, or where rows do not come with
time.

A batch should end within `--max-batch-time`: the rows that it reads follow what the last ones took. Answers
depend on neither.
"""

from __future__ import annotations

import math

# What the first batch reads where nobody says how much: nothing is known of its queries yet.
FIRST_ROWS = 1 << 17
# A batch reads at most so many times as much as the one before it, or as small a part.
_STEP = 4
# The first batch of a process also compiles and loads: it counts only if it took so many times too long.
_WARM_UP = 3


class BatchSize:
    """How many rows the next batch may read: at most `most`, and so many as `seconds` suffice for."""

    def __init__(self, most: int, seconds: float = math.inf, first: int | None = None) -> None:
        self._most = most
        self._seconds = seconds or math.inf
        self.rows = most if math.isinf(self._seconds) else min(most, first or most)
        # Batches with fewer rows than this have taken as long: the time goes elsewhere.
        self._least, self._cost = 1, math.inf
        self._before: tuple[int, float] | None = None

    def part(self, rows: int) -> int:
        """Of so many rows, meant for a batch of `most`, those for the next batch."""
        return max(1, rows * self.rows // self._most)

    def took(self, rows: int, seconds: float) -> None:
        """Learn from a batch that read so many rows."""
        before, self._before = self._before, (rows, seconds)
        if rows <= 0 or math.isinf(self._seconds):
            return
        wanted = int(rows * self._seconds / max(seconds, 1e-9))
        if seconds > self._seconds:
            if before is None and seconds < _WARM_UP * self._seconds:
                return
            if seconds > 2 * self._cost:
                # It has become much slower than when shrinking was of no use.
                self._least, self._cost = 1, math.inf
            if before is not None and 2 * rows <= before[0] and seconds > 0.8 * before[1]:
                self._least, self._cost = before[0], seconds
            smaller = max(wanted, min(rows, self.rows) // _STEP, self._least, 1)
            self.rows = min(self._most, smaller)
        elif 2 * rows >= self.rows and 2 * seconds < self._seconds:
            # Not towards the bound itself: the next rows may cost more.
            self.rows = min(self._most, max(self.rows, min(_STEP * self.rows, wanted // 2)))


class Trigger:
    """Says when it is time to look for more; `seconds` apart, unless there is more to read at once."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self._looked = -math.inf
        self._has_more = True

    def wait(self, now: float) -> float:
        """For how long nobody needs to look."""
        return 0.0 if self._has_more else max(0.0, self._looked + self.seconds - now)

    def looked(self, now: float, *, has_more: bool) -> None:
        self._looked, self._has_more = now, has_more
