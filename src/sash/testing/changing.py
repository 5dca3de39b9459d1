"""Runs whose queries come and go, and what the oracle says of them.

A query knows the rows that arrived while it was there, and those that its streams kept when it came (RETAIN),
so its answers are those of a run over these rows alone, up to the instant that the run had reached when the
query was dropped.

A guest, which reads a join synopsis that is there, knows the rows of the part that has it, as far as all of
their results are known; its first answer is that of the first slide after it came, and tells all there is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sash.lang import Program
from sash.lang.algebra import OutputKind, Stream
from sash.lang.bound import QueryDefinition
from sash.runtime.desk import Desk, Served
from sash.runtime.engine import Engine
from sash.runtime.run import run_program
from sash.testing.oracle import Oracle
from sash.testing.rows import Answers, Bag
from sash.testing.runs import Outcome, StopAfter, bound, difference
from sash.testing.scenario import Scenario
from sash.testing.streams import MadeRow, MadeStream


@dataclass(frozen=True, slots=True)
class Stay:
    """A query that is there from the batch `begin` on, and until before the batch `end`, if there is one."""

    begin: int
    end: int | None = None

    def has(self, batch: int) -> bool:
        return self.begin <= batch and (self.end is None or batch < self.end)


@dataclass(frozen=True, slots=True)
class Visit:
    """How a guest reads a join synopsis: since when, and of which rows of each input, by their instants."""

    since: int | None
    slide: int
    inputs: tuple[tuple[str, int | None], ...]

    @property
    def can_be_recomputed(self) -> bool:
        """Whether all rows of a stream are known, or not known, to both inputs."""
        return len(set(self.inputs)) == len({name for name, _ in self.inputs})


@dataclass(slots=True)
class Life:
    """What became of a query: how many rows of each stream had been read when it came; when it came and went.

    A guest of a join synopsis has a `visit`, and the rows that had been read when its host came.
    """

    read: Mapping[str, int]
    came: int | None = None
    until: int | None = None
    is_over: bool = False
    # It reads a synopsis of a stream that knows more rows.
    is_guest: bool = False
    visit: Visit | None = None


@dataclass(frozen=True, slots=True)
class Changing:
    """A scenario with the stays of its queries. All streams are read from the start."""

    scenario: Scenario
    stays: tuple[Stay, ...]

    def ordered(self) -> Changing:
        """The same without late rows: what is late to a run need not be late to one that begins later."""
        streams = tuple(
            replace(stream, rows=tuple(sorted(stream.rows, key=lambda row: (row.time is not None, row.time))))
            for stream in self.scenario.streams
        )
        return replace(self, scenario=replace(self.scenario, streams=streams))

    def text_at(self, batch: int) -> str:
        """The program of a batch."""
        there = [q for q, stay in zip(self.scenario.queries, self.stays, strict=True) if stay.has(batch)]
        return "".join((*(source.declaration for source in self.scenario.sources), *self._readers(), *there))

    def _readers(self) -> list[str]:
        """Queries that keep all streams in the run."""
        return [
            f"CREATE QUERY reader{i} INTO 'noop:' AS SELECT COUNT(*) AS n FROM {stream.name} [NOW];\n"
            for i, stream in enumerate(self.scenario.streams)
        ]

    def program_at(self, batch: int) -> Program:
        return bound(self.text_at(batch))

    def run(
        self,
        directory: Path,
        *,
        runtime: str = "inline",
        batch_rows: int | None = None,
        interruptions: Sequence[int] | None = None,
        partitions: int | None = None,
        max_driver_groups: int | None = None,
        master: str = "local[2]",
    ) -> None:
        """Run in `directory`, which must be new, and assert that every query gave what it should."""
        directory.mkdir(parents=True)
        for source in self.scenario.sources:
            source.write(directory)
        schedule = _Schedule(self)
        for batches in (*(interruptions or ()), None):
            monitor = StopAfter(batches)
            summary = run_program(
                self.program_at(schedule.batch),
                base_dir=directory,
                runtime=runtime,
                master=master,
                partitions=partitions,
                max_driver_groups=max_driver_groups,
                checkpoint=None if interruptions is None else directory / "checkpoint",
                aside=directory / "aside",
                batch_rows=batch_rows,
                monitor=monitor,
                stop=monitor.stop,
                desk=schedule,
            )
            schedule.batch = summary.batches
            if not summary.interrupted:
                break
            schedule = _Schedule(self, schedule.batch, schedule.lives, schedule.parts)
        whole = bound(self.text_of_all())
        outcome = Outcome(directory, whole, summary, 1)
        for name, life in schedule.lives.items():
            if life.is_guest or (life.visit is not None and not life.visit.can_be_recomputed):
                continue
            end = life.until if life.is_over else summary.clock
            given, right = outcome.answers(name), self.expected(name, life, end)
            assert given == right, difference(name, f"{self}\n{life}\n{whole}", given, right)

    def text_of_all(self) -> str:
        return "".join(
            (*(s.declaration for s in self.scenario.sources), *self._readers(), *self.scenario.queries)
        )

    def expected(self, name: str, life: Life, end: int | None) -> Answers:
        """The answers of one query, recomputed from the rows that it saw."""
        program = bound(self.text_of_all())
        known = dict(life.visit.inputs) if life.visit is not None else {}
        streams = {
            stream.name: _emptied(stream, life.read[stream.name], known.get(stream.name)).arrived()
            for stream in self.scenario.streams
        }
        relations = {relation.name: relation.arrived() for relation in self.scenario.relations}
        if end is None or end == life.came:
            # Time has not moved meanwhile.
            return {}
        oracle = Oracle(program, streams, relations, end=end)
        query = next(query for query in program.queries if query.name == name)
        if life.visit is None or life.visit.since is None:
            return oracle.changes(query)
        first = (life.visit.since // life.visit.slide + 1) * life.visit.slide
        return _from_then_on(oracle, query, first) if first <= end else {}


def _emptied(stream: MadeStream, read: int, known: int | None) -> MadeStream:
    """The stream without the rows that had been read; those up to an instant have no values."""
    rows = stream.rows[read:]
    if known is not None:
        rows = tuple(
            row if row.time is None or row.time * stream.clock.tick > known else MadeRow(row.time)
            for row in rows
        )
    return replace(stream, rows=rows)


def _from_then_on(oracle: Oracle, query: QueryDefinition, first: int) -> Answers:
    """What a query gives of its answers if it comes shortly before the instant `first`."""
    kind = query.plan.kind
    if kind is OutputKind.RSTREAM:
        return {key: bag for key, bag in oracle.changes(query).items() if key[0] >= first}
    view = oracle.changes(replace(query, plan=replace(query.plan, kind=OutputKind.VIEW)))
    held: Bag = Counter()
    for (instant, op), bag in view.items():
        if instant <= first:
            for row, count in bag.items():
                held[row] += count if op == "+" else -count
    log = {key: bag for key, bag in view.items() if key[0] > first}
    if +held:
        log[first, "+"] = +held
    if kind is OutputKind.VIEW:
        return log
    op = "+" if kind is OutputKind.ISTREAM else "-"
    return {(instant, ""): bag for (instant, each), bag in log.items() if each == op}


def _is_guest(engine: Engine, query: str) -> bool:
    parts = engine.plane.parts.values()
    own = {spec.name: part.number for part in parts for spec in part.plan.synopses}
    return any(
        q.name == query and own[q.synopsis] != part.number for part in parts for q in part.plan.queries
    )


def _visit(engine: Engine, query: str) -> tuple[Visit, int] | None:
    """How a query reads a join synopsis of another part, and of which."""
    parts = engine.plane.parts.values()
    guest = next((p.plan.readers[query] for p in parts if query in p.plan.readers), None)
    if guest is None:
        return None
    hosts = ((part.number, join) for part in parts for join in part.plan.joins)
    number, join = next((number, join) for number, join in hosts if join.name == guest.spec.name)
    reader, spec = guest.reader, join.spec
    edge = None if reader.after is None else spec.panes.right_edge(reader.after)
    leaves = [leaf.name for leaf in join.join.source.walk() if isinstance(leaf, Stream)]
    known = [None if edge is None else edge + shift for shift in spec.shifts]
    return Visit(reader.since, reader.slide, tuple(zip(leaves, known, strict=True))), number


def _kept_from(stream: MadeStream, read: int, through: int | None) -> int:
    """How many rows of an ordered stream, of those that were read, are not kept any more."""
    if through is None or stream.retain is None:
        return 0
    times = [None if row.time is None else row.time * stream.clock.tick for row in stream.rows[:read]]
    return sum(time is None or time <= through - stream.retain for time in times)


@dataclass(eq=False)
class _Schedule(Desk):
    """Desk that are due at certain batches, and what was known when they were made."""

    changing: Changing
    batch: int = 0
    lives: dict[str, Life] = field(default_factory=dict)
    # How many rows had been read when each part came.
    parts: dict[int, Mapping[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()
        self._is_first = True

    def serve(self, run: Served) -> None:
        assert isinstance(run, Engine)
        engine, batch = run, run.taken + 1
        if not self._is_first and self.changing.text_at(batch) != self.changing.text_at(self.batch):
            engine.change(self.changing.program_at(batch))
        self._is_first, self.batch = False, batch
        there = {query.name for query in self.changing.program_at(batch).queries if query.sink != "noop:"}
        engine.settle()
        read = {}
        for stream in self.changing.scenario.streams:
            read[stream.name] = engine.streams[stream.name].counts.read
            if stream.retain is not None:
                read[stream.name] = _kept_from(stream, read[stream.name], engine.through)
        for number in engine.plane.parts:
            self.parts.setdefault(number, read)
        for name in there - self.lives.keys():
            self.lives[name] = Life(read, engine.through, is_guest=_is_guest(engine, name))
            visit = _visit(engine, name)
            if visit is not None:
                self.lives[name] = Life(self.parts[visit[1]], engine.through, visit=visit[0])
        for name, life in self.lives.items():
            if name not in there and not life.is_over:
                life.is_over, life.until = True, engine.through
