"""The holder of a partition: a process beside Spark's workers that keeps the state of operators in memory.

Spark gives the task of a partition to whatever worker is free, so a worker would have to read all of a
partition's state for nearly every batch. A holder has it: a task sends it the messages of its partition
through a local socket and gets back what the operators give. The truth is in the state files all the same: a
holder that is gone, or that has the state of another batch, is replaced, or reads the files, and nothing is
lost. There is one holder for each partition on each machine that has run a task of it.

Holders are forked from a process that has everything loaded, as Spark's own workers are. Both end with their
run: when its file is removed or not touched any more, and on the driver's own machine when the driver is
gone. So none is left behind, however the run ends, and whatever becomes of Spark's workers.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sash.errors import RunError, SashError
from sash.operators.cut import Cut
from sash.runtime.cell import StateFile
from sash.runtime.divided import DividedPlan, DividedSynopses
from sash.runtime.files import told
from sash.runtime.partitions import Message, Partition, Turn

Head = tuple[int, int, int, int, int, str]
"""Everything of a message but its payload."""
_WORD = 8
# How often a holder looks whether it is still needed, in seconds.
_LOOK = 0.5
# How often a run shows that it is alive, and after which time without a sign it is not, in seconds.
BEAT, _SILENCE = 2.0, 60.0
# How often a holder is replaced within a batch.
_REPLACED = 3
# How long a new holder may take until it answers, in seconds.
_START = 60.0


@dataclass(frozen=True, slots=True)
class Run:
    """What all tasks of a run know: where its operators are, and their state.

    `alive` is a file that is there, and touched, as long as the run; `driver` the process of the run, None if
    tasks may be on other machines; `cuts` a folder with the operators of each part and the plans of synopses
    in partitions, `panes` that with the state of the latter.
    """

    id: str
    cuts: Path
    partitions: int
    directory: Path
    panes: Path
    alive: Path
    durable: bool
    driver: int | None
    # Where large payloads are posted; None: processes of a run may be on several machines.
    mail: Path | None

    @property
    def sockets(self) -> Path:
        """Where holders can be reached; runs of one process share their nursery."""
        return Path(tempfile.gettempdir()) / f"sash-{os.getuid()}-{self.driver or self.id}"

    def watch(self, gone: Callable[[], None]) -> None:
        """Wait until the run is no more."""
        seen, since = 0.0, time.monotonic()
        while self.driver is None or _is_there(self.driver):
            try:
                touched = self.alive.stat().st_mtime
            except OSError:
                break
            if touched != seen:
                seen, since = touched, time.monotonic()
            if time.monotonic() - since > _SILENCE:
                break
            time.sleep(_LOOK)
        gone()

    def cut_of(self, part: int) -> Cut:
        path = self.cuts / str(part)
        with told(path, "read"):
            cut: Cut = pickle.loads(path.read_bytes())
        return cut

    def divided_file(self, version: int) -> Path:
        """Where the plan of synopses in partitions is."""
        return self.cuts / f"synopses-{version}"

    def divided_plan(self, version: int) -> DividedPlan:
        path = self.divided_file(version)
        with told(path, "read"):
            plan: DividedPlan = pickle.loads(path.read_bytes())
        return plan

    def mailbox(self, batch: int) -> Path | None:
        """Where the payloads of a batch are posted; they are removed when it is done."""
        if self.mail is None:
            return None
        folder = self.mail / str(batch)
        with told(folder, "make"):
            folder.mkdir(exist_ok=True)
        return folder


@dataclass(frozen=True, slots=True)
class Request:
    stage: int
    turn: Turn
    files: Mapping[int, tuple[StateFile, ...]]
    messages: tuple[Head, ...]


# ---------------------------------------------------------------- the task's side


def ask(run: Run, partition: int, request: Request, payloads: Sequence[Any]) -> list[Message]:
    """Let the holder of a partition work on a batch; a holder that has died is replaced, a few times."""
    for is_last in (*[False] * _REPLACED, True):
        try:
            with _connected(run, partition) as connection:
                _send(connection, request, payloads)
                answer, parts = _receive(connection)
        except (OSError, EOFError) as failure:
            if is_last:
                raise RunError(
                    f"the process that holds the state of partition {partition} ended",
                    got=str(failure),
                    hint="it may have run out of memory: use more partitions, or smaller windows",
                    id="holder-ended",
                ) from failure
            continue
        if isinstance(answer, BaseException):
            raise answer
        return _messages(answer, parts)
    raise AssertionError


@contextlib.contextmanager
def _connected(run: Run, partition: int) -> Iterator[socket.socket]:
    directory = run.sockets
    directory.mkdir(mode=0o700, exist_ok=True)
    path = directory / f"{run.id}-{partition}"
    # Two tasks must not both start a holder.
    with open(directory / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        connection = _connect(path)
        if connection is None:
            connection = _forked(run, partition, path)
    with connection:
        yield connection


def _connect(path: Path) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        return None
    return connection


def _forked(run: Run, partition: int, path: Path) -> socket.socket:
    """A new holder: the nursery is asked for it, and started if there is none."""
    path.unlink(missing_ok=True)
    nursery = path.with_name("nursery")
    connection = _connect(nursery)
    if connection is None:
        nursery.unlink(missing_ok=True)
        paths = os.pathsep.join(entry for entry in sys.path if entry)
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(nursery)],
            stdin=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": paths},
            start_new_session=True,
        )
        assert process.stdin is not None
        with process.stdin as given:
            pickle.dump(run, given)
        connection = _waited_for(nursery)
    with connection:
        _send(connection, (run, partition, str(path)), [])
    return _waited_for(path)


def _waited_for(path: Path) -> socket.socket:
    end = time.monotonic() + _START
    while time.monotonic() < end:
        connection = _connect(path)
        if connection is not None:
            return connection
        time.sleep(0.005)
    raise EOFError("it did not start")


# ---------------------------------------------------------------- the nursery


def main(arguments: Sequence[str]) -> None:
    """Fork a holder for everybody who asks, as long as the driver is there, or else the run."""
    path = Path(arguments[0])
    first: Run = pickle.load(sys.stdin.buffer)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(_LOOK)
        # No thread may run here when a holder is forked, so it waits and looks by turns.
        while _is_there(first.driver) if first.driver is not None else first.alive.exists():
            with contextlib.suppress(TimeoutError, EOFError, OSError):
                connection, _ = listener.accept()
                with connection:
                    (run, partition, place), _ = _receive(connection)
                if os.fork() == 0:
                    try:
                        listener.close()
                        hold(run, partition, Path(place))
                    finally:
                        os._exit(1)
    shutil.rmtree(path.parent, ignore_errors=True)


# ---------------------------------------------------------------- the holder's side


def hold(run: Run, partition: int, path: Path) -> None:
    """Answer tasks until the run has ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def gone() -> None:
        path.unlink(missing_ok=True)
        os._exit(0)

    threading.Thread(target=run.watch, args=(gone,), daemon=True).start()
    synopses = DividedSynopses(run.divided_plan, partition, run.partitions, run.panes, durable=run.durable)
    held = Partition(run.cut_of, synopses, partition, run.partitions, run.directory, durable=run.durable)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()
        while True:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError, EOFError):
                _serve(run, held, connection)


