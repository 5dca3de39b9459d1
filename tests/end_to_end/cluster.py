"""A Spark cluster on this machine: a standalone master and workers, started and ended by a test.

The executors run a Python that has everything but sash, so whatever they know of it has been sent to them.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark
from tests.end_to_end.kit import wait_until

HOME = Path(pyspark.__file__).parent
# Small JVMs that do not spend the test in their optimising compiler.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass(frozen=True, slots=True)
class Cluster:
    master: str
    python: Path
    work: Path


@contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """A master and workers of one core each, on loopback and on ports that the system chooses.

    Each worker has an address and a temporary folder of its own, as if it was a machine of its own: Spark
    never starts a second attempt of a task on the host of the first.
    """
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, kind: str, host: str, *arguments: str) -> Path:
        log, temporary = folder / f"{name}.log", folder / f"tmp-{name}"
        temporary.mkdir()
        with open(log, "wb") as messages:
            process = subprocess.Popen(
                [HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{kind}",
                 "--host", host, "--port", "0", "--webui-port", "0", *arguments],
                cwd=folder,
                env={**_environment(folder), "TMPDIR": str(temporary)},
                stdin=subprocess.DEVNULL,
                stdout=messages,
                stderr=messages,
                start_new_session=True,
            )  # fmt: skip
        started.append(process)
        return log

    def said(log: Path, pattern: str) -> str:
        wait_until(lambda: re.search(pattern, log.read_text()) is not None, 60)
        found = re.search(pattern, log.read_text())
        assert found is not None
        return found.group()

    folder.mkdir(parents=True)
    try:
        master = said(start("master", "master.Master", "127.0.0.1"), r"spark://127\.0\.0\.1:\d+")
        logs = [
            start(f"worker{number}", "worker.Worker", f"127.0.0.{2 + number}",
                  "--cores", "1", "--memory", "1g", "--work-dir", str(folder / "work"), master)
            for number in range(workers)
        ]  # fmt: skip
        for log in logs:
            said(log, "Successfully registered with master")
        yield Cluster(master, _python_without_sash(folder), folder / "work")
    finally:
        # Workers first: they end their executors.
        for process in reversed(started):
            process.terminate()
        for process in reversed(started):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(20)


def _environment(folder: Path) -> dict[str, str]:
    hidden = ("PYTHON", "SPARK", "PYSPARK")
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(hidden)},
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-Dspark.master.rest.enabled=false",
        # Executors have it from their workers.
        "JAVA_TOOL_OPTIONS": QUICK,
    }


def _python_without_sash(folder: Path) -> Path:
    """The interpreter of this test with all its packages, as links, except ours. `-S` ignores .pth files."""
    packages = folder / "packages"
    packages.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if "sash" not in path.name:
            (packages / path.name).symlink_to(path)
    python = folder / "python"
    python.write_text(
        "#!/bin/sh\n"
        f'export PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}{packages}"\n'
        f'exec {shlex.quote(os.path.realpath(sys.executable))} -S "$@"\n'
    )
    python.chmod(0o755)
    return python
