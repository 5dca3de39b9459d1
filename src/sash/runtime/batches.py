"""Running the chunks of a batch, and once more those that judged a late row wrongly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sash.runtime.clock import Streams
from sash.runtime.feed import Entry
from sash.runtime.harvest import Harvest, PartHarvest
from sash.runtime.plane import QueryPlane
from sash.runtime.sources import Chunk
from sash.runtime.stage import ChunkResult, misjudged

Newest = Mapping[tuple[str, int], int | None]
"""The newest timestamp before each chunk, by (stream, sequence)."""
RunBatch = Callable[[Entry, Sequence[Chunk], Newest], Harvest]
"""Runs chunks of a batch, all of them or some once more; where operators run in tasks, those, too."""


def run_exactly(
    entry: Entry, run: RunBatch, plane: QueryPlane, streams: Streams, *, in_tasks: bool
) -> Harvest:
    """What a batch gives; `in_tasks`: operators run there, not here."""
    bars = plane.clock.bars(streams)
    given = {(chunk.stream, chunk.sequence): bars[chunk.stream] for chunk in entry.chunks}
    harvest = run(entry, entry.chunks, given)
    wrong = misjudged(harvest.results, bars, plane.clock.slacks)
    has_operators = bool(plane.plan.continuous or plane.plan.one_time or plane.kept.divided)
    is_divided = in_tasks and has_operators
    if wrong and is_divided:
        # The operators have not taken in anything that is wrong, and wait for the rest.
        harvest = run(entry, entry.chunks, {**given, **wrong})
    elif wrong:
        again = [chunk for chunk in entry.chunks if (chunk.stream, chunk.sequence) in wrong]
        right = [r for r in harvest.results if (r.stream, r.sequence) not in wrong]
        harvest = replace(harvest, results=[*right, *run(entry, again, wrong).results])
    results = sorted(harvest.results, key=lambda result: (result.stream, result.sequence))
    parts = harvest.parts if in_tasks else _scanned(results, plane)
    return replace(harvest, results=results, parts=parts)


def _scanned(results: Sequence[ChunkResult], plane: QueryPlane) -> dict[int, PartHarvest]:
    """The rows of scans, where all operators are here: they are for them."""
    parts = {}
    for number, part in plane.parts.items():
        rows = [
            (scan.name, result.sequence, rows.delta)
            for result in results
            for rows in result.scanned
            for scan in part.plan.scans
            if plane.scans[scan.name] == rows.scan
        ]
        parts[number] = PartHarvest(tuple(rows))
    return parts
