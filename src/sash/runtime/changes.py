"""Other queries for a run that goes on: anybody asks; the run's own thread does it between two batches."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future

from sash.lang import Program


class Changes:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: list[tuple[Program, Callable[[], None], Future[None]]] = []
        self._is_closed = False

    def ask(self, program: Program, then: Callable[[], None]) -> bool:
        """Let the run go on with this program; raises why not. False if the run has ended meanwhile.

        `then` is called when it has been done, before the next batch.
        """
        done: Future[None] = Future()
        with self._lock:
            if self._is_closed:
                return False
            self._asked.append((program, then, done))
        try:
            done.result()
        except CancelledError:
            return False
        return True

    def carry_out(self, change: Callable[[Program], None]) -> None:
        """Do what has been asked; for the thread of the run."""
        with self._lock:
            asked, self._asked = self._asked, []
        for program, then, done in asked:
            try:
                change(program)
                then()
            except BaseException as failure:
                done.set_exception(failure)
            else:
                done.set_result(None)

    def close(self) -> None:
        """Nothing will be done any more."""
        with self._lock:
            self._is_closed = True
            for _, _, done in self._asked:
                done.cancel()
            self._asked.clear()
