"""The first stage of a batch: a chunk is read, filtered, projected and pre-aggregated in one go.

It runs wherever a task runs and depends on nothing but its arguments, so a chunk that is processed
twice gives the same result twice.

Late rows are found against the newest row *before* them in order of arrival, and so are rows that are further
ahead than MAX AHEAD allows, which are rejected and move nothing. A task knows the newest row
before the batch, not the newest of the chunks that other tasks read at the same time. `misjudged` finds
the chunks for which that mattered; they are run again with the right value, which is rare and exact.
By how much rows are late is put right without that (`tell_lateness`): only a text depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sash.connectors.sinks.jsonl import json_objects
from sash.connectors.sources import REJECTS_SCHEMA, Chunk, read
from sash.engine.ingest.loss import NO_LOSS, Loss, loss_of
from sash.engine.ingest.retained_files import Keep, RetainedFile, keep_rows
from sash.engine.ingest.scans import ScanRows, scan_rows
from sash.engine.observe.report import StreamCounts
from sash.lang.bound import StreamDefinition
from sash.operators.preaggregate import Partial, preaggregate
from sash.plan.run_plan import RunPlan
from sash.state import kernels

Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Awaited:
    """Queries wait for `most` rows that are later than an instant: a chunk tells when its first ones come."""

    after: int
    most: int


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The first instants of rows that are later than `after`, in order."""

    after: int
    instants: Int64Array


@dataclass(frozen=True, slots=True)
class Bar:
    """By what the rows of a chunk are judged: the newest instant before it, None if there is none.

    Not `is_exact`, other chunks of the batch may have brought newer ones. `limit`: no row may be later.
    `awaited`: what is to be told of accepted rows.
    """

    newest: int | None = None
    limit: int | None = None
    is_exact: bool = True
    awaited: tuple[Awaited, ...] = ()


ANY = Bar()
"""Nothing came before."""


@dataclass(frozen=True, slots=True)
class Judged:
    """How MAX AHEAD of the newest row was applied in a chunk: the bound and the bar.

    `first` is the first instant that was accepted, `rejected` how many rows were not.
    """

    ahead: int
    newest: int | None
    is_exact: bool
    first: int | None
    rejected: int


@dataclass(frozen=True, slots=True)
class Lateness:
    """The timestamps of late rows, and by how much they are late as far as the task knew that."""

    ts: Int64Array
    behind: Int64Array


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
    kept: RetainedFile | None = None
    loss: Loss = NO_LOSS
    judged: Judged | None = None
    lateness: Lateness | None = None
    arrivals: tuple[Arrivals, ...] = ()

    @property
    def counts(self) -> StreamCounts:
        return StreamCounts(self.accepted, self.late.num_rows, self.rejected.num_rows)

    @property
    def extent(self) -> ChunkExtent:
        return ChunkExtent(
            self.stream, self.sequence, self.newest, self.oldest, judged=self.judged, arrivals=self.arrivals
        )


@dataclass(frozen=True, slots=True)
class ChunkExtent:
    """Which instants a chunk has brought: all that other tasks need to know of it."""

    stream: str
    sequence: int
    newest: int | None
    oldest: int | None
    counts: StreamCounts = field(default_factory=StreamCounts)
    loss: Loss = NO_LOSS
    judged: Judged | None = None
    arrivals: tuple[Arrivals, ...] = ()


_Result = TypeVar("_Result", bound=ChunkResult | ChunkExtent)


def run_chunk(plan: RunPlan, chunk: Chunk, bar: Bar = ANY, keep: Keep | None = None) -> ChunkResult:
    """Process one chunk, whose rows are judged by `bar`."""
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
    ts, table, late, rejected = rows.ts, rows.table, REJECTS_SCHEMA.empty_table(), rows.rejects
    told = None
    positions = np.arange(len(ts))
    far = _far_ahead(ts, bar, stream)
    if far is not None and far.any():
        rejected = _with_far_rows(rejected, stream, chunk, np.flatnonzero(far), far)
        positions = np.flatnonzero(far == 0)
        ts, table = ts[positions], table.take(pa.array(positions))
    behind = lateness(ts, bar.newest, stream.slack)
    if behind is not None:
        is_late = behind > 0
        told = Lateness(ts[is_late], behind[is_late])
        late = _dead_letter_rows(stream, chunk, positions[is_late], _late_by(told.behind))
        ts, table = ts[~is_late], table.filter(pa.array(~is_late))
    judged = None
    if stream.max_ahead is not None and bar.limit is None:
        first, count = (int(ts[0]) if len(ts) else None), 0 if far is None else int(np.count_nonzero(far))
        judged = Judged(stream.max_ahead, bar.newest, bar.is_exact, first, count)
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
        rejected,
        tuple(scan_rows(scan, stream, ts, table) for scan in scans) if len(ts) else (),
        kept,
        _loss(late, told, stream.slack, rejected),
        judged,
        told,
        tuple(_arrivals(ts, each) for each in bar.awaited),
    )


def _arrivals(ts: Int64Array, awaited: Awaited) -> Arrivals:
    return Arrivals(awaited.after, np.sort(ts[ts > awaited.after])[: awaited.most])


def _loss(late: pa.Table, told: Lateness | None, slack: int, rejected: pa.Table) -> Loss:
    return loss_of(late, np.zeros(0, np.int64) if told is None else told.behind + slack, rejected)


