"""What a run tells whoever watches it: one report a micro-batch and a summary at the end.

The runtimes make these; the live view, the plain log and the tests read them. All times of the stream
are microseconds, all durations seconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from sash.archive.report import UpdateReport
from sash.lang.algebra import Node
from sash.plan.explain.tree import Measured
from sash.sharing.of_plan import Shared


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


DRIVER = -1
"""The partition that is none: the state in the process that answers."""


@dataclass(frozen=True, slots=True)
class Held:
    """State: rows, the memory that its arrays take, and the groups that synopses have."""

    rows: int = 0
    bytes: int = 0
    groups: int = 0

    def __add__(self, other: Held) -> Held:
        return Held(self.rows + other.rows, self.bytes + other.bytes, self.groups + other.groups)


@dataclass(frozen=True, slots=True)
class Parts:
    """Where the seconds of a batch went.

    `read`: chunks and, where operators run in tasks, those; on Spark the whole job. `wait`: for the batch
    before, if its answers were still being written. `answer`: synopses and operators of the driver. `write`:
    rows to sinks and side files. `commit`: making all of it durable.
    """

    read: float = 0.0
    wait: float = 0.0
    answer: float = 0.0
    write: float = 0.0
    commit: float = 0.0


@dataclass(frozen=True, slots=True)
class OperatorTally:
    """What an operator of a query did since the start of the process, and what it holds now.

    `number` is its place in the plan, 0 on top; `operator` its line there. `rows_out` counts `negative`
    tuples, too. An operator that queries share is told for each of them.
    """

    query: str
    number: int
    operator: str
    rows_in: int = 0
    rows_out: int = 0
    negative: int = 0
    held: Held = Held()


@dataclass(frozen=True, slots=True)
class QueryRefreshStats:
    """How a periodic query is refreshed, in seconds of event time.

    `at` is the instant that its answer is of, in microseconds; `period` is what it asks for, `granted` what
    it last got, `late` how much more than the period had passed then, `worst` the most so far. `skipped`
    counts boundaries that were passed over. `behind` is how far `at` was behind the clock on the wall when it
    was committed, where the stream is live. `shared` is what it reads and with whom. `held` is the state that
    it reads, which is with the driver, or in so many `partitions` (0: none). `policy` is that of the
    scheduler which decides when it is refreshed; None: at every boundary. Where what it reads was not kept
    for so long before it came, `whole_from` is the instant from which its windows are whole.
    """

    at: int | None
    period: float
    granted: float | None
    late: float = 0.0
    worst: float = 0.0
    skipped: int = 0
    behind: float | None = None
    shared: Shared | None = None
    held: Held = Held()
    partitions: int = 0
    policy: str | None = None
    whole_from: int | None = None

    @property
    def is_elastic(self) -> bool:
        return self.policy is not None


@dataclass(frozen=True, slots=True)
class RefreshStats:
    """How a run refreshes queries that do not say so, by which scheduler, and how each query fares there."""

    refresh: str
    policy: str
    queries: Mapping[str, QueryRefreshStats] = field(default_factory=dict)
    whole_from: Mapping[str, int] = field(default_factory=dict)


RECORD = b"sash.record"
"""The key of the record in the metadata of the schema of a one-time answer."""


@dataclass(frozen=True, slots=True)
class AnswerRecord:
    """What an answer says of itself: its instant, and how far it can be relied on.

    Times are in the unit of the query. `lacking_until`: windows of this instant lack rows, and are whole from
    then on (None with `is_complete` false: that is not known yet). `skipped_after`: the instant of the answer
    before, if boundaries were passed over since then. `bounds`: how far off columns can be that are
    approximate; without any the answer is exact. `is_progress`: there are no rows of an answer with it, it
    tells that all answers up to the instant have been given.
    """

    instant: int
    is_complete: bool = True
    lacking_until: int | None = None
    bounds: tuple[tuple[str, str], ...] = ()
    skipped_after: int | None = None
    is_progress: bool = False

    @staticmethod
    def of(
        instant: int,
        whole_from: int | None,
        bounds: Mapping[str, str],
        *,
        is_partial: bool,
        skipped_after: int | None = None,
    ) -> AnswerRecord:
        """`is_partial`: the query answers before its windows are whole, too."""
        lacks = is_partial and (whole_from is None or instant < whole_from)
        lacking_until = whole_from if lacks else None
        return AnswerRecord(instant, not lacks, lacking_until, tuple(bounds.items()), skipped_after)

    def to_dict(self) -> dict[str, Any]:
        """As it is written down; the keys come in this order."""
        return {
            "instant": self.instant,
            "is_complete": self.is_complete,
            "lacking_until": self.lacking_until,
            "skipped_after": self.skipped_after,
            "bounds": dict(self.bounds),
        }

    def to_json(self) -> str:
        """The same in one line."""
        return json.dumps(self.to_dict(), ensure_ascii=False, separators=(",", ":"))

    @property
    def is_exact(self) -> bool:
        return not self.bounds


@dataclass(frozen=True, slots=True)
class Measures:
    """What operators did. `queries`: the state behind each query; what several share counts for each.

    `refreshes` has the periodic queries. `decisions` and `deciding` are how many decisions of a scheduler
    there were since the start of the process, and the seconds that they took. `whole_from`: by query, from
    when on its windows are whole, in the unit of its time; queries that still wait for rows are not there.
    `records`: what answers of the instant say of themselves that queries have come to; `units`: how many
    microseconds there are in an instant of a query.
    """

    operators: tuple[OperatorTally, ...] = ()
    queries: Mapping[str, Held] = field(default_factory=dict)
    refreshes: Mapping[str, QueryRefreshStats] = field(default_factory=dict)
    decisions: int = 0
    deciding: float = 0.0
    whole_from: Mapping[str, int] = field(default_factory=dict)
    records: Mapping[str, AnswerRecord] = field(default_factory=dict)
    units: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One micro-batch. `answers` holds, per query, the newest rows that this batch gave to its sink, and all
    of them where the monitor watches the query; `given` counts them.

    `newest` is the greatest timestamp of each stream, `behind` how many seconds those of live sources are
    behind the clock on the wall. `state` is what each partition holds, `memory` what the driver's process
    takes. `archives` has what was done to archives that were brought up to date. `measure` tells the
    operators apart, `refresh` how periodic queries fare, `whole_from` is as in `Measures`: they may be called
    while the monitor is told of the batch, not later, and cost something with hundreds of queries. `time` is
    when the batch was committed, and `live` has the queries over streams that go by the clock on the wall.
    `slacks` are as in the summary.
    `watermarks` are those of the queries, `clock` is the least of them. `progressed` has what queries told in
    this batch that tell their progress; `skipped_after`, of queries that passed boundaries over in it, the
    instant after which they did, in the unit of the query.
    """

    number: int
    rows: int
    seconds: float
    clock: int | None
    progress: float | None
    streams: Mapping[str, StreamCounts]
    answers: Mapping[str, pa.Table] = field(default_factory=dict)
    given: Mapping[str, int] = field(default_factory=dict)
    answered: Mapping[str, int] = field(default_factory=dict)
    parts: Parts = Parts()
    newest: Mapping[str, int | None] = field(default_factory=dict)
    behind: Mapping[str, float] = field(default_factory=dict)
    state: Mapping[int, Held] = field(default_factory=dict)
    memory: int | None = None
    archives: Mapping[str, UpdateReport] = field(default_factory=dict)
    measure: Callable[[], Measures] = field(default=Measures, compare=False, repr=False)
    refresh: Callable[[], Mapping[str, QueryRefreshStats]] = field(default=dict, compare=False, repr=False)
    time: float = 0.0
    live: frozenset[str] = frozenset()
    slacks: Mapping[str, int] = field(default_factory=dict)
    watermarks: Mapping[str, int | None] = field(default_factory=dict)
    whole_from: Callable[[], Mapping[str, int]] = field(default=dict, compare=False, repr=False)
    progressed: Mapping[str, AnswerRecord] = field(default_factory=dict)
    skipped_after: Mapping[str, int] = field(default_factory=dict)

    @property
    def lag(self) -> float | None:
        """Seconds of event time by which the clock is behind the newest row; None before there is a clock."""
        newest = max((instant for instant in self.newest.values() if instant is not None), default=None)
        if newest is None or self.clock is None:
            return None
        return max(0, newest - self.clock) / 1_000_000

    @property
    def held(self) -> Held:
        """All state together."""
        return sum(self.state.values(), Held())


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a run has come with a commit."""

    through: int | None = None
    streams: Mapping[str, StreamCounts] = field(default_factory=dict)
    answered: Mapping[str, int] = field(default_factory=dict)
    watermarks: Mapping[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Summary:
    """The whole run.

    `answered` counts the result rows per query, `seconds` is the time on the wall, `dead_letters` is the
    folder in which late and rejected rows are kept. `measured` has, per query, what came of the operators of
    its plan; `rates` the rows per second of event time of each stream; `once` the answers of one-time
    queries; `chosen`, per query, what the run has chosen by what it learnt; `refreshes` how periodic queries
    fared; `slacks`, of streams with late rows, the SLACK in microseconds that would have kept them all;
    `watermarks` how far time came for each query, and `clock` is the least of them; `abandoned`: the batch
    under way was given up, and all this is of the last commit.
    """

    batches: int
    seconds: float
    clock: int | None
    streams: Mapping[str, StreamCounts]
    answered: Mapping[str, int]
    interrupted: bool = False
    dead_letters: Path | None = None
    measured: Mapping[str, Mapping[Node, Measured]] = field(default_factory=dict, repr=False)
    rates: Mapping[str, float] = field(default_factory=dict)
    once: Mapping[str, pa.Table] = field(default_factory=dict)
    chosen: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    refreshes: Mapping[str, QueryRefreshStats] = field(default_factory=dict)
    slacks: Mapping[str, int] = field(default_factory=dict)
    watermarks: Mapping[str, int | None] = field(default_factory=dict)
    abandoned: bool = False


class Monitor(Protocol):
    """Somebody who watches a run. Calls come from the runtime's own thread and must return soon."""

    def started(self, queries: Mapping[str, str], streams: Mapping[str, str]) -> None:
        """The run begins: query name to sink, stream name to source."""

    def watches(self, query: str) -> bool:
        """Whether all answers of a query are wanted with the report of a batch, not only the newest."""
        ...

    def batch(self, report: BatchReport) -> None: ...

    def warning(self, text: str) -> None:
        """Something that the run survives and that somebody should know."""

    def finished(self, summary: Summary) -> None: ...


class Silent:
    """Watches nothing."""

    def started(self, queries: Mapping[str, str], streams: Mapping[str, str]) -> None:
        pass

    def watches(self, query: str) -> bool:
        return False

    def batch(self, report: BatchReport) -> None:
        pass

    def warning(self, text: str) -> None:
        pass

    def finished(self, summary: Summary) -> None:
        pass


class Monitors:
    """Tells several what it is told, in their order."""

    def __init__(self, *monitors: Monitor) -> None:
        self._monitors = monitors

    def started(self, queries: Mapping[str, str], streams: Mapping[str, str]) -> None:
        for monitor in self._monitors:
            monitor.started(queries, streams)

    def watches(self, query: str) -> bool:
        return any(monitor.watches(query) for monitor in self._monitors)

    def batch(self, report: BatchReport) -> None:
        for monitor in self._monitors:
            monitor.batch(report)

    def warning(self, text: str) -> None:
        for monitor in self._monitors:
            monitor.warning(text)

    def finished(self, summary: Summary) -> None:
        for monitor in self._monitors:
            monitor.finished(summary)
