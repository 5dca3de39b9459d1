"""The rows that streams keep (RETAIN): their files, and the snapshots that questions are answered from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.engine.durability.files import translate_os_errors
from sash.engine.durability.pane_files import PaneFile
from sash.engine.ingest.first_stage import ChunkResult
from sash.engine.ingest.retained_files import (
    FIRST,
    RETAINED,
    Keep,
    RetainedFile,
    Snapshot,
    forget,
    in_order,
    index_kept,
    kept_rows,
    live,
    put_together,
)
from sash.engine.ingest.watermarks import Clock, Streams
from sash.engine.observe.history import RunHistory
from sash.engine.options import Options
from sash.engine.reads.snapshot_registry import SnapshotRegistry
from sash.engine.reads.synopsis_read import KeptPanes
from sash.lang.bound import IndexDefinition, StreamDefinition

# Later than every batch.
_EVERY = 1 << 62


class Retention:
    """`state` is where the run has its files; None: nowhere, and nothing is kept."""

    def __init__(self, state: Path | None, *, durable: bool) -> None:
        self._directory = None if state is None else state / RETAINED
        self._durable = durable
        self.files: list[RetainedFile] = []
        # For questions: the committed states.
        self.registry: SnapshotRegistry | None = None
        self._history: RunHistory | None = None

    def begin(self, start: int, options: Options) -> None:
        """The run begins, or goes on, after the batch `start`."""
        if options.record_history is not None:
            self._history = RunHistory(options.record_history, start, options.monitor.warning)
        self.registry = SnapshotRegistry(start, self._history)

    def place(
        self, batch: int, streams: Iterable[StreamDefinition], indexes: tuple[IndexDefinition, ...]
    ) -> Keep | None:
        """Where the tasks of a batch put rows that are kept; None: nothing is."""
        if self._directory is None or all(stream.retain is None for stream in streams):
            return None
        return Keep(self._directory, batch, self._durable, indexes)

    def prepare(self, keep: Keep | None, streams: Iterable[StreamDefinition]) -> None:
        """Let the rows that are kept have the indexes of the program, and no others; nothing is under way."""
        if keep is not None:
            with translate_os_errors(keep.directory, "make"):
                keep.directory.mkdir(exist_ok=True)
            index_kept(keep, self.files, streams)
            forget(replace(keep, batch=_EVERY), self._needed, streams)

    @property
    def _needed(self) -> list[RetainedFile]:
        """The files that count, and those that somebody reads."""
        read = [] if self.registry is None else self.registry.read
        return [*self.files, *(file for state in read for file in state.kept)]

    @property
    def read_panes(self) -> Iterator[PaneFile]:
        """The pane files that somebody reads."""
        read = [] if self.registry is None else self.registry.read
        return (file for state in read if state.panes is not None for file in state.panes.files)

    def take(
        self,
        keep: Keep | None,
        results: Iterable[ChunkResult],
        streams: Iterable[StreamDefinition],
        passed: Mapping[str, int],
    ) -> None:
        """Keep the rows of a batch, and no longer those that are too old."""
        if keep is None:
            self.files = []
            return
        new = [result.kept for result in results if result.kept is not None]
        files = live([*self.files, *new], streams, passed)
        self.files = []
        for stream in streams:
            own = in_order(file for file in files if file.stream == stream.name)
            has_more = any(file.stream == stream.name for file in new)
            self.files += put_together(keep, own, stream) if has_more else own

    def forget(self, keep: Keep | None, streams: Iterable[StreamDefinition]) -> None:
        """Remove files that no committed state needs."""
        if keep is not None:
            forget(keep, self._needed, streams)

    def publish(
        self,
        batch: int,
        clock: Clock,
        states: Streams,
        passed: Mapping[str, int],
        streams: Iterable[StreamDefinition],
        panes: KeptPanes | None,
    ) -> None:
        """Let questions be answered from what is known now."""
        if self._directory is None or self.registry is None:
            return
        if self.registry.latest is not None and self.registry.latest.batch == batch:
            self.registry.replan(panes)
            return
        snapshot = Snapshot(self._directory, batch, clock, states, passed, tuple(self.files), panes)
        self.registry.commit(snapshot, {s.name: s.retain for s in streams if s.retain is not None})
        if self._history is not None:
            self._history.flush()

    def rows_of(
        self, streams: Iterable[StreamDefinition]
    ) -> Iterator[tuple[StreamDefinition, int, npt.NDArray[np.int64], pa.Table]]:
        """The rows that some streams keep, in the order in which they came: rank, instants and values."""
        snapshot = None if self.registry is None else self.registry.latest
        if snapshot is None:
            return
        for stream in streams:
            if stream.retain is not None and stream.name in snapshot.streams:
                since = snapshot.passed.get(stream.name, FIRST + stream.retain) - stream.retain
                for rank, ts, table in kept_rows(snapshot, stream, since):
                    yield stream, rank, ts, table

    def complete_since(self, stream: StreamDefinition) -> int | None:
        """Queries that come now know all rows of a stream that came after this instant; None: all rows."""
        snapshot = None if self.registry is None else self.registry.latest
        if snapshot is None or stream.name not in snapshot.streams:
            return None
        since, first = snapshot.complete_since(stream), snapshot.streams[stream.name].first
        passed = snapshot.passed.get(stream.name)
        if since is None and stream.retain is not None and passed is not None and first is not None:
            # Files may have older rows, which are not given to queries that come now.
            return passed - stream.retain if first <= passed - stream.retain else None
        return since

    def instants_of(self, stream: StreamDefinition) -> npt.NDArray[np.int64]:
        """The instants of the rows that a stream keeps."""
        return np.concatenate([np.zeros(0, np.int64), *(ts for _, _, ts, _ in self.rows_of((stream,)))])

    def end(self) -> None:
        """Let questions come to their end."""
        if self.registry is not None:
            self.registry.close()

    def close_with(self, held: ExitStack) -> None:
        if self._history is not None:
            held.callback(self._history.close)
