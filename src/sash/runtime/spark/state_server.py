"""The holder of a partition: a process beside Spark's workers that keeps the state of operators in memory.

Spark gives the task of a partition to whatever worker is free, so a worker would have to read all of a
partition's state for nearly every batch. A holder has it: a task sends it the messages of its partition
through a local socket and gets back what the operators give. The truth is in the state files all the same: a
holder that is gone, or that has the state of another batch, is replaced, or reads the files, and nothing is
lost. There is one holder for each partition on each machine that has run a task of it.

Holders are forked from a process that has everything loaded, as Spark's own workers are. Both end with their
run: when its file is removed or not touched any more, and on the driver's own machine when the driver is
gone. So none is left behind, however the run ends, and whatever becomes of Spark's workers.

Tasks and holders meet as `peers.py` says, and what they exchange is data. A holder builds its operators
itself, from plans that it asks the task for; the task has them from Spark, as it has the secret of the run.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sash.engine.continuous.continuous import OperatorPlan
from sash.engine.continuous.partitions import Message, Partition, Turn
from sash.engine.durability.codec import Codec
from sash.engine.durability.files import translate_os_errors
from sash.engine.durability.operator_state import StateFile
from sash.engine.periodic.partitioned import PartitionedPlan, PartitionedSynopses
from sash.errors import RunError, SashError
from sash.operators.stage_planner import StagePlan
from sash.runtime.spark.peers import (
    accept,
    connect,
    entered,
    listening,
    make_folder,
    meet,
    receive,
    secret_name,
    send,
)

Head = tuple[int, int, int, int, int, str]
"""Everything of a message but its payload."""
# How often a holder looks whether it is still needed, in seconds.
_LOOK = 0.5
# How often a run shows that it is alive, and after which time without a sign it is not, in seconds.
BEAT, _SILENCE = 2.0, 60.0
# How often a holder is replaced within a batch.
_REPLACED = 3
# How long a new holder may take until it answers, in seconds.
_START = 60.0


class SignOfLife:
    """Whether a run that may be on another machine is alive: its file is there, and touched often enough."""

    def __init__(self, alive: Path, now: Callable[[], float] = time.monotonic) -> None:
        self._alive = alive
        self._now = now
        self._touched, self._since = 0.0, now()

    def __call__(self) -> bool:
        try:
            touched = self._alive.stat().st_mtime
        except OSError:
            return False
        if touched != self._touched:
            self._touched, self._since = touched, self._now()
        return self._now() - self._since <= _SILENCE


@dataclass(frozen=True, slots=True)
class Run:
    """What all tasks of a run know: who it is, and where state is.

    `alive` is a file that is there, and touched, as long as the run; `driver` the process of the run, None if
    tasks may be on other machines; `panes` a folder with the state of synopses in partitions. Only who knows
    the `secret` may take part. `folder` has the sockets of its holders, `nursery` that of the process which
    they are forked from, which runs of one process share; None: there is one for both on each machine.
    """

    id: str
    partitions: int
    directory: Path
    panes: Path
    alive: Path
    durable: bool
    driver: int | None
    # Where large payloads are posted; None: processes of a run may be on several machines.
    mail: Path | None
    folder: Path | None
    nursery: Path | None
    secret: str = field(repr=False)

    @property
    def sockets(self) -> Path:
        return self.folder or self._folder_here

    @property
    def nurseries(self) -> Path:
        return self.nursery or self._folder_here

    @property
    def _folder_here(self) -> Path:
        """A folder on this machine that nobody can have made who is not of the run."""
        folder = Path(tempfile.gettempdir()) / f"sash-{secret_name(self.secret)}"
        make_folder(folder)
        return folder

    def watch(self, gone: Callable[[], None]) -> None:
        """Wait until the run is no more."""
        shows = SignOfLife(self.alive)
        while (self.driver is None or _is_there(self.driver)) and shows():
            time.sleep(_LOOK)
        gone()

    def mailbox(self, batch: int) -> Path | None:
        """Where the payloads of a batch are posted; they are removed when it is done."""
        if self.mail is None:
            return None
        folder = self.mail / str(batch)
        with translate_os_errors(folder, "make"):
            folder.mkdir(exist_ok=True)
        return folder


@dataclass(frozen=True, slots=True)
class Request:
    """A task's: take part in a batch. The payloads of the messages go with it."""

    stage: int
    turn: Turn
    files: Mapping[int, tuple[StateFile, ...]]
    messages: tuple[Head, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """A holder's: what it gives, or why it gives nothing. The payloads of the messages go with it."""

    messages: tuple[Head, ...] = ()
    failure: SashError | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """A holder's: the plan of a part, or (without a part) a version of that of synopses in partitions."""

    part: int | None
    version: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """A task's: the plan that is wanted goes with it."""


@dataclass(frozen=True, slots=True)
class Fork:
    """A task's to the nursery: a holder is wanted, who listens at `path`."""

    run: Run
    partition: int
    path: Path


CODEC = Codec(Request, Answer, Wanted, Plan, Fork)
PLANS = Codec(OperatorPlan, PartitionedPlan)
Plans = Callable[[Wanted], bytes]
"""Gives the plan that a holder wants, as `PLANS` writes it."""


# ---------------------------------------------------------------- the task's side


def ask(run: Run, partition: int, request: Request, payloads: Sequence[Any], plans: Plans) -> list[Message]:
    """Let the holder of a partition work on a batch; a holder that has died is replaced, a few times."""
    for is_last in (*[False] * _REPLACED, True):
        try:
            with _connected(run, partition) as connection:
                answer, parts = _asked(connection, request, payloads, plans)
        except (OSError, EOFError) as failure:
            if is_last:
                raise RunError(
                    f"the process that holds the state of partition {partition} ended",
                    got=str(failure),
                    hint="it may have run out of memory: use more partitions, or smaller windows",
                    id="holder-ended",
                ) from failure
            continue
        if answer.failure is not None:
            raise answer.failure
        return _messages(answer.messages, parts)
    raise AssertionError


def _asked(
    connection: socket.socket, request: Request, payloads: Sequence[Any], plans: Plans
) -> tuple[Answer, list[memoryview]]:
    send(connection, CODEC, request, payloads)
    while True:
        answer, parts = receive(connection, CODEC, Answer, Wanted)
        if isinstance(answer, Answer):
            return answer, parts
        send(connection, CODEC, Plan(), [plans(answer)])


@contextlib.contextmanager
def _connected(run: Run, partition: int) -> Iterator[socket.socket]:
    directory = run.sockets
    path = directory / f"{run.id}-{partition}"
    # Two tasks must not both start a holder.
    with _locked(directory, "lock"):
        connection = connect(path)
        if connection is None:
            connection = _forked(run, partition, path)
    with connection:
        meet(connection, run.secret)
        yield connection


@contextlib.contextmanager
def _locked(directory: Path, name: str) -> Iterator[None]:
    with entered(directory) as folder:
        lock = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=folder)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def _forked(run: Run, partition: int, path: Path) -> socket.socket:
    """A new holder: the nursery is asked for it, and started if there is none."""
    path.unlink(missing_ok=True)
    place = run.nurseries / "nursery"
    with _locked(place.parent, "nursery-lock"):
        connection = connect(place)
        if connection is None:
            place.unlink(missing_ok=True)
            _start_nursery(run, place)
            connection = _waited_for(place)
    with connection:
        meet(connection, run.secret)
        send(connection, CODEC, Fork(replace(run, secret=""), partition, path))
    return _waited_for(path)


