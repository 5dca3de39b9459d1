"""`parquet:`: a directory of part-000000.parquet, part-000001.parquet, … one for each commit with rows.

Invariant: a part is complete from the moment it has its name. Rows go to a hidden file, and `commit`
closes it, syncs it and renames it. The committed position is the number of parts, with what tells whether
they are as they were; going on deletes parts beyond it, whose commit the caller never kept. The directory is
locked while a run writes to it.
"""

from __future__ import annotations

import os
import re
import zlib
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


class ParquetSink(Sink):
    def __init__(self, uri: str, schema: pa.Schema, directory: Path) -> None:
        super().__init__(uri, schema)
        self.directory = directory
        self._parts = self._committed = self._before = 0
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
        self._parts = self._committed = self._before = keep
        self._remove_beyond(keep)
        with self.disk("prepare the directory"):
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
        with self.disk("write"):
            if self._writer is None:
                self._writer = pq.ParquetWriter(self.directory / _UNFINISHED, self.schema)
            self._writer.write_table(table.cast(self.schema))

    def commit(self) -> Committed:
        if self._writer is not None:
            part = self.directory / _name(self._parts)
            with self.disk("write to disk"):
                writer, self._writer = self._writer, None
                writer.close()
                unfinished = self.directory / _UNFINISHED
                if self.durable:
                    sync_file(unfinished)
                size, end = unfinished.stat().st_size, _end_of(unfinished)
            self.check_unchanged()
            if part.exists():
                raise self._changed(f"no {part.name}", "one that this run has not written")
            with self.disk("write to disk"):
                unfinished.rename(part)
                if self.durable:
                    sync_directory(self.directory)
            self._parts, self._bytes, self._end = self._parts + 1, self._bytes + size, end
        self._before, self._committed = self._committed, self._parts
        return {"parts": self._parts, "bytes": self._bytes, "end": self._end}

    def revert(self) -> None:
        self._committed = self._before

    def leave(self) -> None:
        if self._handle is not None:
            self._remove_beyond(self._committed)

    def check_unchanged(self) -> None:
        if self._handle is None:
            return
        ours = os.fstat(self._handle)
        try:
            there = self.directory.stat()
        except FileNotFoundError:
            raise self._changed(
                "the directory that the run began with", "no such file or directory"
            ) from None
        if (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino):
            raise self._changed("the directory that the run began with", "another one")
        last = _name(self._parts - 1)
        if self._parts and not (self.directory / last).exists():
            raise self._changed(last, "no such file or directory")

    def _changed(self, expected: str, got: str) -> SinkError:
        what = f"'{self.directory}' was changed by somebody else while the run was writing to it"
        return self.error(what, expected=expected, got=got, hint=REMEDY)

    def close(self) -> None:
        with self.disk("close the file"):
            try:
                if self._writer is not None:
                    writer, self._writer = self._writer, None
                    writer.close()
                    (self.directory / _UNFINISHED).unlink(missing_ok=True)
                if self._handle is not None and self._parts > self._committed:
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
