"""Reading an archive: one whole version, whatever the writer does meanwhile.

A probe reads, in every segment of every sub-index, the buckets of its key; a range those between two keys; a
scan all of them. All give the rows that live at the instant of the version and are not taken back. A
smaller window of the same query has the rows that do not die within the time by which it is shorter (000,
section 3.4); segments in which none do are not opened.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Self

import pyarrow as pa

from sash.archive.asked import note_question
from sash.archive.conditions import Condition, ready
from sash.archive.manifest import Manifest
from sash.archive.report import Description, describe
from sash.archive.segment import Segment, read_segment
from sash.archive.spec import BORN, DIES, ArchiveSpec
from sash.archive.taken import MARKS, Taken, alive, having, load_taken, strike
from sash.archive.versions import Lease, Versions
from sash.errors import ArchiveError, UnknownName
from sash.lang import intervals
from sash.plan.key_conditions import Among, Between, Value
from sash.state.groups import plain


def open_snapshot(root: Path, version: int | None = None) -> Snapshot:
    """The current version of the archive in a directory, or another one that is still there."""
    versions = Versions(root)
    manifest, lease = versions.lease(version)
    return Snapshot(root, manifest, lease)


class Snapshot:
    """A version; its files stay until it is closed."""

    def __init__(self, root: Path, manifest: Manifest, lease: Lease) -> None:
        self.root = root
        self.manifest = manifest
        self._lease = lease
        try:
            self._taken = load_taken(root, manifest)
        except BaseException:
            lease.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._lease.close()

    @property
    def spec(self) -> ArchiveSpec:
        return self.manifest.spec

    @property
    def through(self) -> int | None:
        """The instant of the result, None before the first update."""
        return self.manifest.through

    def describe(self) -> Description:
        return describe(self.manifest, len(Versions(self.root).numbers()))

    def files(self) -> list[Path]:
        """The Parquet files with the rows of this version, for other tools: rows with DIES after `through`
        live.
        """
        return [self.root / each.name for slot in self.manifest.slots.values() for each in slot.segments]

    # ------------------------------------------------------------------------------------- reading

    def probe(
        self, *values: Value, columns: Sequence[str] | None = None, within: int | None = None
    ) -> pa.Table:
        """The rows whose key begins with some values."""
        where = [Among(name, (value,)) for name, value in zip(self.spec.key, values, strict=False)]
        return self.read(where, columns=columns, within=within)

    def range(
        self,
        low: Value | None = None,
        high: Value | None = None,
        *,
        columns: Sequence[str] | None = None,
        within: int | None = None,
    ) -> pa.Table:
        """The rows whose first key column lies between two values, which belong to it."""
        return self.read([Between(self.spec.key[0], low, high)], columns=columns, within=within)

    def scan(self, *, columns: Sequence[str] | None = None, within: int | None = None) -> pa.Table:
        return self.read(columns=columns, within=within)

    def read(
        self,
        where: Sequence[Among | Between] = (),
        *,
        columns: Sequence[str] | None = None,
        within: int | None = None,
    ) -> pa.Table:
        """The rows that fulfil all conditions on columns of the key."""
        names = self._names(columns)
        empty = self.spec.schema.empty_table().select(names)
        return pa.concat_tables([empty, *self.batches(where, columns=columns, within=within)])

    def batches(
        self,
        where: Sequence[Among | Between] = (),
        *,
        columns: Sequence[str] | None = None,
        within: int | None = None,
    ) -> Iterator[pa.Table]:
        """The same in parts, so that a scan need not hold all rows at once.

        `columns` may name BORN and DIES, too; without it the columns of the archive are given. `within` is
        the length of a smaller window.
        """
        note_question(self.root)
        names = self._names(columns)
        conditions = ready(where, self.spec.columns, self.spec.key)
        after = self._after(within)
        if after is None:
            return
        none = Taken.none(self.spec)
        taken = self._taken.narrowed(conditions)
        parts: list[tuple[Sequence[Segment], Taken]] = []
        together: list[Segment] = []
        for key, slot in self.manifest.slots.items():
            mine = taken.of(key, slot.cleaned) if taken else none
            segments = [each for each in slot.segments if self.spec.is_estimated or each.deaths[-1] > after]
            if mine.rows.num_rows:
                # Each takes back one row of the sub-index, so its segments are looked at together.
                parts.append((segments, mine))
            elif mine.keys.num_rows or not conditions:
                parts.extend(((segment,), mine) for segment in segments)
            else:
                together.extend(segments)
        if together:
            # What fulfils conditions on the key is little: to put it together first saves work on each.
            parts.append((together, none))
        reads = [partial(self._kept, segments, conditions, after, mine, names) for segments, mine in parts]
        yield from (read() for read in reads) if conditions else _ahead(reads)

    def _kept(
        self,
        segments: Sequence[Segment],
        where: Sequence[Condition],
        after: int,
        taken: Taken,
        names: Sequence[str],
    ) -> pa.Table:
        """The wanted rows of some segments of a sub-index."""
        spec, floors = self.spec, self.manifest.floors
        needed = {*names, *(condition.column for condition in where)}
        needed.update(floors if spec.is_estimated else (DIES,))
        if taken.rows.num_rows:
            needed.update(MARKS)
        if taken.keys.num_rows:
            needed.update((*spec.key, BORN))
        read = [name for name in spec.schema.names if name in needed]
        tables = [read_segment(self.root, segment, spec, where, read) for segment in segments]
        rows = pa.concat_tables([spec.schema.empty_table().select(read), *tables])
        for condition in where:
            rows = having(rows, condition.holds(plain(rows.column(condition.column))))
        rows = alive(rows, spec, after, floors)
        return (strike(rows, taken, spec) if taken else rows).select(list(names))

    def _names(self, columns: Sequence[str] | None) -> list[str]:
        if columns is None:
            return list(self.spec.columns.names)
        known = self.spec.schema.names
        for name in columns:
            if name not in known:
                raise UnknownName("column", name, known)
        return list(columns)

    def _after(self, within: int | None) -> int | None:
        """The instant after which rows must die to be in the answer."""
        through, span = self.manifest.through, self.spec.span
        if within is None or through is None:
            return through
        if self.spec.is_strict or self.spec.is_estimated or self.spec.grain is None:
            raise ArchiveError(
                "a smaller window cannot be taken from this archive",
                expected="an archive whose rows leave only when their windows have passed them",
                hint="read the whole archive, or make another one with the smaller window",
                id="archive-window",
            )
        if not 0 < within <= span:
            raise ArchiveError(
                "the archive has no rows of such a long window" if within > span else "an empty window",
                expected=f"at most {intervals.write(span)}",
                got=intervals.write(within) if within > 0 else str(within),
                hint="left out, the window is the archive's own",
                id="archive-window",
            )
        if (span - within) % self.spec.grain:
            raise ArchiveError(
                "a window that does not fit the slide of the archive's query",
                expected=f"{intervals.write(span)} less a multiple of {intervals.write(self.spec.grain)}",
                got=intervals.write(within),
                hint="left out, the window is the archive's own",
                id="archive-window",
            )
        return through + span - within


def _ahead(reads: Sequence[Callable[[], pa.Table]]) -> Iterator[pa.Table]:
    """What some functions give, in their order; a few of them are at work while the caller is."""
    threads = min(os.cpu_count() or 1, len(reads))
    if threads < 2:
        yield from (read() for read in reads)
        return
    pool = ThreadPoolExecutor(threads, "sash-scan")
    try:
        waiting: deque[Future[pa.Table]] = deque()
        for read in reads:
            waiting.append(pool.submit(read))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
