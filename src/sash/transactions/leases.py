"""Leases: how readers in other processes keep the files of a committed state from being deleted.

A pipeline that commits by replacing a manifest deletes the files that the new manifest does not name, and a
reader in another process may be at work on them. The protocol, in a directory beside the manifest:

    reader     makes a file, locks it (flock), and gives it the name `pending-ID`: now nothing is deleted.
               Reads the manifest of batch b and renames its file to `b-ID`: only what batch b or a later one
               names is kept. Deletes it in the end
    pipeline   after each commit deletes what no manifest from the oldest leased batch on has named.
               A lease whose lock can be taken belongs to a process that has died: it is deleted

Nobody waits: the pipeline looks at a directory, readers at files of their own. A lock goes with its process,
however that ends. All processes must be on machines whose locks see each other: one machine, or a shared
file system with locks.

Why nothing is missed: deletions after the commit of batch b look for leases when the manifest of b is there.
A lease that they do not see was made later, so its reader finds b or a later manifest, and needs none of
what is deleted.
"""

from __future__ import annotations

import fcntl
import os
import uuid
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

_PENDING = "pending"


class Lease:
    """A reader's side. Use as a context manager around reading the manifest and its files."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._id = uuid.uuid4().hex
        self._handle: int | None = None
        self._path: Path | None = None

    def __enter__(self) -> Lease:
        self._directory.mkdir(parents=True, exist_ok=True)
        pending = self._directory / f"{_PENDING}-{self._id}"
        fresh = self._directory / f".{self._id}"
        while self._handle is None:
            handle = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                os.rename(fresh, pending)
                self._handle = handle
            except FileNotFoundError:
                # The pipeline saw the file before it was locked, and took it for that of a dead process.
                os.close(handle)
            except BaseException:
                os.close(handle)
                raise
        self._path = pending
        return self

    def hold(self, batch: int) -> None:
        """Keep what batch `batch` and later ones name, and nothing older."""
        assert self._path is not None
        held = self._directory / f"{batch}-{self._id}"
        os.rename(self._path, held)
        self._path = held

    def __exit__(self, *_: object) -> None:
        if self._path is not None:
            self._path.unlink(missing_ok=True)
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def oldest_leased(directory: Path) -> int | None:
    """The oldest batch that some process reads, −1 if one is about to choose; None if nobody reads.

    Leases of processes that have died are deleted.
    """
    oldest: int | None = None
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return None
    for name in names:
        if _is_dead(directory / name) or name.startswith("."):
            continue
        batch = name.partition("-")[0]
        held = -1 if batch == _PENDING else int(batch)
        oldest = held if oldest is None else min(oldest, held)
    return oldest


def _is_dead(path: Path) -> bool:
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        path.unlink(missing_ok=True)
        return True
    finally:
        os.close(handle)


class Graveyard:
    """The pipeline's side: files that no manifest names any more, until no lease needs them.

    After a restart of the pipeline what lies around unnamed is buried with the batch of the manifest that was
    found, as `bury(paths, batch)`: leases of that batch or of earlier ones keep it.
    """

    def __init__(self, directory: Path, delete: Callable[[Path], None] | None = None) -> None:
        self._directory = directory
        self._delete = delete or (lambda path: path.unlink(missing_ok=True))
        self._buried: deque[tuple[int, Path]] = deque()

    @property
    def waiting(self) -> int:
        return len(self._buried)

    def bury(self, paths: Iterable[Path], last_batch: int) -> None:
        """Files that the manifest of `last_batch` was the last to name."""
        self._buried.extend((last_batch, path) for path in paths)

    def sweep(self) -> None:
        """Delete what nobody reads; to be called after a commit."""
        if not self._buried:
            return
        oldest = oldest_leased(self._directory)
        kept: deque[tuple[int, Path]] = deque()
        while self._buried:
            last, path = self._buried.popleft()
            if oldest is not None and oldest <= last:
                kept.append((last, path))
            else:
                self._delete(path)
        self._buried = kept
