"""What a run tells whoever watches it: one report a micro-batch and a summary at the end.

The runtimes make these; the live view, the plain log and the tests read them. All times of the stream
are microseconds, all durations seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from sash.lang.algebra import Node
from sash.plan.explain.tree import Measured


@dataclass(frozen=True, slots=True)
class StreamCounts:
    """Rows of one stream since the start of the run (with a checkpoint: since its very first start).

    Every row read is accepted, late or rejected: `read == accepted + late + rejected`.
    """

    accepted: int = 0
    late: int = 0
    rejected: int = 0

    @property
    def read(self) -> int:
        return self.accepted + self.late + self.rejected

    def __add__(self, other: StreamCounts) -> StreamCounts:
        return StreamCounts(
            self.accepted + other.accepted, self.late + other.late, self.rejected + other.rejected
        )


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One micro-batch. `answers` holds, per query, the rows that this batch gave to its sink."""

    number: int
    rows: int
    seconds: float
    clock: int | None
    progress: float | None
    streams: Mapping[str, StreamCounts]
    answers: Mapping[str, pa.Table] = field(default_factory=dict)
    answered: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Summary:
    """The whole run.

    `answered` counts the result rows per query, `seconds` is the time on the wall, `aside` is the folder in
    which late and rejected rows are kept. `measured` has, per query, what came of the operators of its plan;
    `rates` the rows per second of event time of each stream; `once` the answers of one-time queries.
    """

    batches: int
    seconds: float
    clock: int | None
    streams: Mapping[str, StreamCounts]
    answered: Mapping[str, int]
    interrupted: bool = False
    aside: Path | None = None
    measured: Mapping[str, Mapping[Node, Measured]] = field(default_factory=dict, repr=False)
    rates: Mapping[str, float] = field(default_factory=dict)
    once: Mapping[str, pa.Table] = field(default_factory=dict)


class Monitor(Protocol):
    """Somebody who watches a run. Calls come from the runtime's own thread and must return soon."""

    def started(self, queries: Mapping[str, str], streams: Mapping[str, str]) -> None:
        """The run begins: query name to sink, stream name to source."""

    def batch(self, report: BatchReport) -> None: ...

    def finished(self, summary: Summary) -> None: ...


class Silent:
    """Watches nothing."""

    def started(self, queries: Mapping[str, str], streams: Mapping[str, str]) -> None:
        pass

    def batch(self, report: BatchReport) -> None:
        pass

    def finished(self, summary: Summary) -> None:
        pass
