"""A run in a thread of its own, for whoever wants to do something else meanwhile.

The thread ends with the input, with `stop`, or with a failure, which is kept for whoever asks. It is a
daemon: a process that ends without a word does not hang, and `close`, which the owner registers for that
case, lets the batch under way finish first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from sash.engine.control_channel import ControlChannel
from sash.engine.ingest.relations import Given
from sash.engine.observe.report import Monitor, Summary
from sash.engine.program_check import refuse_what_cannot_run
from sash.engine.reads.one_time_query import OnceAnswer, look
from sash.lang import Program
from sash.runtime.run import run_program
from sash.transactions.events import Isolation

Wake = Callable[[], None]


class Live:
    """One run of a program. `wake` is called when the run has ended, and when it is asked to stop."""

    def __init__(
        self,
        program: Program,
        *,
        base_dir: Path,
        options: Mapping[str, Any],
        monitor: Monitor,
        stop: threading.Event,
        wake: Wake,
    ) -> None:
        self.program = program
        self.summary: Summary | None = None
        self.failure: BaseException | None = None
        self._base_dir = base_dir
        self._options = dict(options)
        self._monitor = monitor
        self._wake = wake
        self._stop = stop
        self._control = ControlChannel()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sash-run", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return not self._ended.is_set()

    def stop(self) -> None:
        """Ask the run to end after the batch under way; returns at once."""
        self._stop.set()
        self._wake()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; False if it has not come in time."""
        # A `join` that Ctrl-C interrupts takes a living thread for a dead one, hence the event.
        if not self._ended.wait(timeout):
            return False
        # The thread itself is awaited, too: one that still lets go of Arrow or DuckDB objects while the
        # interpreter ends would abort the process.
        self._thread.join()
        return True

    def close(self) -> None:
        """Stop, and wait until nothing is left running."""
        self.stop()
        # Garbage may be collected in any thread, so in that of the run, too.
        if threading.current_thread() is not self._thread:
            self.wait()

    def change(
        self, program: Program, done: Callable[[], None], waiting: AbstractContextManager[None]
    ) -> bool:
        """Go on with other queries from the next batch, before which `done` is called in the run's thread.

        False if the run has ended meanwhile. `waiting` is entered while this thread waits for it.
        """
        refuse_what_cannot_run(program)
        return self._control.change(program, done, waiting)

    def ask(
        self, program: Program, isolation: Isolation | None = None, given: Given | None = None
    ) -> OnceAnswer:
        """Answer the one-time query of a program over the windows as they are."""
        return look(program, self._control.registry, self._base_dir, isolation, given)

    def _run(self) -> None:
        try:
            self.summary = run_program(
                self.program,
                base_dir=self._base_dir,
                monitor=self._monitor,
                stop=self._stop,
                control=self._control,
                **self._options,
            )
        except BaseException as failure:
            self.failure = failure
        finally:
            self._control.close()
            self._ended.set()
            self._wake()
