"""The checkpoint: everything that a restart needs, in one directory.

    format.json      the format of the directory (5 and older are refused), and which runtime made it
    manifest.json    the last committed batch: clocks, counts, sinks, parts, and which files are live
    parts/           the queries that came into the run together, as CQL: never changed
    panes/           the partials of each batch, by synopsis (pane_files.py)
    cells/           the state of continuous operators by partition: snapshots and logs (cell.py)
    retained/        the rows that streams with RETAIN keep (retained.py)
    feed/            what each batch reads (feed.py)
    spark/           Spark's own offset log

A batch is committed by replacing the manifest. Its pane files and sink rows are durable before that, so a
crash at any moment leaves a manifest whose files are all there; what it does not name is removed or cut
off at the next start. Pane files are deleted when every window has passed them.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sash.disk import reason, remedy
from sash.engine.durability.files import forget_unnamed, save_file, translate_os_errors
from sash.engine.durability.operator_state import StateFile, damaged
from sash.engine.durability.pane_files import PANES, PaneFile, PaneFolder
from sash.engine.durability.plan_store import StoredPlan
from sash.engine.ingest.loss import Loss
from sash.engine.ingest.retained_files import RetainedFile
from sash.engine.ingest.watermarks import StreamState
from sash.engine.observe.report import StreamCounts
from sash.errors import CheckpointError

FORMAT = 6
CELLS, FEED, IDENTITY = "cells", "feed", "format.json"


@dataclass(frozen=True, slots=True)
class JobState:
    """A part of the run: the first instants of its streams, and which of its queries have been dropped.

    `since` is how far time had come when it came, `through` its watermark; of streams in `complete_since` it
    knows all rows after that instant, of others all.
    """

    number: int
    first: Mapping[str, int]
    dropped: tuple[str, ...] = ()
    since: int | None = None
    complete_since: Mapping[str, int] = field(default_factory=dict)
    through: int | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """The state after a committed batch. `made` is how many parts the run has had.

    `held_from` has synopses that do not know everything: what came after that instant they know. `lasts` has
    the boundaries that periodic queries last answered, where that is not the last one that has passed;
    `refreshes` is how those fared that are refreshed elastically. `refresh` and `policy` are the run's.
    Operators are divided among `partitions`, None: they are not. `divided` has the synopses in partitions,
    with the reason; `passed` the instant of each stream that every query which reads it has passed; `sources`
    how each stream is read (`feed.identity`).
    """

    batch: int
    streams: Mapping[str, StreamState]
    positions: Mapping[str, Any]
    is_last: bool
    sinks: Mapping[str, Any]
    answered: Mapping[str, int]
    panes: tuple[PaneFile, ...] = ()
    dead_letters: Mapping[str, Any] = field(default_factory=dict)
    cells: Mapping[str, tuple[StateFile, ...]] = field(default_factory=dict)
    partitions: int | None = None
    parts: tuple[JobState, ...] = ()
    made: int = 0
    kept: tuple[RetainedFile, ...] = ()
    held_from: Mapping[str, int] = field(default_factory=dict)
    lasts: Mapping[str, int | None] = field(default_factory=dict)
    refreshes: Mapping[str, list[int]] = field(default_factory=dict)
    refresh: str = "exact"
    policy: str = ""
    divided: Mapping[str, str] = field(default_factory=dict)
    passed: Mapping[str, int] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(
            {
                "batch": self.batch,
                "streams": {name: _stream_json(state) for name, state in self.streams.items()},
                "positions": dict(self.positions),
                "is_last": self.is_last,
                "sinks": dict(self.sinks),
                "dead_letters": dict(self.dead_letters),
                "answered": dict(self.answered),
                "cells": {
                    name: [[file.name, file.checksum, file.size] for file in files]
                    for name, files in self.cells.items()
                },
                "partitions": self.partitions,
                "parts": [
                    [p.number, dict(p.first), list(p.dropped), p.since, dict(p.complete_since), p.through]
                    for p in self.parts
                ],
                "made": self.made,
                "kept": [list(asdict(file).values()) for file in self.kept],
                "held_from": dict(self.held_from),
                "lasts": dict(self.lasts),
                "refreshes": dict(self.refreshes),
                "refresh": self.refresh,
                "policy": self.policy,
                "divided": dict(self.divided),
                "passed": dict(self.passed),
                "sources": dict(self.sources),
                "panes": [list(asdict(file).values()) for file in self.panes],
            }
        )

    @staticmethod
    def from_json(text: str) -> Manifest:
        data = json.loads(text)
        return Manifest(
            data["batch"],
            {name: _stream_from_json(state) for name, state in data["streams"].items()},
            data["positions"],
            data["is_last"],
            data["sinks"],
            data["answered"],
            tuple(PaneFile(*file) for file in data["panes"]),
            data["dead_letters"],
            {name: tuple(StateFile(*file) for file in files) for name, files in data["cells"].items()},
            data["partitions"],
            tuple(
                JobState(number, first, tuple(gone), since, complete_since, through)
                for number, first, gone, since, complete_since, through in data["parts"]
            ),
            data["made"],
            tuple(RetainedFile(*file) for file in data["kept"]),
            data["held_from"],
            data["lasts"],
            data["refreshes"],
            data["refresh"],
            data["policy"],
            data.get("divided", {}),
            data["passed"],
            data.get("sources", {}),
        )


def _stream_json(state: StreamState) -> dict[str, Any]:
    counts = state.counts
    return {
        "newest": state.newest,
        "first": state.first,
        "ended": state.ended,
        "counts": [counts.accepted, counts.late, counts.rejected],
        "joined": state.joined,
        "loss": state.loss.to_json(),
    }


def _stream_from_json(data: dict[str, Any]) -> StreamState:
    counts = StreamCounts(*data["counts"])
    loss = Loss.from_json(data.get("loss"))
    return StreamState(data["newest"], data["first"], data["ended"], counts, data["joined"], loss)


class Checkpoint:
    """`runtime` and the folder from which relative paths count are those of who runs it."""

    def __init__(self, directory: Path, runtime: str = "", base_dir: Path | None = None) -> None:
        self.directory = directory
        self._runtime = runtime
        self._base_dir = base_dir
        self.panes = PaneFolder(directory / PANES, durable=True)
        self._parts = directory / "parts"
        self.cells = directory / CELLS
        self._lock: int | None = None

    def open(self) -> Manifest | None:
        """Take the directory; gives the last committed state, None where there is none.

        Nothing that is there is changed before `begin`.
        """
        try:
            self.panes.directory.mkdir(parents=True, exist_ok=True)
            self._parts.mkdir(exist_ok=True)
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
            self._check_identity()
            manifest = self._read_manifest()
        except CheckpointError:
            self.close()
            raise
        return manifest

    def begin(self, manifest: Manifest | None) -> None:
        """Go on from a committed state: what it does not name is of no use."""
        path = self.directory / IDENTITY
        if not path.exists() or self._json(path) != self._identity:
            save_file(path, json.dumps(self._identity))
        self.panes.open(() if manifest is None else manifest.panes)
        self._forget_parts(() if manifest is None else manifest.parts)
        self._forget_cells({} if manifest is None else manifest.cells, None)

    def _take_lock(self) -> None:
        """One run at a time; the lock goes with the process, however it ends."""
        path = self.directory / "lock"
        with translate_os_errors(path, "open"):
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

    @property
    def _identity(self) -> dict[str, Any]:
        base_dir = None if self._base_dir is None else str(self._base_dir.absolute())
        return {"format": FORMAT, "runtime": self._runtime, "base_dir": base_dir}

    def _check_identity(self) -> None:
        path = self.directory / IDENTITY
        if not path.exists():
            return
        found = self._json(path)
        self._check_format(found)
        if found.get("runtime") != self._runtime:
            raise CheckpointError(
                f"the checkpoint '{self.directory}' is of another runtime",
                expected=self._runtime,
                got=str(found.get("runtime")),
                hint="run what it was made by, or name another checkpoint directory to start anew",
            )

    def _check_format(self, found: Mapping[str, Any]) -> None:
        if found.get("format") != FORMAT:
            raise CheckpointError(
                f"the checkpoint '{self.directory}' has format {found.get('format')}, and this version of "
                f"Sash reads format {FORMAT}",
                hint="go on with the version that made it, or name another checkpoint directory "
                "to start anew",
                id="checkpoint-format",
            )

    def read(self) -> Manifest | None:
        """The last committed state, for who does not run it; None where there is none."""
        path = self.directory / IDENTITY
        if not path.exists():
            return None
        self._check_format(self._json(path))
        return self._read_manifest()

    @property
    def base_dir(self) -> Path:
        """From where the relative paths of the run count."""
        return Path(self._json(self.directory / IDENTITY).get("base_dir") or ".")

    def stored_plan(self, number: int) -> StoredPlan:
        """The queries of a part of the run."""
        path = self._parts / f"{number}.json"
        data = self._json(path)
        try:
            return StoredPlan(**data)
        except TypeError as failure:
            raise damaged(path) from failure

    def save_recipe(self, stored_plan: StoredPlan) -> None:
        """Make the queries of a part durable; it counts once the manifest names it."""
        save_file(self._parts / f"{stored_plan.number}.json", json.dumps(asdict(stored_plan)))

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

    def _forget_cells(self, kept: Mapping[str, tuple[StateFile, ...]], through: int | None) -> None:
        """Remove files that are of no use, but for those of batches after `through`, which are under way."""
        forget_unnamed(self.cells, {file.name for files in kept.values() for file in files}, through)

    def _forget_parts(self, kept: Iterable[JobState]) -> None:
        forget_unnamed(self._parts, {f"{part.number}.json" for part in kept}, None)

    def commit(self, manifest: Manifest) -> None:
        """Make `manifest` the state from which a restart goes on, then remove what it does not need.

        The pane files go later (`PaneFolder.clear`): somebody may read them.
        """
        save_file(self.directory / "manifest.json", manifest.to_json())
        self.panes.keep(manifest.panes)
        self._forget_cells(manifest.cells, manifest.batch)
        self._forget_parts(manifest.parts)
