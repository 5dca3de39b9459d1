"""Processes of `sash` that start at once: a server with its own hash seed imports everything and forks them.

`python -m sash.testing.forks` is such a server. It has one process at a time: a line of JSON says what it
does, one line back has its number, the next one how it ended. Whoever asks may kill it meanwhile.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sash.testing.faults import Fault, install


class ForkServer:
    """Starts `sash ARGUMENTS` in processes with one hash seed."""

    def __init__(self, hash_seed: int, temporary: Path) -> None:
        self.hash_seed = hash_seed
        self._server = subprocess.Popen(
            [sys.executable, "-m", __name__],
            env={**os.environ, "PYTHONHASHSEED": str(hash_seed), "TMPDIR": str(temporary)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, arguments: Sequence[str], folder: Path, fault: Fault | None = None) -> int:
        """Start a process in a folder; gives its number. It writes to the file `log` there."""
        request = {
            "arguments": list(arguments),
            "folder": str(folder),
            "fault": None if fault is None else fault.to_json(),
        }
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return int(self._read())

    def wait(self) -> int:
        """How the process ended: its exit code, or minus the number of the signal."""
        return int(self._read())

    def _read(self) -> str:
        assert self._server.stdout is not None
        line = self._server.stdout.readline()
        if not line:
            raise RuntimeError("a server of processes has died")
        return line

    def close(self) -> None:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.close()
        self._server.wait()
        self._server.stdout.close()


def _serve() -> None:
    # What a run needs is loaded before the forks.
    import sash.cli.main
    import sash.runtime.inline
    import sash.runtime.spark.pipeline  # noqa: F401

    for line in sys.stdin:
        request = json.loads(line)
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            _run(request)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run(request: Mapping[str, Any]) -> None:
    """Be a process of its own, to the end."""
    from sash.cli.main import main

    os.setsid()
    os.chdir(request["folder"])
    nowhere = os.open(os.devnull, os.O_RDONLY)
    log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    for handle, number in ((nowhere, 0), (log, 1), (log, 2)):
        os.dup2(handle, number)
    sys.argv = ["sash", *request["arguments"]]
    if request["fault"] is not None:
        install(Fault(**request["fault"]), Path(request["folder"]))
    code = 1
    try:
        main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