def _is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def _serve(run: Run, held: Partition, connection: socket.socket) -> None:
    request, parts = _receive(connection)
    messages = _messages(request.messages, parts)
    try:
        given = held.run(request.stage, request.turn, messages, request.files)
        mailbox = run.mailbox(request.turn.batch)
        posted = [message.posted(mailbox) for message in given]
    except SashError as failure:
        _send(connection, failure, [])
        return
    except Exception as failure:
        _send(connection, RunError(f"an operator failed: {failure}"), [])
        raise
    _send(connection, heads_of(posted), [message.payload for message in posted])


def heads_of(messages: Sequence[Message]) -> tuple[Head, ...]:
    return tuple((m.part, m.stage, m.target, m.link, m.rank, m.path) for m in messages)


def _messages(heads: Sequence[Head], payloads: Sequence[Any]) -> list[Message]:
    return [
        Message(part, stage, target, link, rank, payload, path)
        for (part, stage, target, link, rank, path), payload in zip(heads, payloads, strict=True)
    ]


# ---------------------------------------------------------------- frames


def _send(connection: socket.socket, head: Any, parts: Sequence[Any]) -> None:
    """A pickled head with the sizes of the parts, then the parts."""
    content = pickle.dumps((head, [len(part) for part in parts]), 5)
    connection.sendall(len(content).to_bytes(_WORD, "little"))
    connection.sendall(content)
    for part in parts:
        connection.sendall(part)


def _receive(connection: socket.socket) -> tuple[Any, list[memoryview]]:
    size = int.from_bytes(_read(connection, _WORD), "little")
    head, sizes = pickle.loads(_read(connection, size))
    return head, [_read(connection, length) for length in sizes]


def _read(connection: socket.socket, size: int) -> memoryview:
    content = memoryview(bytearray(size))
    at = 0
    while at < size:
        count = connection.recv_into(content[at:])
        if not count:
            raise EOFError("the connection was closed")
        at += count
    return content


if __name__ == "__main__":
    main(sys.argv[1:])
