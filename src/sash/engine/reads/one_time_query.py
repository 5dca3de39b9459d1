"""One-time queries over the windows of a run as they are: from its synopses, or the rows that streams keep.

The rows that the windows can hold pass through the same operators as those of standing queries, from the
oldest that is needed to the instant that the run has reached; the answer is of that instant. Nothing of the
run is touched, so a question never waits for a batch, and no batch for a question.

With the isolation LWS the answer is that of the newest state when it is ready. Files are opened in TTU order,
those that go last first. If a batch was committed meanwhile, the operators go on from where they are with the
files that are new, as those of standing queries do with each batch; nothing is read twice, unless rows were
left out for want of a match (`join_probe.py`): then the newer state is evaluated from the beginning. With WS
the answer is that of the state when the question began; so it is with LWS after `ATTEMPTS` newer states, or
when they have taken `PATIENCE` seconds: no rate of commits starves a question. The answer tells its
isolation.

What a synopsis answers is looked up in memory, in the run's turn, so that no newer state can come; else in
the pane files of a state, and once more if a newer one came.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from sash.connectors.sources import Position, open_source, read
from sash.engine.continuous.continuous import ContinuousExecutor
from sash.engine.ingest.first_stage import lateness
from sash.engine.ingest.relations import Given, read_relations
from sash.engine.ingest.retained_files import FIRST, Gone, RetainedFile, Snapshot, in_order
from sash.engine.ingest.scans import scan_rows
from sash.engine.observe.report import AnswerRecord
from sash.engine.reads.index_probe import OpenFile, Probe
from sash.engine.reads.join_probe import links_by_scan
from sash.engine.reads.snapshot_registry import Reading, SnapshotRegistry, Step
from sash.engine.reads.synopsis_read import Asked, Covering, covering, from_synopsis
from sash.errors import CheckpointError, UserError
from sash.lang import Program, algebra
from sash.lang.algebra import Node, WindowKind, WindowSpec
from sash.lang.bound import QueryDefinition, StreamDefinition
from sash.operators.bounds import told_bounds, with_bounds
from sash.operators.delta import Delta
from sash.plan.canonical import canonical
from sash.plan.panes import last_boundary
from sash.plan.run_plan import RunPlan, Scan, plan_run, scan_nodes
from sash.transactions.events import Isolation

Rows = tuple[str, int, Delta]
# Changes of a relation that are read at once.
_FEED_ROWS = 1_000_000
# So often, and for so many seconds, a question takes in newer states; then it answers from the one it has.
ATTEMPTS = 5
PATIENCE = 1.0
# In another process nobody keeps files for a reader; so often it may find some gone.
_MOST_GONE = 200


@dataclass(frozen=True, slots=True)
class OnceAnswer:
    """The answer of a one-time query, and the instant whose windows it is over; None before the first.

    `unit` is how many microseconds there are in an instant of the query.
    """

    table: pa.Table
    instant: int | None
    batch: int
    isolation: Isolation
    unit: int = 1

    @property
    def record(self) -> AnswerRecord | None:
        """What it says of itself: its windows are whole, else the question is refused."""
        if self.instant is None:
            return None
        return AnswerRecord(self.instant // self.unit, bounds=tuple(told_bounds(self.table.schema).items()))


def look(
    program: Program,
    registry: SnapshotRegistry | None,
    base_dir: Path,
    isolation: Isolation | None = None,
    given: Given | None = None,
) -> OnceAnswer:
    """Answer the one-time query of a program; UserError if the streams do not keep what it needs.

    The isolation is what the query says, unless it is given. Relations that are `given` are not read.
    """
    if registry is None or registry.latest is None:
        raise UserError(
            "the run has not finished a batch yet", hint="ask again in a moment", id="nothing-yet"
        )
    (asked,) = program.one_time
    chosen = isolation or Isolation(asked.isolation or Isolation.LWS)
    question = Question(program, base_dir, registry.opened, given or {})
    name = " ".join(asked.text.split())
    found = _in_memory(question, registry, name, chosen)
    if found is not None:
        return found
    began, attempts, gone_files = time.monotonic(), 0, 0
    while True:
        with registry.reading(name, question.spans, chosen) as reading:
            while True:
                attempts += 1
                for step in reading.steps():
                    # A file that is gone is of no use to the newest state, either.
                    with suppress(Gone):
                        question.open(step)
                try:
                    question.evaluate(reading.state)
                except Gone as gone:
                    registry.follow()
                    gone_files += 1
                    if registry.latest is reading.state or gone_files > _MOST_GONE:
                        raise _lost(gone) from gone
                    if chosen is Isolation.WS:
                        # It has done nothing yet, and begins with another state.
                        break
                    continue
                question.tell_coverage(reading)
                if reading.commit():
                    return question.answer(chosen)
                if attempts >= ATTEMPTS or time.monotonic() - began > PATIENCE:
                    chosen = Isolation.WS
                    break


def _in_memory(
    question: Question, registry: SnapshotRegistry, name: str, isolation: Isolation
) -> OnceAnswer | None:
    """The answer from a synopsis in memory, in the run's turn; None if there is none that covers it."""
    if question.asked is None:
        return None
    with registry.turns:
        state = registry.latest
        if state is None or not question.is_in_memory(state):
            return None
        with registry.reading(name, question.spans, isolation) as reading:
            for _ in reading.steps():
                pass
            if reading.state is not state:
                return None
            question.evaluate(state, is_turn=True)
            question.tell_coverage(reading)
            if not reading.commit():
                return None
    return question.answer(isolation)


