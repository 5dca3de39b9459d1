"""An output that is no regular file: /dev/stdout, /dev/fd/N, a named pipe, /dev/null or another device.

What was written there cannot be taken back, so nothing is locked, cut off, synced or compared, and rows may
come twice after a restart. Where nobody reads at the moment the run waits, but looks up now and then, so that
it can be stopped. When the reader has left for good, the run ends.
"""

from __future__ import annotations

import errno
import os
import re
import select
import stat
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sash.files import has_reader

if TYPE_CHECKING:
    from pathlib import Path

    from sash.connectors.sinks.base import Committed, Sink

_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")
_STANDARD = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
# A pipe that takes anything takes so many bytes without a wait.
_PIECE = select.PIPE_BUF
# Between two looks at whether the run is to stop, in seconds.
_LOOK = 0.1


def descriptor_of(path: Path) -> int | None:
    """The open file of this process that a path stands for."""
    text = str(path)
    found = _DESCRIPTOR.fullmatch(text)
    return int(found[1]) if found else _STANDARD.get(text)


def is_stream(path: Path) -> bool:
    """Whether rows that are written there cannot be taken back."""
    if descriptor_of(path) is not None:
        return True
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


class OutputStream:
    def __init__(self, sink: Sink, path: Path) -> None:
        self._sink = sink
        self.path = path
        self._handle: int | None = None
        self._size = 0
        self._is_pipe = False

    def begin(self, look: Callable[[], None]) -> None:
        """Open it; `look` is called while nobody reads, and may raise."""
        with self._sink.disk("open"):
            number = descriptor_of(self.path)
            self._handle = os.dup(number) if number is not None else self._opened(look)
            mode = os.fstat(self._handle).st_mode
            self._is_pipe = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(self._handle)

    def _opened(self, look: Callable[[], None]) -> int:
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        while True:
            try:
                handle = os.open(self.path, flags)
            except OSError as failure:
                # A named pipe that nobody reads yet.
                if failure.errno != errno.ENXIO or not stat.S_ISFIFO(os.stat(self.path).st_mode):
                    raise
            else:
                os.set_blocking(handle, True)
                return handle
            look()
            time.sleep(_LOOK)

    def append(self, data: memoryview, look: Callable[[], None]) -> None:
        assert self._handle is not None, "open() comes first"
        with self._sink.disk("write"):
            while len(data):
                if self._is_pipe:
                    _await_room(self._handle, look)
                try:
                    written = os.write(self._handle, data[:_PIECE] if self._is_pipe else data)
                except BlockingIOError:
                    # Whoever shares it has made it so: the room was taken meanwhile.
                    time.sleep(_LOOK / 10)
                    continue
                self._size += written
                data = data[written:]

    def check_reader(self) -> None:
        """Raise OutputClosed if whoever read it has left, also if there are no rows to write."""
        if self._handle is not None and not has_reader(self._handle):
            raise self._sink.closed()

    def commit(self) -> dict[str, Any]:
        return {"stream": self._size}

    def verify(self, committed: Committed) -> None:
        if "stream" not in committed:
            raise self._sink.error(
                "the output is not what the checkpoint says",
                expected="a regular file",
                got=f"'{self.path}', which is none",
                hint="put back what was there, or start anew with a fresh checkpoint directory",
            )

    def close(self) -> None:
        if self._handle is not None:
            handle, self._handle = self._handle, None
            with self._sink.disk("close"):
                os.close(handle)


def _await_room(handle: int, look: Callable[[], None]) -> None:
    """Wait until a pipe takes something, or an error."""
    room = select.poll()
    room.register(handle, select.POLLOUT)
    while not room.poll(1000 * _LOOK):
        look()
