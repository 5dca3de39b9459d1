"""The Python workers of a run on Spark, and their end."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.end_to_end.kit import Started


def kill_one_at_work(run: Started) -> None:
    """Kill the first worker that is seen in the middle of something."""
    before: dict[int, int] = {}
    deadline = time.monotonic() + 30
    found = workers(run)
    while time.monotonic() < deadline:
        for worker in found:
            ticks = ticks_of(worker)
            if ticks > before.setdefault(worker, ticks):
                os.kill(worker, signal.SIGKILL)
                return
        time.sleep(0.001)
    pytest.fail("no worker has worked")


def workers(run: Started) -> list[int]:
    """The processes that tasks run in: forks of a daemon that the JVM has started."""
    parents = {}
    for process in run.survivors():
        with suppress(OSError):
            if "-m\0sash.runtime.spark.daemon" in Path(f"/proc/{process}/cmdline").read_text():
                parents[process] = int(status(process)[1])
    return [process for process, parent in parents.items() if parent in parents]


def ticks_of(process: int) -> int:
    """How long a process has used the processor."""
    try:
        return sum(map(int, status(process)[11:13]))
    except OSError:
        return 0


def status(process: int) -> list[str]:
    # The name of the program is in parentheses and may hold anything.
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
