"""A Python worker of Spark that is killed in the middle of its task costs time and changes nothing."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.end_to_end.kit import Started, committed, sash
from tests.end_to_end.test_kill_and_interrupt import PROGRAM, answers

ROWS, BATCH = 2_400_000, 200_000


def test_workers_killed_at_work_change_nothing_in_the_output(tmp_path: Path) -> None:
    text = PROGRAM.replace("rate = 20,", "rate = 10000,")
    whole, disturbed = tmp_path / "whole.cql", tmp_path / "disturbed.cql"
    whole.write_text(text.format(out="whole", rows=ROWS))
    disturbed.write_text(text.format(out="out", rows=ROWS))
    assert sash("run", whole, "--runtime", "inline", "--quiet", cwd=tmp_path).code == 0
    chance = random.Random(3)
    checkpoint = tmp_path / "state"
    run = Started(
        "run", disturbed, "--master", "local[2]", "--checkpoint", checkpoint, "--batch-rows", str(BATCH),
        cwd=tmp_path,
    )  # fmt: skip
    crashes = 0
    for target in range(0, 9):
        run.until(lambda: committed(checkpoint) >= target)  # noqa: B023
        assert run.is_running, run.end()
        time.sleep(chance.random() * 0.2)
        kill_one_at_work(run)
        # Some are between two tasks when they die, which is as good and not the point.
        crashes = (checkpoint / "spark.log").read_text().count("Lost task")
        if crashes >= 2:
            break
    done = run.end()
    assert (done.code, done.err) == (0, ""), done.out
    assert crashes > 0
    assert committed(checkpoint) == ROWS // BATCH - 1
    assert answers(tmp_path / "out") == answers(tmp_path / "whole")


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
