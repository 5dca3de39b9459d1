"""Running the chunks of a batch, and once more those that judged a late row wrongly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sash.connectors.sources import Chunk
from sash.engine.batch_result import BatchResult, JobResult
from sash.engine.ingest.feed import Entry
from sash.engine.ingest.first_stage import Awaited, Bar, ChunkResult, misjudged, tell_lateness
from sash.engine.ingest.watermarks import Streams
from sash.engine.query_executor import QueryExecutor

Bars = Mapping[tuple[str, int], Bar]
"""By what the rows of each chunk are judged, by (stream, sequence)."""
RunBatch = Callable[[Entry, Sequence[Chunk], Bars], BatchResult]
"""Runs chunks of a batch, all of them or some once more; where operators run in tasks, those, too."""


def run_exactly(
    entry: Entry,
    run: RunBatch,
    executor: QueryExecutor,
    streams: Streams,
    awaited: Mapping[str, tuple[Awaited, ...]],
    *,
    in_tasks: bool,
) -> BatchResult:
    """What a batch gives; `in_tasks`: operators run there, not here."""
    bars = executor.clock.bars(streams)
    given: dict[tuple[str, int], Bar] = {}
    begun: set[str] = set()
    for chunk in entry.chunks:
        # Tasks do not know what the chunks before theirs bring.
        is_exact = chunk.stream not in begun
        begun.add(chunk.stream)
        limit, told = entry.limits.get(chunk.stream), awaited.get(chunk.stream, ())
        bar = Bar(bars[chunk.stream], limit, is_exact, told)
        given[chunk.stream, chunk.sequence] = bar
    batch_result = run(entry, entry.chunks, given)
    has_operators = bool(executor.plan.continuous or executor.plan.one_time or executor.kept.divided)
    is_divided = in_tasks and has_operators
    # Each time at least the first chunk that was wrong becomes right.
    while wrong := misjudged(batch_result.results, bars, executor.clock.slacks):
        given.update({at: replace(given[at], newest=newest, is_exact=True) for at, newest in wrong.items()})
        if is_divided:
            # The operators have not taken in anything that is wrong, and wait for the rest.
            batch_result = run(entry, entry.chunks, given)
        else:
            again = [chunk for chunk in entry.chunks if (chunk.stream, chunk.sequence) in wrong]
            right = [r for r in batch_result.results if (r.stream, r.sequence) not in wrong]
            batch_result = replace(batch_result, results=[*right, *run(entry, again, given).results])
    results = tell_lateness(batch_result.results, bars, executor.clock.slacks)
    parts = batch_result.parts if in_tasks else _scanned(results, executor)
    return replace(batch_result, results=results, parts=parts)


def _scanned(results: Sequence[ChunkResult], executor: QueryExecutor) -> dict[int, JobResult]:
    """The rows of scans, where all operators are here: they are for them."""
    parts = {}
    for number, part in executor.parts.items():
        rows = [
            (scan.name, result.sequence, rows.delta)
            for result in results
            for rows in result.scanned
            for scan in part.plan.scans
            if executor.scans[scan.name] == rows.scan
        ]
        parts[number] = JobResult(tuple(rows))
    return parts