def _far_ahead(ts: Int64Array, bar: Bar, stream: StreamDefinition) -> Int64Array | None:
    """By how much rows are ahead, of those that are too far ahead (else 0); None if there is no bound."""
    if bar.limit is not None:
        return np.where(ts > bar.limit, ts - bar.limit + stream.ahead_of_wall, 0)
    if stream.max_ahead is None:
        return None
    newest, is_known = bar.newest or 0, bar.newest is not None
    found: Int64Array = kernels.far_ahead(ts, newest, is_known, bar.is_exact, stream.slack, stream.max_ahead)
    return found


def _with_far_rows(
    rejected: pa.Table, stream: StreamDefinition, chunk: Chunk, positions: Int64Array, far: Int64Array
) -> pa.Table:
    """Rejected rows with those that are too far ahead, in the order of their places."""
    most = _seconds(np.array([stream.max_ahead if stream.max_ahead is not None else stream.ahead_of_wall]))[0]
    reasons = pc.binary_join_element_wise(
        "ahead by ", _seconds(far[positions]), f" s, MAX AHEAD is {most} s", ""
    )
    more = _dead_letter_rows(stream, chunk, positions, reasons)
    return pa.concat_tables([rejected, more]).sort_by("row")


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


def _late_by(behind: Int64Array) -> pa.Array:
    return pc.binary_join_element_wise("late by ", _seconds(behind), " s", "")


def _dead_letter_rows(
    stream: StreamDefinition, chunk: Chunk, positions: Int64Array, reasons: pa.Array
) -> pa.Table:
    """Rows in full, with why they are here: only chunks with such rows are read again."""
    whole = read(stream, chunk, None)
    return pa.table(
        {
            "source": pa.array([chunk.path] * len(positions), pa.string()),
            "row": pa.array(whole.row_numbers[positions] + 1),
            "reason": reasons,
            "data": json_objects(whole.table.take(pa.array(positions))).cast(pa.string()),
        },
        schema=REJECTS_SCHEMA,
    )


def _seconds(micros: Int64Array) -> pa.Array:
    """Lengths of time in seconds, as text."""
    seconds, rest = np.divmod(micros, 1_000_000)
    fraction = pc.utf8_lpad(pa.array(rest).cast(pa.string()), 6, "0")
    return pc.binary_join_element_wise(pa.array(seconds).cast(pa.string()), fraction, ".")


def largest_jump(stream: StreamDefinition, chunks: Iterable[Chunk], newest: int | None) -> str | None:
    """Which row of some chunks is furthest ahead of those before it, and where it stands, in words."""
    most, found = 0, None
    for chunk in chunks:
        rows = read(stream, chunk, (stream.timestamp,))
        if not len(rows.ts):
            continue
        start = int(rows.ts[0]) if newest is None else newest
        before = np.maximum.accumulate(np.concatenate([[start], rows.ts]))
        ahead = rows.ts - before[:-1]
        row = int(np.argmax(ahead))
        if ahead[row] > most:
            most = int(ahead[row])
            place = f"row {rows.row_numbers[row] + 1:,}" + (f" of '{chunk.path}'" if chunk.path else "")
            found = f"{place} is {most / 1_000_000:,.6g} s later than the rows before it"
        newest = int(before[-1])
    return found


def misjudged(
    results: Iterable[ChunkResult | ChunkExtent], newest: Mapping[str, int | None], slacks: Mapping[str, int]
) -> dict[tuple[str, int], int | None]:
    """Chunks whose rows were judged otherwise than by the newest row before them, with that.

    The first of a stream is right about it; after that, what is given here follows from the chunks before,
    which may be wrong themselves.
    """
    wrong: dict[tuple[str, int], int | None] = {}
    for result, before in _in_order(results, newest):
        if _is_misjudged(result, before, slacks[result.stream]):
            wrong[result.stream, result.sequence] = before
    return wrong


def tell_lateness(
    results: Iterable[ChunkResult], newest: Mapping[str, int | None], slacks: Mapping[str, int]
) -> list[ChunkResult]:
    """The results of a batch, all judged rightly, in order of arrival.

    Late rows tell how far they are behind the newest row before them, in whatever chunk that is.
    """
    return [_told(result, before, slacks[result.stream]) for result, before in _in_order(results, newest)]


def _told(result: ChunkResult, before: int | None, slack: int) -> ChunkResult:
    told = result.lateness
    if told is None or before is None:
        return result
    behind = np.maximum(told.behind, before - slack - told.ts)
    if np.array_equal(behind, told.behind):
        return result
    told = Lateness(told.ts, behind)
    place = REJECTS_SCHEMA.get_field_index("reason")
    late = result.late.set_column(place, REJECTS_SCHEMA.field(place), _late_by(behind))
    return replace(result, late=late, loss=_loss(late, told, slack, result.rejected), lateness=told)


def _in_order(
    results: Iterable[_Result], newest: Mapping[str, int | None]
) -> Iterator[tuple[_Result, int | None]]:
    """What chunks gave in order of arrival, with the newest row before each."""
    running = dict(newest)
    for result in sorted(results, key=lambda result: (result.stream, result.sequence)):
        before = running[result.stream]
        yield result, before
        if result.newest is not None:
            running[result.stream] = result.newest if before is None else max(before, result.newest)


def _is_misjudged(result: ChunkResult | ChunkExtent, before: int | None, slack: int) -> bool:
    judged = result.judged
    if judged is not None and judged.is_exact:
        return judged.newest != before
    if before is None:
        return False
    if result.oldest is not None and result.oldest < before - slack:
        return True
    if judged is None:
        return False
    # A row that was compared with an older one may be accepted, and the first one may have to be rejected.
    is_rejecting = judged.rejected > 0 and judged.newest != before
    return is_rejecting or (judged.first is not None and judged.first > before + judged.ahead)
