"""How a run ends before its input does: asked to stop, it ends with the batch under way, or without it.

    stop is set    the batch under way may take GRACE seconds to end, and is committed then
    after that     it is abandoned where somebody looks (between chunks, slices, answers): outputs end at the
                   last commit
    after LEAVE    whoever can wait no longer calls `Stop.leave` from another thread: outputs are cut back to
                   the last commit by force, and the process must end at once

Nothing that is abandoned has been committed, so a restart from a checkpoint does it again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

GRACE, LEAVE = 0.8, 1.6


class Abandoned(Exception):
    """The batch under way is given up. Not an error: the run that was asked to stop ends."""


class Look:
    """Called often while a batch is worked on: raises Abandoned when it has had its time.

    It does nothing before the first batch and after the last one (`leaving`): state is read as a whole.
    The time counts from when it was last called before the stop: where that is long ago there is none left.
    """

    def __init__(self, stop: threading.Event, now: Callable[[], float] = time.monotonic) -> None:
        self._stop = stop
        self._now = now
        self._before = now()
        self.is_on = False

    def __call__(self) -> None:
        if not self.is_on:
            return
        now = self._now()
        if not self._stop.is_set():
            self._before = now
        elif now - self._before >= GRACE:
            raise Abandoned


class Stop(threading.Event):
    """Asks a run to stop, and lets whoever asked leave without it."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._is_over = False
        self._leaving: Callable[[], None] | None = None
        # Whether the batch under way was given up.
        self.has_abandoned = False

    def prepare(self, leave: Callable[[], None]) -> None:
        with self._lock:
            self._leaving = leave

    def over(self) -> None:
        """No batch is under way any more: what is left to do is worth waiting for."""
        with self._lock:
            self._is_over = True

    def leave(self) -> bool:
        """Cut outputs back and be ready for the end of the process; False if it is better to wait."""
        with self._lock:
            if not self._is_over and self._leaving is not None:
                self._leaving()
            return not self._is_over


def on_leave(stop: threading.Event, leave: Callable[[], None]) -> None:
    """Whoever leaves from now on calls this first."""
    if isinstance(stop, Stop):
        stop.prepare(leave)


@contextmanager
def leaving(stop: threading.Event, look: Look, leave: Callable[[], None]) -> Iterator[None]:
    """Batches follow, which may be abandoned; `leave` makes outputs fit for the end of the process."""
    on_leave(stop, leave)
    look.is_on = True
    try:
        yield
    except Abandoned:
        if isinstance(stop, Stop):
            stop.has_abandoned = True
    else:
        look.is_on = False
        over(stop)


def over(stop: threading.Event) -> None:
    if isinstance(stop, Stop):
        stop.over()


def keep_on() -> None:
    """The look of who is never asked to stop."""
