"""The Python workers of a run on Spark, and their end."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from tests.end_to_end.kit import Started


def kill_in_their_tasks(run: Started) -> None:
    """Kill the workers while they have tasks: one that is held still is given its task and cannot end it."""
    run.until(lambda: workers(run) != [])
    held = workers(run)
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for worker in held:
            with suppress(ProcessLookupError):
                os.kill(worker, number)
        time.sleep(0.5)


def workers(run: Started) -> list[int]:
    """The processes that tasks run in: forks of a daemon that the JVM has started."""
    parents = {}
    for process in run.survivors():
        with suppress(OSError):
            if "-m\0sash.runtime.spark.daemon" in Path(f"/proc/{process}/cmdline").read_text():
                parents[process] = int(status(process)[1])
    return [process for process, parent in parents.items() if parent in parents]


def status(process: int) -> list[str]:
    # The name of the program is in parentheses and may hold anything.
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
