"""The checkpoint: everything that a restart needs, in one directory.

    program.json     what runs here: format, runtime, and the streams and queries, to refuse another
    manifest.json    the last committed batch: clocks, counts, sinks, and which pane files are live
    panes/           the partials of each batch, one Arrow file per batch and synopsis, never changed
    cells/           the state of continuous operators by partition: snapshots and logs (cell.py)
    feed/            what each batch reads (feed.py)
    spark/           Spark's own offset log

A batch is committed by replacing the manifest. Its pane files and sink rows are durable before that, so a
crash at any moment leaves a manifest whose files are all there; what it does not name is removed or cut
off at the next start. Pane files are deleted when every window has passed them.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from sash.disk import reason, remedy
from sash.errors import CheckpointError
from sash.operators.preaggregate import Partial
from sash.plan.periodic import SynopsisSpec
from sash.plan.run_plan import RunPlan
from sash.runtime.cell import StateFile, batch_of, damaged, read_file
from sash.runtime.clock import StreamState
from sash.runtime.files import save_file, told
from sash.runtime.partials import from_table, to_table
from sash.runtime.report import StreamCounts

FORMAT = 2
CELLS = "cells"


@dataclass(frozen=True, slots=True)
class PaneFile:
    """The partials that one batch gave one synopsis. It can go when the horizon reaches `until`."""

    name: str
    synopsis: str
    until: int
    checksum: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """The state after a committed batch."""

    batch: int
    streams: Mapping[str, StreamState]
    complete_through: int | None
    positions: Mapping[str, Any]
    is_last: bool
    sinks: Mapping[str, Any]
    answered: Mapping[str, int]
    panes: tuple[PaneFile, ...] = ()
    aside: Mapping[str, Any] = field(default_factory=dict)
    cells: Mapping[str, tuple[StateFile, ...]] = field(default_factory=dict)
    partitions: int = 1

    def to_json(self) -> str:
        return json.dumps(
            {
                "batch": self.batch,
                "streams": {name: _stream_json(state) for name, state in self.streams.items()},
                "complete_through": self.complete_through,
                "positions": dict(self.positions),
                "is_last": self.is_last,
                "sinks": dict(self.sinks),
                "aside": dict(self.aside),
                "answered": dict(self.answered),
                "cells": {
                    name: [[file.name, file.checksum, file.size] for file in files]
                    for name, files in self.cells.items()
                },
                "partitions": self.partitions,
                "panes": [[file.name, file.synopsis, file.until, file.checksum] for file in self.panes],
            }
        )

    @staticmethod
    def from_json(text: str) -> Manifest:
        data = json.loads(text)
        return Manifest(
            data["batch"],
            {name: _stream_from_json(state) for name, state in data["streams"].items()},
            data["complete_through"],
            data["positions"],
            data["is_last"],
            data["sinks"],
            data["answered"],
            tuple(PaneFile(*file) for file in data["panes"]),
            data["aside"],
            {name: tuple(StateFile(*file) for file in files) for name, files in data["cells"].items()},
            data["partitions"],
        )


def _stream_json(state: StreamState) -> dict[str, Any]:
    counts = state.counts
    return {
        "newest": state.newest,
        "first": state.first,
        "ended": state.ended,
        "counts": [counts.accepted, counts.late, counts.rejected],
    }


def _stream_from_json(data: dict[str, Any]) -> StreamState:
    return StreamState(data["newest"], data["first"], data["ended"], StreamCounts(*data["counts"]))


class Checkpoint:
    def __init__(self, directory: Path, plan: RunPlan, runtime: str) -> None:
        self.directory = directory
        self._plan = plan
        self._runtime = runtime
        self._panes = directory / "panes"
        self.cells = directory / CELLS
        self._live: list[PaneFile] = []
        self._lock: int | None = None

    @property
    def feed_directory(self) -> Path:
        return self.directory / "feed"

    def open(self) -> Manifest | None:
        """Make the directory ready; gives the last committed state, None where there is none."""
        try:
            self._panes.mkdir(parents=True, exist_ok=True)
            self.cells.mkdir(exist_ok=True)
            (self.directory / ".probe").touch()
            (self.directory / ".probe").unlink()
        except OSError as failure:
            raise CheckpointError(
                f"cannot use the checkpoint directory '{self.directory}'",
                got=reason(failure),
                hint=f"{remedy(failure)}, or name another directory",
            ) from failure
        self._take_lock()
        try:
            identity = {"format": FORMAT, "runtime": self._runtime, "plan": fingerprint(self._plan)}
            self._check_identity(identity)
            manifest = self._read_manifest()
        except CheckpointError:
            self.close()
            raise
        if manifest is not None:
            self._live = list(manifest.panes)
        named = {file.name for file in self._live}
        with told(self.directory, "clear"):
            for path in self._panes.iterdir():
                if path.name not in named:
                    path.unlink()
            self._forget_cells({} if manifest is None else manifest.cells, None)
        return manifest

    def _take_lock(self) -> None:
        """One run at a time; the lock goes with the process, however it ends."""
        path = self.directory / "lock"
        with told(path, "open"):
            self._lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as failure:
            self.close()
            raise CheckpointError(
                f"another run is using the checkpoint '{self.directory}'",
                hint="wait for it to end, or name another checkpoint directory",
                id="checkpoint-busy",
            ) from failure

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _check_identity(self, identity: dict[str, Any]) -> None:
        path = self.directory / "program.json"
        if not path.exists():
            save_file(path, json.dumps(identity))
            return
        found = self._json(path)
        for key, what in (("format", "format"), ("runtime", "runtime"), ("plan", "program")):
            if found.get(key) != identity[key]:
                raise CheckpointError(
                    f"the checkpoint '{self.directory}' is of another {what}",
                    expected=str(identity[key]),
                    got=str(found.get(key)),
                    hint="run what it was made by, or name another checkpoint directory to start anew",
                )

    def _read_manifest(self) -> Manifest | None:
        path = self.directory / "manifest.json"
        if not path.exists():
            return None
        try:
            return Manifest.from_json(path.read_text())
        except (ValueError, KeyError, TypeError, AttributeError, OSError) as failure:
            raise damaged(path) from failure

    def _json(self, path: Path) -> dict[str, Any]:
        try:
            data = json.loads(path.read_text())
        except (ValueError, OSError) as failure:
            raise damaged(path) from failure
        if not isinstance(data, dict):
            raise damaged(path)
        return data

    def partials(self) -> Iterator[Partial]:
        """The partials of all live panes, oldest batch first."""
        specs = {spec.name: spec for spec in self._plan.synopses}
        for file in self._live:
            path = self._panes / file.name
            content = read_file(path, file.checksum)
            spec = specs[file.synopsis]
            yield from_table(spec, pa.ipc.open_stream(content).read_all())

    def save_partials(self, batch: int, partials: Iterable[Partial]) -> None:
        """Make the partials of a batch durable; they count once the manifest names them."""
        specs = {spec.name: spec for spec in self._plan.synopses}
        by_synopsis: dict[str, list[pa.Table]] = {}
        for partial in partials:
            by_synopsis.setdefault(partial.synopsis, []).append(to_table(specs[partial.synopsis], partial))
        for synopsis, tables in by_synopsis.items():
            table = pa.concat_tables(tables)
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            content = sink.getvalue().to_pybytes()
            name = f"{batch:08d}-{synopsis}.arrow"
            save_file(self._panes / name, content)
            self._live.append(
                PaneFile(name, synopsis, _last_edge(specs[synopsis], table), zlib.crc32(content))
            )

    def _forget_cells(self, kept: Mapping[str, tuple[StateFile, ...]], through: int | None) -> None:
        """Remove files that are of no use, but for those of batches after `through`, which are under way."""
        names = {file.name for files in kept.values() for file in files}
        for path in self.cells.iterdir():
            if path.name not in names and (through is None or batch_of(path.name) <= through):
                path.unlink(missing_ok=True)

    def live_panes(self, horizons: Mapping[str, int | None]) -> tuple[PaneFile, ...]:
        """The pane files that windows still need."""
        kept = []
        for file in self._live:
            horizon = horizons[file.synopsis]
            if horizon is None or file.until > horizon:
                kept.append(file)
        return tuple(kept)

    def commit(self, manifest: Manifest) -> None:
        """Make `manifest` the state from which a restart goes on, then remove what it does not need."""
        save_file(self.directory / "manifest.json", manifest.to_json())
        kept = {file.name for file in manifest.panes}
        with told(self.directory, "clear"):
            for file in self._live:
                if file.name not in kept:
                    (self._panes / file.name).unlink(missing_ok=True)
            self._live = list(manifest.panes)
            self._forget_cells(manifest.cells, manifest.batch)


def _last_edge(spec: SynopsisSpec, table: pa.Table) -> int:
    return spec.panes.right_edge(int(table.column("pane").to_numpy().max()))


def fingerprint(plan: RunPlan) -> str:
    """A digest of what the streams, synopses and queries are; spelling and comments do not matter."""
    streams = [(s.name, s.schema, s.timestamp, s.unit, s.slack, s.source, s.options) for s in plan.streams]
    queries = [(q.name, q.definition.sink, q.select) for q in plan.queries]
    synopses = [
        (s.name, s.panes, [(m.kind, m.argument and m.argument.sql) for m in s.measures])
        for s in plan.synopses
    ]
    continuous = [(q.name, q.definition.sink, q.plan, q.choices) for q in (*plan.continuous, *plan.one_time)]
    relations = [(r.name, r.schema, r.key, r.source, r.options) for r in plan.relations]
    whole = (streams, queries, synopses, continuous, relations)
    return hashlib.sha256(repr(whole).encode()).hexdigest()[:16]
