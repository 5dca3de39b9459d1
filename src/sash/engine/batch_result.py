"""What the tasks of a batch bring home to the driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sash.engine.durability.operator_state import StateFile
from sash.engine.durability.wire import Packed
from sash.engine.ingest.first_stage import ChunkResult
from sash.engine.periodic.partitioned import PartitionedResult
from sash.operators.dataflow import Tally
from sash.operators.delta import Delta


@dataclass(frozen=True, slots=True)
class JobResult:
    """Of one part of the run: rows for its operators at the driver, as (input, rank, rows).

    `first` are the first instants of the streams that sub-queries give; `tallies` what operators did, by
    (operator, partition).
    """

    rows: tuple[tuple[str, int, Delta | Packed], ...] = ()
    first: Mapping[str, int] = field(default_factory=dict)
    tallies: Mapping[tuple[int, int], Tally] = field(default_factory=dict)


NOTHING = JobResult()


@dataclass(frozen=True, slots=True)
class BatchResult:
    """`results` of chunks in order of arrival; `files`: the state of each cell after the batch."""

    results: Sequence[ChunkResult]
    files: Mapping[str, tuple[StateFile, ...]] = field(default_factory=dict)
    parts: Mapping[int, JobResult] = field(default_factory=dict)
    # Of the synopses that are in partitions, in the order of those.
    divided: Sequence[PartitionedResult] = ()

    def of(self, part: int) -> JobResult:
        return self.parts.get(part, NOTHING)