def _start_nursery(run: Run, place: Path) -> None:
    """What it is told it reads from a pipe that nobody else has."""
    paths = os.pathsep.join(entry for entry in sys.path if entry)
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, str(place)],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": paths},
        start_new_session=True,
    )
    assert process.stdin is not None
    with process.stdin as given:
        told = {"secret": run.secret, "driver": run.driver, "alive": str(run.alive)}
        given.write(json.dumps(told).encode())


def _waited_for(path: Path) -> socket.socket:
    end = time.monotonic() + _START
    while time.monotonic() < end:
        connection = connect(path)
        if connection is not None:
            return connection
        time.sleep(0.005)
    raise EOFError("it did not start")


# ---------------------------------------------------------------- the nursery


def main(arguments: Sequence[str]) -> None:
    """Fork a holder for everybody who asks, as long as the driver is there, or else the run."""
    path = Path(arguments[0])
    first = json.load(sys.stdin.buffer)
    secret, driver, alive = first["secret"], first["driver"], Path(first["alive"])
    shows = SignOfLife(alive)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with listening(path) as listener:
        listener.settimeout(_LOOK)
        # No thread may run here when a holder is forked, so it waits and looks by turns.
        while _is_there(driver) if driver is not None else shows():
            with contextlib.suppress(TimeoutError, EOFError, OSError):
                with accept(listener, secret) as connection:
                    try:
                        fork, _ = receive(connection, CODEC, Fork)
                    except SashError as failure:
                        print(failure.render(), file=sys.stderr)
                        continue
                if os.fork() == 0:
                    try:
                        listener.close()
                        hold(replace(fork.run, secret=secret), fork.partition, fork.path)
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
    with listening(path) as listener:
        holder = _Holder(run, partition)
        while True:
            with accept(listener, run.secret) as connection, contextlib.suppress(OSError, EOFError):
                holder.serve(connection)


