"""A cell: the operators of one partition with the state that they have after a batch, also on disk.

A batch is applied once: its input goes through the fragment, and what is needed to have the same state again
is written before the cell says that it is done. That is either the input itself (a log) or the state (a
snapshot), whichever is smaller; reading the last snapshot and the logs since gives the state back, because
operators do the same with the same input. So a batch writes no more than it brought, however large the
windows are, and a restart reads no more than twice the state.

Files are never changed, and each attempt to apply a batch writes one of its own. They count once a manifest
names them; what no manifest names is of nobody.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from sash.engine.continuous.buffered_dataflow import BufferedDataflow
from sash.engine.durability.files import new_attempt, save_file, stamp
from sash.engine.durability.wire import (
    Packed,
    pack,
    pack_delta,
    pack_state,
    unpack,
    unpack_delta,
    unpack_state,
)
from sash.errors import CheckpointError
from sash.operators.delta import Delta

_STATE, _LOG = ".state", ".log"
# With more logs than this a restart would open too many files.
_MOST_LOGS = 100
# From this size on the input of a batch is only logged if the state was as large before.
_LARGE_LOG = 64 << 20


@dataclass(frozen=True, slots=True)
class StateFile:
    """A file of a cell: a snapshot, or the log of a batch."""

    name: str
    checksum: int
    size: int


@dataclass(frozen=True, slots=True)
class Work:
    """What a batch brings a cell.

    `rows` are (input, rank, rows): those of one input are taken in the order of their rank. `through` is how
    far time has come, None: not further than before. `first` are the first instants of streams.
    """

    rows: tuple[tuple[str, int, Delta | Packed], ...]
    through: int | None
    first: Mapping[str, int]


class OperatorState:
    """`name` is unique among the cells of a run; `directory` None: nothing is written."""

    def __init__(
        self, name: str, buffered: BufferedDataflow, directory: Path | None, *, durable: bool = True
    ) -> None:
        self.name = name
        self.buffered = buffered
        self.batch = -1
        self.files: tuple[StateFile, ...] = ()
        self._directory = directory
        self._durable = durable
        self._writer = ThreadPoolExecutor(1, "sash-state") if directory is not None else None

    def apply(self, batch: int, work: Work) -> Iterator[tuple[str, Delta]]:
        """Apply a batch; gives what leaves. The cell has moved on when all of it has been taken."""
        log = None
        if self._writer is not None and _is_worth_a_log(work, self.buffered.state_bytes):
            log = self._writer.submit(_packed_log, work)
        yield from self._run(work)
        self.batch = batch
        if self._writer is not None:
            self._save(batch, None if log is None else log.result())

    def _run(self, work: Work) -> Iterator[tuple[str, Delta]]:
        for name, _, delta in sorted(work.rows, key=lambda row: row[:2]):
            self.buffered.absorb(name, delta)
        if work.through is not None:
            yield from self.buffered.advance(work.first, work.through)

    def _save(self, batch: int, log: Sequence[pa.Buffer] | None) -> None:
        logs = [file.size for file in self.files if file.name.endswith(_LOG)]
        size = 0 if log is None else sum(len(part) for part in log)
        if log and len(logs) < _MOST_LOGS and sum(logs) + size <= self.buffered.state_bytes:
            self.files = (*self.files, self._write(batch, _LOG, log))
        else:
            content = pack_state(self.buffered.snapshot())
            self.files = (self._write(batch, _STATE, content),)

    def _write(self, batch: int, kind: str, content: Sequence[pa.Buffer]) -> StateFile:
        assert self._directory is not None
        name = f"{self.name}.{stamp(batch, new_attempt())}{kind}"
        save_file(self._directory / name, content, durable=self._durable)
        checksum = 0
        for part in content:
            checksum = zlib.crc32(part, checksum)
        return StateFile(name, checksum, sum(len(part) for part in content))

    def load(self, batch: int, files: Iterable[StateFile]) -> None:
        """Take up the state after a batch; only for a cell that has applied nothing."""
        assert self._directory is not None
        self.files = tuple(files)
        for file in self.files:
            content = read_file(self._directory / file.name, file.checksum)
            if file.name.endswith(_STATE):
                self.buffered.restore(unpack_state(content))
            else:
                for _ in self._run(_read_log(content)):
                    pass
        self.batch = batch

    def close(self) -> None:
        if self._writer is not None:
            self._writer.shutdown()


def read_file(path: Path, checksum: int) -> bytes:
    """A file of a checkpoint, as it was written."""
    try:
        content = path.read_bytes()
    except OSError as failure:
        raise damaged(path) from failure
    if zlib.crc32(content) != checksum:
        raise damaged(path)
    return content


def damaged(path: Path) -> CheckpointError:
    return CheckpointError(
        f"the checkpoint file '{path}' is damaged or missing",
        hint="restore the directory from a copy, or name another checkpoint directory to start anew",
        id="checkpoint-damaged",
    )


def _packed_log(work: Work) -> list[pa.Buffer]:
    header = {
        "through": work.through,
        "first": dict(sorted(work.first.items())),
        "rows": [[name, rank] for name, rank, _ in work.rows],
    }
    parts = (rows.content if isinstance(rows, Packed) else pack_delta(rows) for _, _, rows in work.rows)
    return list(pack(header, list(parts)))


def _is_worth_a_log(work: Work, state_bytes: int) -> bool:
    """Whether the input may be smaller than the state: nobody should hold all of what is far larger."""
    size = sum(rows.size for _, _, rows in work.rows if isinstance(rows, Packed))
    return size <= max(_LARGE_LOG, state_bytes)


def _read_log(content: bytes) -> Work:
    header, parts = unpack(content)
    rows = (
        (name, rank, unpack_delta(part)) for (name, rank), part in zip(header["rows"], parts, strict=True)
    )
    return Work(tuple(rows), header["through"], header["first"])
