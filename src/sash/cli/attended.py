"""Running a program while somebody watches, and letting them stop it.

The run has a thread of its own and the main thread waits, for two reasons: Python delivers signals to the
main thread only, and a SparkContext made in the main thread would take Ctrl-C for itself and kill the batch.

    first Ctrl-C (or SIGTERM)    `stop` is set: the run ends after the batch that it is in
    second                       the command leaves at once, exit code 128 + signal
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol, TypeVar

import typer

T = TypeVar("T")

SIGNALS = (signal.SIGINT, signal.SIGTERM)
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
    before = {number: signal.signal(number, signals) for number in SIGNALS}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def attend(work: Callable[[threading.Event], T], watcher: Watcher) -> T:
    """Calls `work(stop)` in a thread; its result, or its exception.

    Raises typer.Exit(128 + signal) when the user does not want to wait for the batch.
    """
    stop = threading.Event()
    results: list[T] = []
    failures: list[BaseException] = []

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
            if signals.count and not stop.is_set():
                stop.set()
                watcher.stopping()
            if signals.count > 1:
                raise typer.Exit(128 + signals.last)
    if failures:
        raise failures[0]
    return results[0]