class Question:
    """A one-time query at work: a state is evaluated, then newer ones from there."""

    def __init__(self, program: Program, base_dir: Path, library: dict[str, OpenFile], given: Given) -> None:
        """`library` has files that others have opened, by name; relations that are `given` are not read."""
        self._library = library
        (self._asked,) = (query.plan for query in program.one_time)
        # As a synopsis may answer it.
        self.asked = Asked.of(self._asked)
        self._plan = plan_run(program)
        (self._query,) = self._plan.one_time
        self._base_dir = base_dir
        self._given = given
        self._executor = ContinuousExecutor(self._plan)
        self._streams = [
            stream
            for stream in self._plan.streams
            if stream.name not in self._plan.feeds and self._plan.scans_of(stream.name)
        ]
        self._links = links_by_scan(self._plan)
        # Whether rows were left out that have no match in the state that was evaluated: later ones may have.
        self._is_partial = False
        self._feeds = [_Feed(self._plan, name, base_dir) for name in self._plan.feeds]
        self._probes = {scan.name: Probe(scan, self._plan.stream(scan.stream)) for scan in self._plan.scans}
        # By name: files that were opened and are not yet taken in, and those that are.
        self._opened: dict[str, OpenFile] = {}
        self._taken: set[str] = set()
        # By stream: what a state has that was not asked for yet, the newest last.
        self._ahead: dict[str, tuple[Snapshot, list[RetainedFile]]] = {}
        self._relations: dict[str, list[Delta]] = {}
        self._since: dict[str, int] | None = None
        self._state: Snapshot | None = None
        self._through: int | None = None
        self._evaluated = 0
        # What a synopsis answered, and how.
        self._found: tuple[pa.Table, Covering] | None = None

    @property
    def spans(self) -> dict[str, int | None]:
        """By stream, how far back the windows reach at most; None: perhaps all the way."""
        return {stream.name: _span(self._query.plan, stream) for stream in self._streams}

    def _reach(self, snapshot: Snapshot) -> dict[str, int]:
        for stream in self._streams:
            if stream.name not in snapshot.streams:
                raise _refused(stream, "is not read by the run", "a query of the run has to read it")
        through = self._instant(snapshot)
        if through is None:
            return {}
        return {stream.name: _since(self._query.plan, stream, snapshot, through) for stream in self._streams}

    def _instant(self, snapshot: Snapshot) -> int | None:
        """The watermark of the question: the least over the streams that it reads."""
        return snapshot.through([stream.name for stream in self._streams])

    def open(self, step: Step) -> None:
        """Open the files of a sub-window, newest first."""
        state, files = self._ahead.get(step.stream, (None, []))
        if state is not step.state:
            files = []
            if not self._is_looked_up(step.state):
                files = [file for file in step.state.kept if file.stream == step.stream]
                files.sort(key=lambda file: file.newest)
            self._ahead[step.stream] = step.state, files
        while files and files[-1].newest > step.after:
            self._open(step.state, files.pop())

    def _is_looked_up(self, snapshot: Snapshot) -> bool:
        """Whether the files of a synopsis answer; once rows have been taken in, they do."""
        return self._covering(snapshot) is not None

    def is_in_memory(self, snapshot: Snapshot) -> bool:
        """Whether a synopsis in memory answers."""
        found = self._covering(snapshot, is_turn=True)
        return found is not None and found.is_in_memory

    def _covering(self, snapshot: Snapshot, *, is_turn: bool = False) -> Covering | None:
        """The synopsis that answers. `is_turn`: those in memory can be read now."""
        through, panes = self._instant(snapshot), snapshot.panes
        if self.asked is None or self._since is not None or through is None or panes is None:
            return None
        return covering(self.asked, panes if is_turn else panes.in_files(), through)

    def tell_coverage(self, reading: Reading) -> None:
        """Say which windows the answer needs, and since when what was read is complete."""
        state, through = reading.state, self._instant(reading.state)
        if self._found is not None:
            found = self._found[1]
            assert state.panes is not None
            since = state.panes.since(found.spec)
            reading.covered(found.spec.name, found.left, found.instant, since)
        elif through is not None and self._since is not None:
            for stream in self._streams:
                oldest = _oldest(self._query.plan, stream, through)
                if oldest is not None:
                    since = None if self._since[stream.name] == FIRST else self._since[stream.name]
                    reading.covered(f"rows of {stream.name}", oldest, through, since)

    def _open(self, snapshot: Snapshot, file: RetainedFile) -> None:
        if file.name not in self._opened and file.name not in self._taken:
            opened = self._library.get(file.name) or OpenFile(snapshot.directory, file)
            for scan in self._plan.scans_of(file.stream):
                opened.open_indexes(place for place, _ in self._probes[scan.name].conditions)
                opened.open_indexes(link.place for link in self._links.get(scan.name, ()))
            self._library[file.name] = self._opened[file.name] = opened

    def evaluate(self, snapshot: Snapshot, *, is_turn: bool = False) -> None:
        """Go on to a state, with what is new in it; Gone if a file is, and then nothing has happened."""
        self._found = None
        found = self._covering(snapshot, is_turn=is_turn)
        if found is not None:
            assert self.asked is not None
            assert snapshot.panes is not None
            self._found = from_synopsis(self.asked, found, snapshot.panes, snapshot.streams), found
            self._state = snapshot
            return
        if self._is_partial or any(self._is_known_in_part(file) for file in snapshot.kept):
            self._begin_again()
        since = self._since
        if since is None:
            since = self._reach(snapshot)
        files = {
            stream: in_order(
                file
                for file in snapshot.kept
                if file.stream == stream and file.newest > after and file.name not in self._taken
            )
            for stream, after in since.items()
        }
        for new in files.values():
            for file in new:
                self._open(snapshot, file)
        self._state, self._through = snapshot, self._instant(snapshot)
        if self._through is None:
            return
        if self._since is None:
            self._since = since
            read = read_relations([self._plan], self._base_dir, self._given)
            self._relations = {f"relation {name}": [delta] for name, delta in read.items()}
            self._executor.begin_with(-1, [(name, 0, delta) for name, (delta,) in self._relations.items()])
        rows = [*self._stream_rows(files), *(row for feed in self._feeds for row in feed.more())]
        first = {
            name: state.first
            for name, state in snapshot.streams.items()
            if name in self._query.streams and state.first is not None
        }
        for _ in self._executor.answer(self._evaluated, tuple(rows), first, self._through):
            pass
        self._evaluated += 1

    def _is_known_in_part(self, file: RetainedFile) -> bool:
        """Whether rows of a file may have been taken in from those that it was put together from."""
        return bool(self._taken) and file.chunks > 1 and file.name not in self._taken

    def _begin_again(self) -> None:
        """Forget what was taken in."""
        self._executor = ContinuousExecutor(self._plan)
        self._feeds = [_Feed(self._plan, name, self._base_dir) for name in self._plan.feeds]
        self._taken = set()
        self._since = None
        self._is_partial = False
        self._evaluated = 0

    def _stream_rows(self, files: Mapping[str, list[RetainedFile]]) -> Iterator[Rows]:
        """What the scans make of files, those with few rows first: their keys lead to rows of the others."""
        assert self._since is not None
        assert self._state is not None
        assert self._through is not None
        through = self._through
        opened: dict[str, list[OpenFile]] = {}
        for stream in self._streams:
            opened[stream.name] = [self._opened.pop(file.name) for file in files[stream.name]]
            self._taken.update(file.kept.name for file in opened[stream.name])
        scans = [scan for stream in self._streams for scan in self._plan.scans_of(stream.name)]
        since = {scan.name: self._scan_since(scan) for scan in scans}
        needed = {
            scan.name: [file for file in opened[scan.stream] if file.kept.newest > since[scan.name]]
            for scan in scans
        }
        # Rows that come later may match any that were taken in before.
        linked = self._links if self._evaluated == 0 else {}
        if linked:
            scans.sort(key=lambda scan: self._probes[scan.name].count(needed[scan.name]))
        read: dict[str, list[Delta]] = dict(self._relations)
        for scan in scans:
            stream, own = self._plan.stream(scan.stream), needed[scan.name]
            kept = sum(file.kept.rows for file in own)
            more = [
                condition
                for link in linked.get(scan.name, ())
                if any(link.place in file.indexes for file in own)
                and (condition := link.condition(read, kept, through)) is not None
            ]
            self._is_partial = self._is_partial or bool(more)
            read[scan.name] = []
            for rank, ts, rows in self._probes[scan.name].rows(own, since[scan.name], more):
                delta = scan_rows(scan, stream, ts, rows).delta
                read[scan.name].append(delta)
                yield scan.name, rank, delta

    def _scan_since(self, scan: Scan) -> int:
        """Rows that are not later are in no window over the scan; those of other scans may be longer."""
        assert self._since is not None
        assert self._through is not None
        stream, since = self._plan.stream(scan.stream), self._since[scan.stream]
        if _windows(self._query.plan, stream) is None:
            return since
        windows = (node for node in self._query.plan.walk() if isinstance(node, algebra.Window))
        same = canonical(scan.node)
        spans = [
            _reach(window.spec, stream)
            for window in windows
            if any(canonical(node) == same for node in scan_nodes(window.input))
        ]
        return max(since, self._through - max(spans)) if spans else since

    def answer(self, isolation: Isolation) -> OnceAnswer:
        assert self._state is not None
        instant = self._instant(self._state)
        if self._found is not None:
            table, instant = self._found[0], self._found[1].instant
        else:
            (table,) = self._executor.once().values()
        table = table.cast(with_bounds(table.schema, self._asked))
        unit = self._query.unit if self._query.has_integer_time else 1
        return OnceAnswer(table, instant, self._state.batch, isolation, unit)


