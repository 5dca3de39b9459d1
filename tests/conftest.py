"""What all tests share: Hypothesis runs the same examples every time, and as many as a test run affords.

`HYPOTHESIS_PROFILE=thorough` looks longer and at new examples. Files of tests lie in memory where there is
room; `TMPDIR` puts them elsewhere.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

settings.register_profile(
    "sash",
    derandomize=True,
    deadline=None,
    max_examples=60,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "thorough", parent=settings.get_profile("sash"), derandomize=False, max_examples=1_000
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "sash"))

MEMORY = Path("/dev/shm")
ROOM = 4 << 30


def keep_files_in_memory() -> None:
    """Runs commit every batch, and waiting for a disk is most of the time of a run of thirty rows."""
    if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)


def hear_interrupts() -> None:
    """What a shell starts in the background ignores Ctrl-C, and so would all programs that tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


keep_files_in_memory()
hear_interrupts()


TESTS = Path(__file__).parent
# The tests on Spark are one piece of minutes. Those of the command line wait for processes and for time to
# pass, those of the oracle never do: their files take turns. Many small files even out the end.
FIRST, IN_TURNS = "spark", ("end_to_end", "oracle")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files are dealt out in this order: what takes long first, and what waits beside what computes."""
    order: dict[Path, tuple[int, int]] = {}
    passed: Counter[str] = Counter()
    for path in dict.fromkeys(item.path for item in items):
        # Those of the experiments lie beside them.
        folder = path.relative_to(TESTS).parts[0] if path.is_relative_to(TESTS) else ""
        order[path] = (0, 0) if folder == FIRST else (1, passed[folder]) if folder in IN_TURNS else (2, 0)
        passed[folder] += 1
    items.sort(key=lambda item: order[item.path])


class FileByFile(LoadScopeScheduling):  # type: ignore[misc]
    """A file's tests run in one process: kernels are compiled, fixtures made and Spark is started once."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::")[0]
        return "spark" if file.startswith("tests/spark/") else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FileByFile:
    return FileByFile(config, log)
