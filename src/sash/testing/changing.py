"""Runs whose queries come and go, and what the oracle says of them.

A query that comes into a run answers from the first instant at which its windows are whole, up to the instant
that the run had reached when it was dropped. So its answers are those over all rows of its streams, from
then on: a view begins with its whole answer, Istream and Dstream with what differs after that instant. One
that would never be whole is refused, and is not there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sash.engine.control_channel import ControlChannel, Served
from sash.engine.engine import Engine
from sash.engine.starts import NEVER
from sash.errors import UserError
from sash.lang import Program
from sash.lang.algebra import OutputKind, Project, Select, Stream, Window, WindowKind
from sash.lang.bound import QueryDefinition
from sash.operators.operator import begin_of, news_of
from sash.plan.run_plan import slide_of
from sash.runtime.run import run_program
from sash.testing.oracle import Oracle, unit_of
from sash.testing.rows import Answers, Bag
from sash.testing.runs import Outcome, StopAfter, bound, difference
from sash.testing.scenario import Scenario
from sash.testing.streams import MadeStream


@dataclass(frozen=True, slots=True)
class Stay:
    """A query that is there from the batch `begin` on, and until before the batch `end`, if there is one."""

    begin: int
    end: int | None = None

    def has(self, batch: int) -> bool:
        return self.begin <= batch and (self.end is None or batch < self.end)


@dataclass(slots=True)
class Life:
    """What became of a query: how far the run was when it came and went, and what it knew of each stream.

    `known`: after which instant it knew all rows; streams that are not named it knew from the first row on.
    `first` is what the run says of its start.
    """

    known: Mapping[str, int]
    came: int | None = None
    until: int | None = None
    is_over: bool = False
    # It reads a synopsis that was there, which may know more.
    is_guest: bool = False
    first: Mapping[str, int] = field(default_factory=dict)
    # How far it had been answered when somebody looked last.
    reached: int | None = None


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
        stops = [*(interruptions or ()), None]
        while stops:
            monitor = StopAfter(stops[0])
            try:
                summary = run_program(
                    schedule.program,
                    base_dir=directory,
                    runtime=runtime,
                    master=master,
                    partitions=partitions,
                    max_driver_groups=max_driver_groups,
                    checkpoint=None if interruptions is None else directory / "checkpoint",
                    dead_letters=directory / "dead-letters",
                    batch_rows=batch_rows,
                    monitor=monitor,
                    stop=monitor.stop,
                    control=schedule,
                )
            except UserError as refused:
                # A query that comes with the program of a restart.
                schedule.refuse(refused)
                continue
            stops.pop(0)
            schedule.batch = summary.batches
            schedule.end()
            if not summary.interrupted:
                break
            schedule = _Schedule(self, schedule.batch, schedule.lives, schedule.refused)
        whole = bound(self.text_of_all())
        outcome = Outcome(directory, whole, summary, 1)
        for name, life in schedule.lives.items():
            end = life.until if life.is_over else summary.watermarks[name]
            given, right = outcome.answers(name), self.expected(name, life, end)
            assert given == right, difference(name, f"{self}\n{life}\n{whole}", given, right)

    def text_of_all(self) -> str:
        return "".join(
            (*(s.declaration for s in self.scenario.sources), *self._readers(), *self.scenario.queries)
        )

    def expected(self, name: str, life: Life, end: int | None) -> Answers:
        """The answers of one query, recomputed from all rows."""
        program = bound(self.text_of_all())
        streams = {stream.name: stream.arrived() for stream in self.scenario.streams}
        relations = {relation.name: relation.arrived() for relation in self.scenario.relations}
        if end is None or end == life.came:
            # Time has not moved meanwhile.
            return {}
        oracle = Oracle(program, streams, relations, end=end)
        query = next(query for query in program.queries if query.name == name)
        begin = life.first.get(begin_of(name))
        if begin is None:
            assert life.came is None
            return oracle.changes(query)
        tells_news = news_of(name) in life.first
        assert life.came is None or begin > life.came or tells_news
        rule = self._rule(query, life, is_news=tells_news)
        if begin == NEVER:
            # Not all rows have come that it waits for.
            assert rule is None or rule > end, (rule, end, str(query), life)
            return {}
        assert rule is None or begin == rule, (begin, rule, str(query), life)
        return _from_then_on(oracle, query, begin, is_news=tells_news) if begin <= end else {}

    def _rule(self, query: QueryDefinition, life: Life, *, is_news: bool) -> int | None:
        """When a query begins that has windows of RANGE, ROWS or NOW over streams only; None: others, too."""
        windows = [node for node in query.plan.walk() if isinstance(node, Window)]
        plain = all(
            w.spec.kind in _RULED and not w.spec.partition and not w.spec.is_internal and _leaf(w) is not None
            for w in windows
        )
        if life.is_guest or not plain or life.came is None or query.plan.kind is OutputKind.WSTREAM:
            return None
        slide = slide_of(query.plan)
        if is_news and slide is None:
            return None
        step = slide or unit_of(bound(self.text_of_all()), query.plan) or 1

        wholes = [
            whole
            for window in windows
            for leaf in [_leaf(window)]
            if leaf is not None and (whole := self._whole(window, leaf, life)) is not None
        ]
        return -(-max([life.came + 1, *wholes]) // step) * step

    def _whole(self, window: Window, leaf: Stream, life: Life) -> int | None:
        """The first instant at which a window is whole; None: it is at any."""
        since, spec = life.known.get(leaf.name), window.spec
        if since is None:
            return None
        if spec.kind is WindowKind.NOW:
            return since + 1
        if spec.kind is WindowKind.RANGE:
            return -(-(since + (spec.range or 0)) // (spec.slide or 1)) * (spec.slide or 1)
        (stream,) = (stream for stream in self.scenario.streams if stream.name == leaf.name)
        times = sorted(stream.arrived().in_time(stream.slack, stream.max_ahead).ts)
        later, slide = [ts for ts in times if ts > since], spec.slide or 1
        needed = (spec.rows or 0) + slide - 1
        if life.came is not None and life.came >= since:
            # Up to the first move of which all rows are known.
            unknown = len(times) - len(later)
            needed = -(-(unknown + (spec.rows or 0)) // slide) * slide - unknown
        return int(later[needed - 1]) if needed <= len(later) else NEVER


_RULED = frozenset({WindowKind.RANGE, WindowKind.ROWS, WindowKind.NOW})


def _leaf(window: Window) -> Stream | None:
    """The stream that a window is over, if it is not over a sub-query."""
    node = window.input
    while isinstance(node, Select | Project):
        node = node.input
    return node if isinstance(node, Stream) else None


def _from_then_on(oracle: Oracle, query: QueryDefinition, first: int, *, is_news: bool) -> Answers:
    """What a query gives of its answers if it begins at the instant `first`."""
    kind = query.plan.kind
    if is_news or kind is OutputKind.ISTREAM_RESTORE:
        return {key: bag for key, bag in oracle.changes(query).items() if key[0] > first}
    if kind in (OutputKind.RSTREAM, OutputKind.RSTREAM_RESTORE):
        later = {key: bag for key, bag in oracle.changes(query).items() if key[0] > first}
        held = _held_at(oracle, query, OutputKind.VIEW, first)
        return {**({(first, ""): held} if held else {}), **later}
    log = {key: bag for key, bag in oracle.changes(query).items() if key[0] > first}
    held = _held_at(oracle, query, kind, first)
    return {**({(first, "+"): held} if held else {}), **log}


def _held_at(oracle: Oracle, query: QueryDefinition, kind: OutputKind, at: int) -> Bag:
    """The rows of the view of a query at an instant."""
    held: Bag = Counter()
    for (instant, op), bag in oracle.changes(replace(query, plan=replace(query.plan, kind=kind))).items():
        if instant <= at:
            for row, count in bag.items():
                held[row] += count if op == "+" else -count
    return +held


def _is_guest(engine: Engine, query: str) -> bool:
    parts = engine.executor.parts.values()
    own = {spec.name: part.number for part in parts for spec in part.plan.synopses}
    return any(
        q.name == query and own[q.synopsis] != part.number for part in parts for q in part.plan.queries
    ) or any(query in part.plan.readers for part in parts)


def _known_since(stream: MadeStream, read: int, through: int | None) -> int | None:
    """After which instant a query that comes now knows all rows of an ordered stream; None: it knows all."""
    times = replace(stream, rows=stream.rows[:read]).arrived().in_time(stream.slack, stream.max_ahead).ts
    if not times:
        return None
    if stream.retain is None or through is None:
        return max(times) if stream.retain is None else None
    return through - stream.retain if min(times) <= through - stream.retain else None


@dataclass(eq=False)
class _Schedule(ControlChannel):
    """Changes that are due at certain batches, and what was known when they were made."""

    changing: Changing
    batch: int = 0
    lives: dict[str, Life] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()
        self._engine: Engine | None = None

    @property
    def program(self) -> Program:
        return self._at(self.batch)

    def _at(self, batch: int) -> Program:
        program = self.changing.program_at(batch)
        queries = tuple(query for query in program.queries if query.name not in self.refused)
        return replace(program, queries=queries)

    def refuse(self, refused: UserError) -> None:
        """A query would never be whole."""
        if refused.id != "rows-are-gone":
            raise refused
        self.refused.add(str(refused).split()[1])

    def serve(self, run: Served) -> None:
        assert isinstance(run, Engine)
        engine, batch = run, run.taken + 1
        self._engine = engine
        engine.settle()
        before = engine.executor.watermarks
        while self._at(batch) != self._at(self.batch):
            try:
                engine.change(self._at(batch))
                break
            except UserError as refused:
                self.refuse(refused)
        self.batch = batch
        there = {query.name for query in self._at(batch).queries if query.sink != "noop:"}
        engine.settle()
        passed, watermarks = engine.executor.passed, engine.executor.watermarks
        known = {
            stream.name: since
            for stream in self.changing.scenario.streams
            for since in [
                _known_since(stream, engine.streams[stream.name].counts.read, passed.get(stream.name))
            ]
            if since is not None
        }
        for name in sorted(there - self.lives.keys()):
            self.lives[name] = Life(known, watermarks[name], is_guest=_is_guest(engine, name))
        self.end()
        for name, life in self.lives.items():
            if name not in there and not life.is_over:
                life.is_over, life.until = True, before.get(name, life.reached)

    def end(self) -> None:
        """Note what the run says of the starts of its queries."""
        if self._engine is not None:
            watermarks = self._engine.executor.watermarks
            for part in self._engine.executor.parts.values():
                first = self._engine.firsts.get(part.number, {})
                for query in part.definitions:
                    if query.name in self.lives:
                        self.lives[query.name].first = first
                        self.lives[query.name].reached = watermarks[query.name]
