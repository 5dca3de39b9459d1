"""`parquet:`: a directory of part-000000.parquet, part-000001.parquet, … one for each commit with rows.

Invariant: a part is complete from the moment it has its name. Rows go to a hidden file, and `commit`
closes it, syncs it and renames it. The committed position is the number of parts, with what tells whether
they are as they were; going on deletes parts beyond it, whose commit the caller never kept. The directory is
locked while a run writes to it. Parts that others remove, replace or write to end the run.

Cost: a commit with rows looks at the directory and at the part before; the end of the run looks at all parts.
In memory a part takes 28 bytes.
"""

from __future__ import annotations

import os
import re
import zlib
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sash.connectors.sinks.base import Committed, Sink
from sash.connectors.sinks.output_file import REMEDY, busy, locked
from sash.errors import SinkError
from sash.files import sync_directory, sync_file

_PART = re.compile(r"part-(\d{6,})\.parquet")
_UNFINISHED = ".part.parquet.tmp"
# So many bytes at the end of a part, with its footer, tell whether it is the one that was written.
_TAIL = 4096
_ABSENT = "no such file or directory"


class _Written:
    """What tells, by number, whether parts are as they were written.

    A part with the same inode and time of modification is not read. The end of others is compared, as some
    network file systems give new numbers to old files; it is not known for parts of an earlier run.
    """

    def __init__(self) -> None:
        self._sizes, self._inodes, self._times = array("Q"), array("Q"), array("q")
        self._first, self._ends = 0, array("I")

    def __len__(self) -> int:
        return len(self._sizes)

    def go_on_with(self, found: os.stat_result) -> None:
        """A part that was written by an earlier run."""
        self._add(found)
        self._first = len(self)

    def add(self, found: os.stat_result, end: int) -> None:
        self._add(found)
        self._ends.append(end)

    def _add(self, found: os.stat_result) -> None:
        self._sizes.append(found.st_size)
        self._inodes.append(found.st_ino)
        self._times.append(found.st_mtime_ns)

    def difference(self, number: int, path: Path) -> tuple[str, str] | None:
        """What is expected and what is there, if that is something else. Raises OSError."""
        found = path.stat()
        if found.st_size != self._sizes[number]:
            return f"{path.name} of {self._sizes[number]} bytes", f"{found.st_size} bytes"
        if (found.st_ino, found.st_mtime_ns) == (self._inodes[number], self._times[number]):
            return None
        if number >= self._first and _end_of(path) == self._ends[number - self._first]:
            return None
        return f"{path.name} as it was written", "another file of the same size, or other content"