class _Feed:
    """The changes of a relation, from the first on; those that are ahead of the run wait for the clock."""

    def __init__(self, plan: RunPlan, name: str, base_dir: Path) -> None:
        self._feed = plan.stream(name)
        self._scans = plan.scans_of(name)
        self._source = open_source(self._feed, base_dir)
        self._position: Position = {}
        self._newest: int | None = None
        self._rank = 0
        self._has_ended = False

    def more(self) -> Iterator[Rows]:
        """What has been added since."""
        while not self._has_ended:
            step = self._source.plan(self._position, _FEED_ROWS)
            self._position = step.position
            self._has_ended = step.ended
            for chunk in step.chunks:
                rows = read(self._feed, chunk)
                ts, table = rows.ts, rows.table
                behind = lateness(ts, self._newest, self._feed.slack)
                if behind is not None:
                    ts, table = ts[behind <= 0], table.filter(pa.array(behind <= 0))
                if len(rows.ts):
                    newest = int(rows.ts.max())
                    self._newest = newest if self._newest is None else max(newest, self._newest)
                self._rank += 1
                for scan in self._scans:
                    yield scan.name, self._rank, scan_rows(scan, self._feed, ts, table).delta
            if not step.chunks:
                break


# ---------------------------------------------------------------- what is needed


