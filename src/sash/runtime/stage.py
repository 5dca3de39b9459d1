"""The first stage of a batch: a chunk is read, filtered, projected and pre-aggregated in one go.

It runs wherever a task runs and depends on nothing but its arguments, so a chunk that is processed
twice gives the same result twice.

Late rows are found against the newest row *before* them in order of arrival. A task knows the newest row
before the batch, not the newest of the chunks that other tasks read at the same time. `misjudged` finds
the chunks for which that mattered; they are run again with the right value, which is rare and exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sash.lang.bound import StreamDefinition
from sash.operators.preaggregate import Partial, preaggregate
from sash.plan.run_plan import RunPlan
from sash.runtime.report import StreamCounts
from sash.runtime.retained import Keep, KeptFile, keep_rows
from sash.runtime.scans import ScanRows, scan_rows
from sash.runtime.sinks.jsonl import json_objects
from sash.runtime.sources import REJECTS_SCHEMA, Chunk, read
from sash.state import kernels

Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """What became of a chunk: every row is accepted, late or rejected.

    `newest` and `oldest` are of the accepted rows, None if there are none.
    """

    stream: str
    sequence: int
    accepted: int
    newest: int | None
    oldest: int | None
    partials: tuple[Partial, ...]
    late: pa.Table
    rejected: pa.Table
    scanned: tuple[ScanRows, ...] = ()
    kept: KeptFile | None = None

    @property
    def counts(self) -> StreamCounts:
        return StreamCounts(self.accepted, self.late.num_rows, self.rejected.num_rows)

    @property
    def extent(self) -> ChunkExtent:
        return ChunkExtent(self.stream, self.sequence, self.newest, self.oldest)


@dataclass(frozen=True, slots=True)
class ChunkExtent:
    """Which instants a chunk has brought: all that other tasks need to know of it."""

    stream: str
    sequence: int
    newest: int | None
    oldest: int | None
    counts: StreamCounts = field(default_factory=StreamCounts)


def run_chunk(plan: RunPlan, chunk: Chunk, newest: int | None, keep: Keep | None = None) -> ChunkResult:
    """Process one chunk; `newest` is the greatest timestamp known to have arrived before it."""
    stream = plan.stream(chunk.stream)
    is_kept = stream.retain is not None and keep is not None
    synopses, scans = plan.synopses_of(chunk.stream), plan.scans_of(chunk.stream)
    # The timestamp is always among them: a table without columns would not know its length.
    needed = [name for spec in synopses for name in spec.columns]
    needed += [name for scan in scans for name in scan.columns]
    needed += [stream.lifetime] if stream.lifetime is not None and scans else []
    needed += [column.name for column in stream.schema] if is_kept else []
    columns = tuple(dict.fromkeys((stream.timestamp, *needed)))
    rows = read(stream, chunk, columns)
    behind = lateness(rows.ts, newest, stream.slack)
    ts, table, late = rows.ts, rows.table, REJECTS_SCHEMA.empty_table()
    if behind is not None:
        late = _late_rows(stream, chunk, np.flatnonzero(behind > 0), behind)
        in_time = behind <= 0
        ts, table = ts[in_time], table.filter(pa.array(in_time))
    kept = None
    if is_kept and len(ts):
        assert keep is not None
        whole = table.select([column.name for column in stream.schema])
        kept = keep_rows(keep, stream, chunk.sequence, ts, whole)
    return ChunkResult(
        chunk.stream,
        chunk.sequence,
        len(ts),
        int(ts.max()) if len(ts) else None,
        int(ts.min()) if len(ts) else None,
        tuple(preaggregate(ts, table, synopses)) if len(ts) else (),
        late,
        rows.rejects,
        tuple(scan_rows(scan, stream, ts, table) for scan in scans) if len(ts) else (),
        kept,
    )


def lateness(ts: Int64Array, newest: int | None, slack: int) -> Int64Array | None:
    """By how much each row is later than SLACK allows (positive: late); None if no row is."""
    if len(ts) == 0:
        return None
    if newest is None:
        newest = int(ts[0])
    if not kernels.has_late(ts, newest, slack):
        return None
    before = np.maximum.accumulate(np.concatenate([[newest], ts]))[:-1]
    behind: Int64Array = before - slack - ts
    return behind


def _late_rows(stream: StreamDefinition, chunk: Chunk, positions: Int64Array, behind: Int64Array) -> pa.Table:
    """Late rows in full: all columns are read again, which only chunks with late rows pay for."""
    whole = read(stream, chunk, None)
    seconds, micros = np.divmod(behind[positions], 1_000_000)
    reasons = pc.binary_join_element_wise(
        "late by ",
        pa.array(seconds).cast(pa.string()),
        ".",
        pc.utf8_lpad(pa.array(micros).cast(pa.string()), 6, "0"),
        " s",
        "",
    )
    return pa.table(
        {
            "source": pa.array([chunk.path] * len(positions), pa.string()),
            "row": pa.array(whole.row_numbers[positions] + 1),
            "reason": reasons,
            "data": json_objects(whole.table.take(pa.array(positions))).cast(pa.string()),
        },
        schema=REJECTS_SCHEMA,
    )


def misjudged(
    results: Iterable[ChunkResult | ChunkExtent], newest: Mapping[str, int | None], slacks: Mapping[str, int]
) -> dict[tuple[str, int], int]:
    """Chunks that kept a row which an earlier chunk of the same batch makes late, with the right `newest`."""
    wrong: dict[tuple[str, int], int] = {}
    running = dict(newest)
    for result in sorted(results, key=lambda result: (result.stream, result.sequence)):
        if result.newest is None or result.oldest is None:
            continue
        before = running[result.stream]
        if before is not None and result.oldest < before - slacks[result.stream]:
            wrong[result.stream, result.sequence] = before
        running[result.stream] = result.newest if before is None else max(before, result.newest)
    return wrong
