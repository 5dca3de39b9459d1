"""What the tasks of a batch bring home to the driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sash.operators.dataflow import Tally
from sash.operators.delta import Delta
from sash.runtime.cell import StateFile
from sash.runtime.stage import ChunkResult


@dataclass(frozen=True, slots=True)
class Harvest:
    """`results` of chunks in order of arrival, and rows for the operators at the driver.

    `rows` are (input, rank, rows); `first` the first instants of the streams that sub-queries give; `files`
    the state of each cell after the batch; `tallies` what operators did, by (operator, partition).
    """

    results: Sequence[ChunkResult]
    rows: tuple[tuple[str, int, Delta], ...] = ()
    first: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, tuple[StateFile, ...]] = field(default_factory=dict)
    tallies: Mapping[tuple[int, int], Tally] = field(default_factory=dict)


def scanned(results: Sequence[ChunkResult]) -> Harvest:
    """The harvest where all operators are at the driver: the rows of scans are for them."""
    rows = ((rows.scan, result.sequence, rows.delta) for result in results for rows in result.scanned)
    return Harvest(results, tuple(rows))