def _since(query: Node, stream: StreamDefinition, snapshot: Snapshot, through: int) -> int:
    """Rows of a stream that are not later than this cannot be in a window of the query."""
    since = _oldest(query, stream, through)
    if snapshot.is_whole(stream.name):
        return FIRST if since is None else since
    if stream.retain is None:
        raise _refused(
            stream,
            "keeps no rows for questions, and no synopsis covers this one",
            f"declare it with RETAIN, at least as long as the window: CREATE STREAM {stream.name} (…) … "
            "RETAIN 10 MIN FROM …",
        )
    if since is None:
        raise _refused(
            stream,
            f"keeps rows for {_seconds(stream.retain)}, and the question may need all of them",
            "windows of ROWS, UNBOUNDED ones and those over sub-queries need every row: "
            "use windows of RANGE over the stream itself",
        )
    # Rows are let go of as the queries of the run pass them, which may be ahead of the question.
    newest = max(through, snapshot.passed.get(stream.name, through))
    if since < newest - stream.retain:
        needed = _seconds(newest - since)
        raise _refused(
            stream,
            f"keeps rows for {_seconds(stream.retain)}, and the question needs those of {needed}",
            "ask about a shorter window, or declare a longer RETAIN",
        )
    return since


def refuse_unkept(
    question: QueryDefinition, streams: Iterable[StreamDefinition], read: Collection[str]
) -> None:
    """Refuse a question that rows which are kept cannot answer, before a run in which it is asked."""
    for stream in streams:
        if not _reads(question.plan, stream.name):
            continue
        specs = _windows(question.plan, stream)
        if stream.name not in read:
            why, hint = "is not read by the run", "a query of the run has to read it"
        elif stream.retain is None or specs is None:
            why = "keeps no rows for a question that reads an archive, too"
            hint = f"declare it with RETAIN: CREATE STREAM {stream.name} (…) … RETAIN 10 MIN FROM …"
            if stream.retain is not None:
                hint = "windows of ROWS, UNBOUNDED ones and those over sub-queries cannot be asked for here"
        else:
            continue
        raise UserError(f"stream {stream.name} {why}", place=question.place, hint=hint, id="not-kept")


