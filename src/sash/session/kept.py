"""The contents of views, kept in a checkpoint beside what the run keeps there itself.

A run that goes on gives the changes since it stopped, so whoever wants the whole view has to remember it. A
file says after which batch it holds; one of another batch than the run goes on from is of no use.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pyarrow as pa

from sash.errors import CheckpointError
from sash.files import replace_file

_BATCH = b"sash.batch"


class Kept:
    """The views of the queries of one checkpoint."""

    def __init__(self, checkpoint: Path) -> None:
        self._directory = checkpoint / "views"

    def save(self, query: str, batch: int, contents: pa.Table) -> None:
        """Remember the contents after a batch; the file is either the old or the new one."""
        stamped = contents.replace_schema_metadata({_BATCH: str(batch)})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, stamped.schema) as writer:
            writer.write_table(stamped)
        try:
            self._directory.mkdir(exist_ok=True)
            replace_file(self._path(query), sink.getvalue().to_pybytes())
        except OSError as failure:
            raise CheckpointError(
                f"cannot write to '{self._directory}'", got=failure.strerror or str(failure)
            ) from failure

    def load(self, query: str, batch: int, schema: pa.Schema) -> pa.Table | None:
        """The contents after a batch; None if they are not there."""
        try:
            table = pa.ipc.open_stream(self._path(query).read_bytes()).read_all()
        except (OSError, pa.ArrowException):
            return None
        if (table.schema.metadata or {}).get(_BATCH) != str(batch).encode():
            return None
        table = table.replace_schema_metadata()
        return table if table.schema.equals(schema) else None

    def _path(self, query: str) -> Path:
        return self._directory / f"{quote(query, safe='')}.arrow"
