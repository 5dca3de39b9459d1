"""Rows that are not part of a stream: late and rejected ones, kept in files of their own.

`STREAM.late.jsonl` and `STREAM.rejects.jsonl` hold one object a row: where it came from, which row it
was, why it is here, and the row itself. A file appears with its first row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sash.connectors.sinks.jsonl import JsonLinesSink
from sash.connectors.sources import REJECTS_SCHEMA
from sash.engine.ingest.first_stage import ChunkResult
from sash.errors import SinkError


class DeadLetters:
    def __init__(self, directory: Path, *, durable: bool) -> None:
        self.directory = directory
        self._durable = durable
        self._sinks: dict[str, JsonLinesSink] = {}

    def check(self) -> None:
        """Raise SinkError if the folder can be neither used nor made."""
        path = self.directory / "late.jsonl"
        JsonLinesSink(f"--dead-letters {self.directory}", REJECTS_SCHEMA, path).check()

    def open(self, streams: Iterable[str], committed: Mapping[str, Any]) -> None:
        """Go on at the committed sizes; files of an earlier run that are not among them are removed."""
        names = [f"{stream}.{kind}.jsonl" for stream in streams for kind in ("late", "rejects")]
        self.verify({name: committed[name] for name in names if name in committed})
        for name in names:
            # Before any of them is touched.
            self._sink(name).lock()
        for name in names:
            if name in committed:
                self._sink(name).open(committed[name])
            else:
                self._remove(name)

    def verify(self, committed: Mapping[str, Any]) -> None:
        """Raise SinkError unless all that was committed is there."""
        for name, position in committed.items():
            self._made(name).verify(position)

    def _remove(self, name: str) -> None:
        path = self.directory / name
        try:
            path.unlink(missing_ok=True)
            self._sinks.pop(name).close()
        except OSError as failure:
            raise SinkError(
                f"cannot replace '{path}'",
                got=failure.strerror,
                hint="name another directory with --dead-letters",
            ) from failure

    def _sink(self, name: str) -> JsonLinesSink:
        if name not in self._sinks:
            self._sinks[name] = self._made(name)
            self._sinks[name].durable = self._durable
        return self._sinks[name]

    def _made(self, name: str) -> JsonLinesSink:
        path = self.directory / name
        return JsonLinesSink(f"jsonl:{path}", REJECTS_SCHEMA, path)

    def write(self, results: Iterable[ChunkResult]) -> None:
        for result in results:
            for kind, table in (("late", result.late), ("rejects", result.rejected)):
                if table.num_rows:
                    name = f"{result.stream}.{kind}.jsonl"
                    is_new = name not in self._sinks
                    sink = self._sink(name)
                    if is_new:
                        sink.open(None)
                    sink.write(table)

    def commit(self) -> dict[str, Any]:
        return {name: sink.commit() for name, sink in self._sinks.items()}

    def check_unchanged(self) -> None:
        """Raise SinkError if somebody else has changed one of the files."""
        for sink in self._sinks.values():
            sink.check_unchanged()

    def leave(self) -> None:
        """Cut the files back to the last commit for good."""
        for sink in list(self._sinks.values()):
            sink.leave()

    def close(self) -> None:
        for sink in self._sinks.values():
            sink.close()
