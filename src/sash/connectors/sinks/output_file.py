"""A regular file that only this run writes: locked, and looked at before rows are added and at each commit.

Invariant: the file holds exactly `size` bytes, all written by this run or by those that it goes on from, and
ends with `_tail`. A file that others truncate, replace or write to ends the run: rows that were committed are
gone then, and rows that are added would stand behind holes or in a file that nobody reads.

The lock (flock) goes with the process, however it ends. Rows are appended wherever the end is, so that a file
which is truncated at the last moment gets no hole. Closing cuts off what was not committed.

Cost: a look at the size for each append; at a commit, where rows were added, one more and the last bytes.
"""

from __future__ import annotations

import fcntl
import os
import threading
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sash.errors import SinkError
from sash.files import sync_directory

if TYPE_CHECKING:
    from pathlib import Path

    from sash.connectors.sinks.base import Committed, Sink

# So many bytes before the committed position tell whether a file still holds what was written.
_TAIL = 4096
REMEDY = (
    "nothing but the run may change its outputs (logrotate: no copytruncate): put back what was there, "
    "or start anew with a fresh checkpoint directory"
)


class OutputFile:
    def __init__(self, sink: Sink, path: Path) -> None:
        self._sink = sink
        self.path = path
        self._handle: int | None = None
        self._size = 0
        self._tail = b""
        # What was last looked at and synced, and where the last commit and the one before it ended.
        self._checked = self._synced = -1
        self._committed = self._before = 0
        self._lock = threading.Lock()
        self._is_left = False

    def lock(self) -> None:
        """Be the one run that writes the file, if it is there."""
        if self._handle is None and self.path.is_file():
            with self._sink.disk("open the file"):
                self._take(os.O_RDWR)

    def _take(self, flags: int) -> None:
        handle = os.open(self.path, flags | os.O_APPEND | os.O_CLOEXEC, 0o666)
        if not locked(handle):
            os.close(handle)
            raise busy(self._sink, f"the file '{self.path}'")
        self._handle = handle

    def begin(self) -> None:
        """Replace what is there."""
        with self._sink.disk("create the file"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self._handle is None:
                self._take(os.O_RDWR | os.O_CREAT)
            os.ftruncate(self._opened(), 0)
            sync_directory(self.path.parent)
        self._check_place()

    def resume(self, committed: Committed) -> None:
        """Cut off what was written after a commit."""
        self.verify(committed)
        with self._sink.disk("go on with the file"):
            if self._handle is None:
                self._take(os.O_RDWR)
            os.ftruncate(self._opened(), self._size)
        self._check_place()

    def verify(self, committed: Committed) -> None:
        """Raise SinkError unless the file holds what was committed; nothing is changed."""
        size = int(committed.get("size", -1))
        if size < 0:
            raise self._unlike("a file", "something else that could not be taken back")
        if not self.path.is_file():
            raise self._sink.error(
                "the output is gone", expected=f"{size} bytes in '{self.path}'", got="no file", hint=REMEDY
            )
        with self._sink.disk("read the file"), open(self.path, "rb") as file:
            present = os.fstat(file.fileno()).st_size
            file.seek(max(0, min(size, present) - _TAIL))
            tail = file.read(min(_TAIL, size))
        if present < size:
            raise self._unlike(f"at least {size} bytes", f"{present} bytes")
        if zlib.crc32(tail) != committed.get("tail"):
            raise self._unlike(f"the rows that end at byte {size}", "other content there")
        self._size = self._committed = self._before = size
        self._tail = tail

    def _unlike(self, expected: str, got: str) -> SinkError:
        where = f" in '{self.path}'"
        return self._sink.error(
            "the output is not what the checkpoint says", expected=expected + where, got=got, hint=REMEDY
        )

    def append(self, data: memoryview) -> None:
        handle = self._opened()
        with self._lock, self._sink.disk("write"):
            self._check_size(os.fstat(handle).st_size)
            rest = data
            while len(rest):
                written = os.write(handle, rest)
                self._size += written
                self._tail = (self._tail + rest[:written][-_TAIL:])[-_TAIL:]
                rest = rest[written:]

    def commit(self, *, durable: bool) -> dict[str, Any]:
        if self._size != self._checked:
            self.check()
            self._checked = self._size
        if durable and self._size != self._synced:
            with self._sink.disk("write to disk"):
                os.fsync(self._opened())
            self._synced = self._size
        self._before, self._committed = self._committed, self._size
        return {"size": self._size, "tail": zlib.crc32(self._tail)}

    def revert(self) -> None:
        """The last commit does not count."""
        self._committed = self._before

    def leave(self) -> None:
        """Cut off what was not committed, and let nobody write any more: the lock is kept for good."""
        if not self._is_left:
            self._lock.acquire()
            self._is_left = True
            self._cut_off()

    def check(self) -> None:
        """Raise SinkError if somebody else has changed the file."""
        if self._handle is None:
            return
        self._check_place()
        with self._sink.disk("read the file"):
            tail = os.pread(self._opened(), len(self._tail), self._size - len(self._tail))
        if tail != self._tail:
            raise self._changed(f"the rows that end at byte {self._size}", "other content there")

    def _check_place(self) -> None:
        """A file that was removed takes rows as willingly as any other, and nobody will ever see them."""
        ours = os.fstat(self._opened())
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            raise self._changed("the file that the run began with", "no such file or directory") from None
        except OSError:
            with self._sink.disk("find the file"):
                raise
        if (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino):
            raise self._changed(f"file number {ours.st_ino}", f"file number {there.st_ino}: it was replaced")
        self._check_size(ours.st_size)

    def _check_size(self, present: int) -> None:
        if present != self._size:
            raise self._changed(f"{self._size} bytes", f"{present} bytes")

    def _changed(self, expected: str, got: str) -> SinkError:
        return self._sink.error(
            f"'{self.path}' was changed by somebody else while the run was writing to it",
            expected=expected,
            got=got,
            hint=REMEDY,
        )

    def close(self) -> None:
        """Cut off what was not committed, unless the file is somebody else's by now."""
        if self._handle is None:
            return
        try:
            self._cut_off()
        finally:
            handle, self._handle = self._handle, None
            with self._sink.disk("close the file"):
                os.close(handle)

    def _cut_off(self) -> None:
        if self._handle is not None and self._size > self._committed:
            with suppress(SinkError):
                self.check()
                with self._sink.disk("cut off rows that were not committed"):
                    os.ftruncate(self._handle, self._committed)

    def _opened(self) -> int:
        assert self._handle is not None, "open() comes first"
        return self._handle


def locked(handle: int) -> bool:
    """Take the lock of an open file; False if another run has it. A file system may have no locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def busy(sink: Sink, what: str) -> SinkError:
    return sink.error(
        f"another run is writing to {what}",
        hint="wait for it to end, or give each run outputs of its own",
        id="output-busy",
    )
