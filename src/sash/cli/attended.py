"""Running a program while somebody watches, and letting them stop it.

The run has a thread of its own and the main thread waits, for two reasons: Python delivers signals to the
main thread only, and a SparkContext made in the main thread would take Ctrl-C for itself and kill the batch.

    first Ctrl-C (or SIGTERM)    `stop` is set: the run ends after the batch that it is in, if that ends soon
    two seconds later            the batch has been abandoned, or else the command leaves without it; exit
                                 code 128 + signal, and outputs end at the last commit
    second                       the same at once
    whoever reads our output     as the first Ctrl-C, but nothing is said and the exit code is that of
    leaves                       a closed pipe

A terminal that is closed (SIGHUP) is like Ctrl-C, unless the signal is ignored, as with nohup.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol, TypeVar

import typer

from sash.engine.stopping import LEAVE, Stop
from sash.errors import OutputClosed
from sash.files import has_reader

T = TypeVar("T")

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
POLL_SECONDS = 0.1


class Watcher(Protocol):
    def stopping(self) -> None:
        """The user asked to stop; the run ends after its batch."""


class _Signals:
    """Counts what arrives. The handler does nothing else: it may interrupt any line of the main thread."""

    def __init__(self) -> None:
        self.count = 0
        self.last = signal.SIGINT.value

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        self.count += 1
        self.last = number
        if self.count > 2:
            # Even the orderly way out is stuck.
            os._exit(128 + number)


@contextmanager
def _caught() -> Iterator[_Signals]:
    signals = _Signals()
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, signals) for number in heard}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def attend(work: Callable[[threading.Event], T], watcher: Watcher, printing: int | None = None) -> T:
    """Calls `work(stop)` in a thread; its result, or its exception.

    `printing` is the open file that is printed to: the work ends when nobody reads it any more.

    Raises typer.Exit(128 + signal) when the user does not want to wait for the batch.
    """
    stop = Stop()
    asked: float | None = None
    results: list[T] = []
    failures: list[BaseException] = []
    is_read = True

    def body() -> None:
        try:
            results.append(work(stop))
        except BaseException as error:
            failures.append(error)

    with _caught() as signals:
        # A daemon: after the second Ctrl-C nobody waits for it.
        thread = threading.Thread(target=body, name="sash-run", daemon=True)
        thread.start()
        # The thread itself is awaited, not its result: one that still lets go of Arrow or DuckDB objects
        # while the interpreter ends would abort the process.
        while thread.is_alive():
            thread.join(POLL_SECONDS)
            if signals.count and asked is None:
                asked = time.monotonic()
                stop.set()
                watcher.stopping()
            if is_read and printing is not None and not has_reader(printing):
                is_read, asked = False, asked or time.monotonic()
                stop.set()
            is_late = asked is not None and time.monotonic() - asked >= LEAVE
            has_left = (is_late or signals.count > 1) and stop.leave()
            if has_left or signals.count > 1:
                if is_read:
                    raise typer.Exit(128 + signals.last)
                break
    if failures:
        raise failures[0]
    if not is_read:
        raise OutputClosed("whoever read the output has left")
    if stop.has_abandoned:
        raise typer.Exit(128 + signals.last)
    return results[0]