def _oldest(query: Node, stream: StreamDefinition, through: int) -> int | None:
    """The instant after which a query looks at a stream; None: perhaps from its first row on."""
    specs = _windows(query, stream)
    if specs is None:
        return None
    ends = (through if spec.slide is None else last_boundary(through, spec.slide) for spec in specs)
    return min(
        (end - (spec.range or stream.unit) for end, spec in zip(ends, specs, strict=True)), default=None
    )


def _span(query: Node, stream: StreamDefinition) -> int | None:
    """How far back a query looks at a stream at most, wherever its slides are; None: perhaps all the way."""
    specs = _windows(query, stream) or ()
    return max((_reach(spec, stream) for spec in specs), default=None)


def _reach(spec: WindowSpec, stream: StreamDefinition) -> int:
    """How far back a window reaches at most, wherever its slides are."""
    return (spec.range or stream.unit) + (spec.slide or 0)


def _windows(query: Node, stream: StreamDefinition) -> list[WindowSpec] | None:
    """The windows of a query over a stream; None if one of them may need every row."""
    windows = [n for n in query.walk() if isinstance(n, algebra.Window) and _reads(n, stream.name)]
    if any(w.spec.kind in (WindowKind.ROWS, WindowKind.UNBOUNDED) or _is_nested(w) for w in windows):
        return None
    return [window.spec for window in windows]


def _reads(node: Node, stream: str) -> bool:
    return any(isinstance(leaf, algebra.Stream) and leaf.name == stream for leaf in node.walk())


def _is_nested(window: algebra.Window) -> bool:
    """Whether a window is over the results of a query, which has windows itself, or over lifetimes."""
    below = list(window.input.walk())
    return any(isinstance(node, algebra.Window) for node in below) or any(
        isinstance(node, algebra.Stream) and node.has_lifetime for node in below
    )


def _refused(stream: StreamDefinition, why: str, hint: str) -> UserError:
    return UserError(f"stream {stream.name} {why}", hint=hint, id="not-kept")


def _lost(gone: Gone) -> CheckpointError:
    return CheckpointError(
        f"'{gone}' is gone",
        hint="the run has ended meanwhile and left nothing behind, or somebody removed the file",
        id="kept-rows-damaged",
    )


def _seconds(span: int) -> str:
    return f"{span / 1_000_000:g} s"
