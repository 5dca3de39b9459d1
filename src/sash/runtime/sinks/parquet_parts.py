"""`parquet:`: a directory of part-000000.parquet, part-000001.parquet, … one for each commit with rows.

Invariant: a part is complete from the moment it has its name. Rows go to a hidden file, and `commit`
closes it, syncs it and renames it. The committed position is the number of parts; going on deletes
parts beyond it, whose commit the caller never kept.
"""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sash.files import sync_directory, sync_file
from sash.runtime.sinks.base import Committed, Sink

_PART = re.compile(r"part-(\d{6,})\.parquet")
_UNFINISHED = ".part.parquet.tmp"


class ParquetSink(Sink):
    def __init__(self, uri: str, schema: pa.Schema, directory: Path) -> None:
        super().__init__(uri, schema)
        self.directory = directory
        self._parts = 0
        self._writer: pq.ParquetWriter | None = None

    def check(self) -> None:
        self.check_directory(self.directory)

    def open(self, committed: Committed | None) -> None:
        keep = 0 if committed is None else int(committed["parts"])
        with self.disk("prepare the directory"):
            if committed is None:
                self.directory.mkdir(parents=True, exist_ok=True)
            present = self._present()
            missing = [number for number in range(keep) if number not in present]
            if missing:
                raise self.error(
                    "the output is not what the checkpoint says",
                    expected=f"{keep} parts",
                    got=f"no {_name(missing[0])}",
                    hint="put the files back, or start anew with a fresh checkpoint directory",
                )
            for number, path in present.items():
                if number >= keep:
                    path.unlink()
            (self.directory / _UNFINISHED).unlink(missing_ok=True)
            self.directory.mkdir(parents=True, exist_ok=True)
            sync_directory(self.directory)
        self._parts = keep

    def write(self, table: pa.Table) -> None:
        if table.num_rows == 0:
            return
        with self.disk("write"):
            if self._writer is None:
                self._writer = pq.ParquetWriter(self.directory / _UNFINISHED, self.schema)
            self._writer.write_table(table.cast(self.schema))

    def commit(self) -> Committed:
        if self._writer is not None:
            with self.disk("write to disk"):
                writer, self._writer = self._writer, None
                writer.close()
                unfinished = self.directory / _UNFINISHED
                if self.durable:
                    sync_file(unfinished)
                unfinished.rename(self.directory / _name(self._parts))
                if self.durable:
                    sync_directory(self.directory)
            self._parts += 1
        return {"parts": self._parts}

    def close(self) -> None:
        if self._writer is not None:
            with self.disk("close the file"):
                writer, self._writer = self._writer, None
                writer.close()
                (self.directory / _UNFINISHED).unlink(missing_ok=True)

    def _present(self) -> dict[int, Path]:
        """Our parts by number; files of other names are not ours to touch."""
        if not self.directory.is_dir():
            return {}
        found = ((_PART.fullmatch(path.name), path) for path in self.directory.iterdir())
        return {int(match[1]): path for match, path in found if match}


def _name(number: int) -> str:
    return f"part-{number:06d}.parquet"