class ParquetSink(Sink):
    def __init__(self, uri: str, schema: pa.Schema, directory: Path) -> None:
        super().__init__(uri, schema)
        self.directory = directory
        self._written = _Written()
        self._committed = self._before = 0
        # The size of all parts together, and the checksum of the last one's end.
        self._bytes = self._end = 0
        self._handle: int | None = None
        self._writer: pq.ParquetWriter | None = None

    def check(self) -> None:
        self.check_directory(self.directory)

    def lock(self) -> None:
        if self._handle is None and self.directory.is_dir():
            with self.disk("open the directory"):
                handle = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            if not locked(handle):
                os.close(handle)
                raise busy(self, f"the directory '{self.directory}'")
            self._handle = handle

    def open(self, committed: Committed | None) -> None:
        if committed is not None:
            self.verify(committed)
            self._bytes, self._end = committed["bytes"], committed["end"]
        keep = 0 if committed is None else int(committed["parts"])
        with self.disk("prepare the directory"):
            self.directory.mkdir(parents=True, exist_ok=True)
        self.lock()
        self._committed = self._before = keep
        self._remove_beyond(keep)
        self._written = _Written()
        with self.disk("prepare the directory"):
            for number in range(keep):
                self._written.go_on_with((self.directory / _name(number)).stat())
            sync_directory(self.directory)

    def verify(self, committed: Committed) -> None:
        keep = int(committed["parts"])
        with self.disk("read the directory"):
            present = self._present()
            missing = [number for number in range(keep) if number not in present]
            sizes = sum(present[number].stat().st_size for number in range(keep) if not missing)
            end = 0 if missing or not keep else _end_of(present[keep - 1])
        expected, got = f"{keep} parts", f"no {_name(missing[0])}" if missing else None
        if not missing and sizes != committed["bytes"]:
            expected, got = f"{keep} parts of {committed['bytes']} bytes together", f"{sizes} bytes"
        elif not missing and end != committed["end"]:
            expected, got = f"{_name(keep - 1)} as it was written", "other content"
        if got is not None:
            expected = f"{expected} in '{self.directory}'"
            raise self.error(
                "the output is not what the checkpoint says", expected=expected, got=got, hint=REMEDY
            )

    def _remove_beyond(self, keep: int) -> None:
        with self.disk("prepare the directory"):
            for number, path in self._present().items():
                if number >= keep:
                    path.unlink()
            (self.directory / _UNFINISHED).unlink(missing_ok=True)

    def write(self, table: pa.Table) -> None:
        if table.num_rows == 0:
            return
        with self._writing("write"):
            if self._writer is None:
                self._writer = pq.ParquetWriter(self.directory / _UNFINISHED, self.schema)
            self._writer.write_table(table.cast(self.schema))

    def commit(self) -> Committed:
        parts = len(self._written)
        if self._writer is not None:
            part = self.directory / _name(parts)
            with self._writing("write to disk"):
                writer, self._writer = self._writer, None
                writer.close()
                unfinished = self.directory / _UNFINISHED
                if self.durable:
                    sync_file(unfinished)
                size, end = unfinished.stat().st_size, _end_of(unfinished)
            self._check_directory()
            if parts:
                self._check_part(parts - 1)
            if part.exists():
                raise self._changed(f"no {part.name}", "one that this run has not written")
            with self._writing("write to disk"):
                unfinished.rename(part)
                if self.durable:
                    sync_directory(self.directory)
                self._written.add(part.stat(), end)
            parts, self._bytes, self._end = parts + 1, self._bytes + size, end
        self._before, self._committed = self._committed, parts
        return {"parts": parts, "bytes": self._bytes, "end": self._end}

    @contextmanager
    def _writing(self, doing: str) -> Iterator[None]:
        """As `disk`, but a file that is gone was removed by somebody else."""
        try:
            with self.disk(doing):
                yield
        except SinkError as failure:
            if isinstance(failure.__cause__, FileNotFoundError):
                self._check_directory()
                raise self._changed("the files of this run", _ABSENT) from failure
            raise

    def revert(self) -> None:
        self._committed = self._before

    def leave(self) -> None:
        if self._handle is not None and self._is_ours(self._handle):
            self._remove_beyond(self._committed)

    def check_unchanged(self) -> None:
        """Looks at all parts."""
        if self._handle is None:
            return
        self._check_directory()
        for number in range(len(self._written)):
            self._check_part(number)
        with self.disk("read the directory"):
            beyond = [number for number in self._present() if number >= len(self._written)]
        if beyond:
            raise self._changed(f"no {_name(min(beyond))}", "one that this run has not written")

    def _check_directory(self) -> None:
        if self._handle is not None and not self._is_ours(self._handle):
            got = "another one" if self.directory.exists() else _ABSENT
            raise self._changed("the directory that the run began with", got)

    def _is_ours(self, handle: int) -> bool:
        try:
            return os.path.samestat(os.fstat(handle), self.directory.stat())
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            with self.disk("find the directory"):
                raise

    def _check_part(self, number: int) -> None:
        path = self.directory / _name(number)
        try:
            different = self._written.difference(number, path)
        except FileNotFoundError:
            different = path.name, _ABSENT
        except OSError:
            with self.disk("read a part"):
                raise
        if different is not None:
            raise self._changed(*different)

    def _changed(self, expected: str, got: str) -> SinkError:
        what = f"'{self.directory}' was changed by somebody else while the run was writing to it"
        return self.error(what, expected=expected, got=got, hint=REMEDY)

    def close(self) -> None:
        with self.disk("close the file"):
            try:
                is_ours = self._handle is not None and self._is_ours(self._handle)
                if self._writer is not None:
                    writer, self._writer = self._writer, None
                    writer.close()
                if is_ours:
                    (self.directory / _UNFINISHED).unlink(missing_ok=True)
                if is_ours and len(self._written) > self._committed:
                    self._remove_beyond(self._committed)
            finally:
                if self._handle is not None:
                    handle, self._handle = self._handle, None
                    os.close(handle)

    def _present(self) -> dict[int, Path]:
        """Our parts by number; files of other names are not ours to touch."""
        if not self.directory.is_dir():
            return {}
        found = ((_PART.fullmatch(path.name), path) for path in self.directory.iterdir())
        return {int(match[1]): path for match, path in found if match}


def _name(number: int) -> str:
    return f"part-{number:06d}.parquet"


def _end_of(path: Path) -> int:
    with open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
        return zlib.crc32(file.read())