class _Holder:
    def __init__(self, run: Run, partition: int) -> None:
        self._run = run
        of, durable = run.partitions, run.durable
        synopses = PartitionedSynopses(self._divided_plan, partition, of, run.panes, durable=durable)
        self._held = Partition(self._cut_of, synopses, partition, of, run.directory, durable=durable)
        # Who is answered at the moment.
        self._connection: socket.socket | None = None

    def serve(self, connection: socket.socket) -> None:
        self._connection = connection
        try:
            request, parts = receive(connection, CODEC, Request)
            messages = _messages(request.messages, parts)
            mailbox = self._run.mailbox(request.turn.batch)
            given = self._held.run(request.stage, request.turn, messages, request.files, mailbox)
            posted = [message.posted(mailbox) for message in given]
        except SashError as failure:
            send(connection, CODEC, Answer(failure=failure))
            return
        except Exception as failure:
            send(connection, CODEC, Answer(failure=RunError(f"an operator failed: {failure}")))
            raise
        send(connection, CODEC, Answer(heads_of(posted)), [message.payload for message in posted])

    def _cut_of(self, part: int) -> StagePlan:
        plan: OperatorPlan = PLANS.from_bytes(self._plan(Wanted(part)), OperatorPlan)
        return plan.cut()

    def _divided_plan(self, version: int) -> PartitionedPlan:
        plan: PartitionedPlan = PLANS.from_bytes(self._plan(Wanted(None, version)), PartitionedPlan)
        return plan

    def _plan(self, wanted: Wanted) -> memoryview:
        """From the task, which has it from Spark."""
        assert self._connection is not None
        send(self._connection, CODEC, wanted)
        _, (content,) = receive(self._connection, CODEC, Plan)
        return content


def _is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def heads_of(messages: Sequence[Message]) -> tuple[Head, ...]:
    return tuple((m.part, m.stage, m.target, m.link, m.rank, m.path) for m in messages)


def _messages(heads: Sequence[Head], payloads: Sequence[Any]) -> list[Message]:
    return [
        Message(part, stage, target, link, rank, payload, path)
        for (part, stage, target, link, rank, path), payload in zip(heads, payloads, strict=True)
    ]


if __name__ == "__main__":
    # Under its own name: what is sent names classes with their modules.
    from sash.runtime.spark import state_server as holder

    holder.main(sys.argv[1:])
