"""The control channel of a run: where others ask for something while it goes on.

Anybody may ask for other queries, which the run's own thread takes in between two batches, or have a look at
what is known after the last commit, for which nobody waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager
from typing import Protocol

from sash.engine.reads.snapshot_registry import SnapshotRegistry
from sash.engine.stopping import Abandoned
from sash.lang import Program


class Served(Protocol):
    """The run, as the control channel sees it."""

    @property
    def registry(self) -> SnapshotRegistry | None: ...

    def change(self, program: Program) -> None: ...


class ControlChannel:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: list[tuple[Program, Callable[[], None], Future[None]]] = []
        self._is_closed = False
        self._run: Served | None = None

    def change(
        self, program: Program, then: Callable[[], None], waiting: AbstractContextManager[None]
    ) -> bool:
        """Let the run go on with this program; raises why not. False if the run has ended meanwhile.

        `then` is called when it has been done, before the next batch. `waiting` is entered for as long as
        this thread waits.
        """
        done: Future[None] = Future()
        with self._lock:
            if self._is_closed:
                return False
            self._asked.append((program, then, done))
        try:
            with waiting:
                done.result()
        except CancelledError:
            return False
        return True

    @property
    def registry(self) -> SnapshotRegistry | None:
        """The committed states of the run; None before it has begun."""
        return None if self._run is None else self._run.registry

    def serve(self, run: Served) -> None:
        """Do what has been asked; for the thread of the run, between two batches."""
        self._run = run
        with self._lock:
            asked, self._asked = self._asked, []
        for program, then, done in asked:
            try:
                run.change(program)
                then()
            except Abandoned:
                # The run ends: nothing will be done any more.
                for _, _, waiting in asked:
                    waiting.cancel()
                raise
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
