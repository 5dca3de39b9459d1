"""Writing one sub-index anew: a function from files and rows to a file.

It reads nothing but the segments that its task names and writes nothing but the file that its task names,
under a temporary name first, so sub-indices can be written in parallel, anywhere, and twice.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from sash.archive.manifest import SlotKey
from sash.archive.segment import Segment, read_segment, write_segment
from sash.archive.spec import ArchiveSpec
from sash.archive.taken import Taken, alive, strike


@dataclass(frozen=True, slots=True)
class SlotTask:
    """What an update does to one sub-index.

    Segments in `merged` go into the new one with the new rows, those in `kept` stay as they are. If no rows
    come and it is not `is_due`, all stay.
    """

    root: str
    spec: ArchiveSpec
    key: SlotKey
    name: str
    through: int
    merged: tuple[Segment, ...] = ()
    kept: tuple[Segment, ...] = ()
    is_due: bool = False
    floors: Mapping[str, int] = field(default_factory=dict)
    durable: bool = True


@dataclass(frozen=True, slots=True)
class SlotWork:
    """A task with the new rows of its sub-index, and what is taken back from it."""

    task: SlotTask
    rows: pa.Table | None = None
    taken: Taken | None = None

    @property
    def is_idle(self) -> bool:
        """Whether the sub-index stays as it is."""
        return not self.task.is_due and (self.rows is None or not self.rows.num_rows)

    @property
    def size(self) -> int:
        """About how many bytes are read and written."""
        fresh = 0 if self.rows is None else self.rows.nbytes
        return 0 if self.is_idle else fresh + 2 * sum(each.size for each in self.task.merged)

    def done(self) -> SlotResult:
        return rewrite_slot(self.task, self.rows, self.taken)


@dataclass(frozen=True, slots=True)
class SlotResult:
    """What became of a sub-index, and what that took; `is_struck`: what was taken back is gone from it."""

    key: SlotKey
    segments: tuple[Segment, ...]
    is_rewritten: bool = False
    is_struck: bool = False
    opened: int = 0
    rows_read: int = 0
    rows_written: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    inserted: int = 0


def rewrite_slot(task: SlotTask, rows: pa.Table | None = None, taken: Taken | None = None) -> SlotResult:
    """Do what a task says with the new rows of its sub-index and with what is taken back from it."""
    fresh = 0 if rows is None else rows.num_rows
    if not fresh and not task.is_due:
        return SlotResult(task.key, (*task.kept, *task.merged))
    root = Path(task.root)
    old = pa.concat_tables(
        [task.spec.schema.empty_table(), *(read_segment(root, each, task.spec) for each in task.merged)]
    )
    kept = alive(old, task.spec, task.through, task.floors)
    # One that takes back a row must do so once, so it is used up in the whole sub-index or not at all.
    strikes = not task.kept
    if taken is not None and strikes:
        kept = strike(kept, taken, task.spec)
    whole = kept if rows is None else pa.concat_tables([kept, task.spec.fit(rows)])
    segments = task.kept
    written: Segment | None = None
    if whole.num_rows:
        # On another machine a process may have the same number.
        token = uuid.uuid4().hex
        written = write_segment(root, task.name, task.spec, whole, token, durable=task.durable)
        segments = (*segments, written)
    return SlotResult(
        task.key,
        segments,
        is_rewritten=True,
        is_struck=strikes,
        opened=len(task.merged),
        rows_read=old.num_rows,
        rows_written=whole.num_rows,
        bytes_read=sum(each.size for each in task.merged),
        bytes_written=0 if written is None else written.size,
        inserted=fresh,
    )


Rewrites = Callable[[Sequence[SlotWork]], Sequence[SlotResult]]
"""Does the work of an update, somewhere."""


def rewrite_here(work: Sequence[SlotWork]) -> list[SlotResult]:
    """One sub-index after the other."""
    return [each.done() for each in work]


def rewrite_in_threads(work: Sequence[SlotWork]) -> list[SlotResult]:
    """Several at a time, the largest first: what takes long here, sorting and encoding, is done by Arrow."""
    threads = min(os.cpu_count() or 1, sum(not each.is_idle for each in work))
    if threads < 2:
        return rewrite_here(work)
    with ThreadPoolExecutor(threads, "sash-archive") as pool:
        return list(pool.map(SlotWork.done, sorted(work, key=lambda each: -each.size)))
