"""What the tests of the command line share: start `sash` as a user does, stop it, read what it left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SASH = str(Path(sys.executable).parent / "sash")
PATIENCE = 120.0
MARK = "SASH_TEST_MARK"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str


def sash(*arguments: str | Path, cwd: Path, env: Mapping[str, str] | None = None, stdin: str = "") -> Outcome:
    done = subprocess.run(
        [SASH, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


class Started:
    """A `sash` that runs meanwhile, in a process group of its own like a job of a terminal."""

    def __init__(self, *arguments: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> None:
        self.mark = uuid.uuid4().hex
        self._logs = cwd / f"out-{self.mark}", cwd / f"err-{self.mark}"
        with open(self._logs[0], "wb") as out, open(self._logs[1], "wb") as err:
            self._process = subprocess.Popen(
                [SASH, *map(str, arguments)],
                cwd=cwd,
                env={**os.environ, **(env or {}), MARK: self.mark},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_running:
            self.send_to_group(signal.SIGKILL)
            self._process.wait()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something to become true, or for the end of the process."""
        wait_until(lambda: condition() or not self.is_running)

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def send_to_group(self, number: signal.Signals) -> None:
        """What a terminal does with Ctrl-C."""
        os.killpg(self._process.pid, number)

    def end(self, seconds: float = PATIENCE) -> Outcome:
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            # Who has no patience left leaves nothing behind.
            self.send_to_group(signal.SIGKILL)
            raise
        return Outcome(code, self._logs[0].read_text(), self._logs[1].read_text())

    def survivors(self) -> list[int]:
        """Processes that this one has started, itself included, that are still there."""
        wanted = f"{MARK}={self.mark}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    # A process that has ended and that nobody has asked about has an empty environment.
                    if wanted in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
                except OSError:
                    continue
        return found

    @property
    def has_jvm(self) -> bool:
        return any("org.apache.spark.deploy.SparkSubmit" in _command(process) for process in self.survivors())


def _command(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text()
    except OSError:
        return ""


def wait_until(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.01)


def committed(checkpoint: Path) -> int:
    """The number of the last batch that a checkpoint holds, -1 for none."""
    try:
        return int(json.loads((checkpoint / "manifest.json").read_text())["batch"])
    except FileNotFoundError:
        return -1


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def sorted_within_instants(path: Path) -> list[str]:
    """The lines of a JSON lines file; their order within an instant is free, that of instants is not."""
    lines = path.read_text().splitlines(keepends=True)
    assert all(line.endswith("\n") for line in lines), "whole rows only"
    keyed = [(json.loads(line)["ts"], line) for line in lines]
    assert [ts for ts, _ in keyed] == sorted(ts for ts, _ in keyed)
    return [line for _, line in sorted(keyed)]
