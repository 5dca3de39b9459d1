"""The versions of an archive in its directory, and who still reads them.

    lock                     held by the one writer
    versions/000000000012    the manifest of version 12; the greatest number is the current version
    data/                    segments and lists of what is taken back

A version is committed by giving its manifest its name; all that it names is complete by then. A reader
holds a shared lock on the manifest that it reads from. Old versions are removed when nobody holds a lock on
them, but the last few stay in any case, for readers whose file system does not lock. Then every file goes
that no version names.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sash.archive.failures import missing, told
from sash.archive.manifest import Manifest
from sash.errors import ArchiveError
from sash.files import replace_file

_KEPT = 2
_DIGITS = 12
DATA = "data"
VERSIONS = "versions"


class Lease:
    """A version that cannot be removed until the lease is closed."""

    def __init__(self, root: Path, number: int) -> None:
        self.path = root / VERSIONS / _name(number)
        self._handle: int | None = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_SH)
        except OSError as failure:
            # A file system without locks: the versions that are kept anyway must do.
            if failure.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                self.close()
                raise
        if os.fstat(self._handle).st_nlink == 0:
            self.close()
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.path))

    def text(self) -> str:
        assert self._handle is not None
        size = os.fstat(self._handle).st_size
        return os.pread(self._handle, size, 0).decode(errors="replace")

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __del__(self) -> None:
        self.close()


class Versions:
    """The directory of an archive."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def numbers(self) -> list[int]:
        """The versions that there are, oldest first."""
        try:
            names = os.listdir(self.root / VERSIONS)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(int(name) for name in names if len(name) == _DIGITS and name.isdigit())

    def lease(self, number: int | None = None) -> tuple[Manifest, Lease]:
        """A version, the current one if none is named, and the right to read its files."""
        while True:
            numbers = self.numbers()
            if not numbers:
                raise ArchiveError(
                    f"there is no archive in '{self.root}'",
                    hint="CREATE ARCHIVE … INTO names the directory, and a run fills it",
                    id="archive-missing",
                )
            if number is not None and number not in numbers:
                raise ArchiveError(
                    f"the archive '{self.root}' has no version {number}",
                    expected=f"one of: {', '.join(map(str, numbers))}",
                    hint="old versions are removed when nobody reads them",
                    id="archive-version",
                )
            wanted = numbers[-1] if number is None else number
            try:
                with told(self.root / VERSIONS, "read"):
                    lease = Lease(self.root, wanted)
            except ArchiveError as failure:
                # It was removed between the two looks, so there is a newer one.
                if isinstance(failure.__cause__, FileNotFoundError) and self.numbers() != numbers:
                    continue
                raise
            try:
                return Manifest.from_text(lease.text(), lease.path), lease
            except BaseException:
                lease.close()
                raise

    def prepare(self) -> None:
        """Make the directories of a new archive."""
        with told(self.root, "make"):
            (self.root / DATA).mkdir(parents=True, exist_ok=True)
            (self.root / VERSIONS).mkdir(exist_ok=True)

    def commit(self, manifest: Manifest, *, durable: bool) -> None:
        path = self.root / VERSIONS / _name(manifest.version)
        with told(path):
            replace_file(path, manifest.to_text(), durable=durable)

    def collect(self) -> int:
        """Remove versions that nobody needs and files that no version names; gives how many files."""
        numbers = self.numbers()
        for number in numbers[:-_KEPT]:
            self._remove(number)
        named: set[str] = set()
        for number in self.numbers():
            try:
                manifest, lease = self.lease(number)
            except ArchiveError:
                # Nobody knows what a damaged version needs.
                return 0
            lease.close()
            named.update(manifest.files())
        removed = 0
        with told(self.root / DATA, "clear"):
            for entry in os.listdir(self.root / DATA):
                if f"{DATA}/{entry}" not in named:
                    with suppress(FileNotFoundError):
                        os.unlink(self.root / DATA / entry)
                        removed += 1
        return removed

    def _remove(self, number: int) -> None:
        path = self.root / VERSIONS / _name(number)
        with told(path, "remove"):
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
            except BlockingIOError:
                return
            finally:
                os.close(handle)

    def check_free(self) -> None:
        """Raise ArchiveError if somebody writes to it; touches nothing."""
        path = self.root / "lock"
        if not path.exists():
            return
        with told(path, "open"):
            handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            self._lock(handle)
        finally:
            os.close(handle)

    def _lock(self, handle: int) -> None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as failure:
            raise ArchiveError(
                f"another run is writing to the archive '{self.root}'",
                hint="wait for it to end, or name another directory",
                id="archive-busy",
            ) from failure

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Be the one writer; the lock goes with the process, however it ends."""
        self.prepare()
        path = self.root / "lock"
        with told(path, "open"):
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            self._lock(handle)
            yield
        finally:
            os.close(handle)


def read_named(root: Path, name: str) -> bytes:
    path = root / name
    try:
        return path.read_bytes()
    except FileNotFoundError as failure:
        raise missing(path) from failure
    except OSError:
        with told(path, "read"):
            raise


def _name(number: int) -> str:
    return f"{number:0{_DIGITS}d}"
