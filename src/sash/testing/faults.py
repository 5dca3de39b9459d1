"""Faults at file operations of this process: the n-th one is its last, or fails as on a bad disk.

Operations are what changes files below a folder: opening for writing, writing, fsync, truncating, renaming,
removing, making folders. Python tells the others to audit hooks, which may refuse them; for `os.write` and
`os.fsync` there are none, so those are wrapped. Files that Arrow writes itself are opened unseen, but renamed
and synced in sight.
"""

from __future__ import annotations

import atexit
import errno
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from sash import files

KILL, STOP = "kill", "stop"
ERRORS = {"ENOSPC": errno.ENOSPC, "EIO": errno.EIO}

_CHANGING = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.link", "os.symlink")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# What os.write gave is gone with a machine, not with a process; half of it is there if it dies inside.
_real_write, _real_fsync = os.write, os.fsync


class Stopped(BaseException):
    """This process is taken for dead."""


@dataclass(frozen=True, slots=True)
class Fault:
    """At the n-th operation, counted from 1, `what` happens: KILL, STOP or one of ERRORS; 0: nothing.

    After STOP no file is changed any more: as if the process were dead, for tests that outlive it. The number
    of operations is written to `count` at the end.
    """

    what: str = KILL
    at: int = 0
    count: str = ""

    def to_json(self) -> Mapping[str, Any]:
        return asdict(self)


class _Watch:
    """`folder` ends with a slash; the files that count lie below."""

    def __init__(self, fault: Fault, folder: str) -> None:
        self._fault = fault
        self._folder = folder
        self._lock = threading.Lock()
        self.operations = 0

    def step(self, path: object, before_death: Callable[[], None] | None = None) -> None:
        """An operation on a path is about to happen."""
        if not isinstance(path, str | bytes | os.PathLike) or not self._counts(os.fsdecode(path)):
            return
        with self._lock:
            self.operations += 1
            number, at = self.operations, self._fault.at
        if number < at or at == 0 or (number > at and self._fault.what != STOP):
            return
        if number == at and self._fault.what in (KILL, STOP) and before_death is not None:
            before_death()
        if self._fault.what == KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        if self._fault.what == STOP:
            raise Stopped
        raise OSError(ERRORS[self._fault.what], os.strerror(ERRORS[self._fault.what]), path)

    def _counts(self, path: str) -> bool:
        return os.path.abspath(path).startswith(self._folder)

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """An audit hook."""
        if event in _CHANGING:
            path = arguments[0]
            self.step(_path_of(path) if isinstance(path, int) else path)
        elif event == "open":
            path, mode, flags = arguments
            is_writing = any(letter in mode for letter in "wax+") if mode else flags & _WRITING
            if is_writing and not isinstance(path, int):
                self.step(path)

    def write(self, handle: int, data: Any) -> int:
        def half() -> None:
            _real_write(handle, memoryview(data)[: len(data) // 2])

        self.step(_path_of(handle), half)
        return _real_write(handle, data)

    def fsync(self, handle: Any) -> None:
        number = handle if isinstance(handle, int) else handle.fileno()
        self.step(_path_of(number))
        _real_fsync(handle)

    def fill(self, path: Path, parts: Any, *, durable: bool) -> None:
        """As `files._fill`, with writes that can be seen."""
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            for part in parts:
                rest = memoryview(part).cast("B")
                while len(rest):
                    rest = rest[self.write(handle, rest) :]
            if durable:
                self.fsync(handle)
        finally:
            os.close(handle)


def _path_of(handle: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{handle}")
    except OSError:
        return ""


_watch: _Watch | None = None
_is_heard = False


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if _watch is not None:
        _watch.hear(event, arguments)


@contextmanager
def watched(fault: Fault, folder: Path) -> Iterator[_Watch]:
    """Let the fault happen below a folder, for a while."""
    global _watch, _is_heard
    if not _is_heard:
        # For ever: hooks cannot be taken back.
        sys.addaudithook(_hear)
        _is_heard = True
    watch = _Watch(fault, f"{folder.absolute()}/")
    with (
        mock.patch.multiple(os, write=watch.write, fsync=watch.fsync),
        mock.patch.object(files, "_fill", watch.fill),
    ):
        _watch = watch
        try:
            yield watch
        finally:
            _watch = None


def install(fault: Fault, folder: Path) -> None:
    """Let the fault happen in this process, for the rest of its life."""
    held = ExitStack()
    watch = held.enter_context(watched(fault, folder))

    def tell() -> None:
        held.close()
        if fault.count:
            Path(fault.count).write_text(str(watch.operations))

    atexit.register(tell)
