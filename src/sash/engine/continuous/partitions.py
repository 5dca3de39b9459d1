"""Operators in partitions: what a partition does with a batch, whatever process it runs in.

Rows travel as messages: from the chunks of a batch to the cells of the first stage, from stage to stage, and
at last to the driver. Every partition gets the extents of all chunks, too, so it knows how far time has come
without asking anybody; a batch in which a chunk judged a late row wrongly is recognised by all of them, and
none takes anything of it in.

Queries that came into the run together are a part of it: each part has its own stages and cells.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from sash.engine.batch_result import BatchResult, JobResult
from sash.engine.continuous.buffered_dataflow import BufferedDataflow
from sash.engine.continuous.continuous import OperatorPlan
from sash.engine.durability.codec import Codec
from sash.engine.durability.files import translate_os_errors
from sash.engine.durability.operator_state import OperatorState, StateFile, Work
from sash.engine.durability.partials import by_partition
from sash.engine.durability.wire import Packed, pack_delta
from sash.engine.ingest.first_stage import ChunkExtent, ChunkResult, misjudged
from sash.engine.ingest.watermarks import Clock, StreamState, advanced, begun, by_stream, moved_on
from sash.engine.periodic.partitioned import Moment, PartitionedResult, PartitionedSynopses, PartitionedTurn
from sash.engine.query_executor import QueryExecutor
from sash.engine.starts import gone_on
from sash.engine.stopping import keep_on
from sash.errors import RunError, SashError
from sash.operators.answers import Sequenced
from sash.operators.dataflow import Tally
from sash.operators.delta import Delta, concat
from sash.operators.preaggregate import Partial
from sash.operators.stage_planner import TOP, Sent, Stage, StagePlan
from sash.plan.join_synopses import JoinSetting

# From this size on a payload is posted.
_LARGE = 1 << 16
# From so many rows on what a cell gives in a batch is several messages.
_ROWS_OF_A_MESSAGE = 1 << 17
_RANK_BITS = 32
MAIL = "mail"
NEWS = -1
"""The link of messages that are not rows of an exchange."""
PARTIALS = -2
"""The link of messages with what chunks add to synopses that are divided."""
ALL = -1
"""The part of messages for all parts."""


@dataclass(frozen=True, slots=True)
class Message:
    """For the cell `target` of a stage, or for the driver: the rows of an exchange (`link`), or news.

    Rows of one exchange are taken in the order of their rank. The payload of a message that was posted is in
    the file at `path`.
    """

    part: int
    stage: int
    target: int
    link: int
    rank: int
    payload: bytes | memoryview | pa.Buffer
    path: str = ""

    @property
    def content(self) -> pa.Buffer:
        if not self.path:
            return pa.py_buffer(self.payload)
        with translate_os_errors(Path(self.path), "read"), pa.memory_map(self.path) as file:
            return file.read_buffer()

    @property
    def rows(self) -> Packed:
        """Those of an exchange, which are read when they are needed."""
        return Packed.of(None if self.path else pa.py_buffer(self.payload), self.path)

    def posted(self, mailbox: Path | None) -> Message:
        """The message with a large payload in a file: processes of one machine need not copy it around."""
        if mailbox is None or len(self.payload) < _LARGE or self.path:
            return self
        path = mailbox / uuid.uuid4().hex
        with translate_os_errors(path):
            path.write_bytes(self.payload)
        return replace(self, payload=b"", path=str(path))


@dataclass(frozen=True, slots=True)
class News:
    """What a cell must know beside its rows.

    `first`: the first instants of streams that sub-queries give. The rest is for the driver.
    """

    extents: tuple[ChunkExtent, ...] = ()
    first: Mapping[str, int] | None = None
    result: ChunkResult | None = None
    cell: str | None = None
    files: tuple[StateFile, ...] = ()
    tallies: Mapping[tuple[int, int], Tally] | None = None
    divided: PartitionedResult | None = None
    failure: SashError | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """A batch, and what came before it: the streams, who has ended or is silent.

    `parts` has what was before it for each part. `divided`: there are synopses in partitions.
    """

    batch: int
    clock: Clock
    streams: Mapping[str, StreamState]
    ended: tuple[str, ...]
    beats: Mapping[str, int]
    parts: Mapping[int, JobTurn]
    divided: PartitionedTurn | None = None

    def firsts(self, part: int, extents: Sequence[ChunkExtent]) -> Mapping[str, int]:
        """What is known of a part's starts after the batch, as the driver will have it."""
        return gone_on(begun(self.parts[part].first, extents), extents, self.streams)


@dataclass(frozen=True, slots=True)
class JobTurn:
    """A part before a batch: the first instants of its streams, its sources and its watermark.

    `needed` are the exchanges, by their names, whose rows somebody needs; `joins`: what there is to know of
    who reads its join synopses; `synopses` are the streams of those that it has.
    """

    first: Mapping[str, int]
    sources: tuple[str, ...]
    through: int | None
    needed: frozenset[str]
    joins: tuple[JoinSetting, ...] = ()
    synopses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Routes:
    """What tasks must know to send the rows of chunks: (part, scan, how) and the number of stages.

    `divided` are the names of the synopses whose partials go to partitions.
    """

    sends: tuple[tuple[int, str, Sent], ...]
    stages: int
    divided: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Partials:
    """What a chunk adds to synopses whose groups are in a partition."""

    added: tuple[Partial, ...]


CODEC = Codec(News, Partials)


def waiting_before(stage: int) -> int:
    """What rows that wait before a stage are counted under, where operators have their numbers."""
    return -stage


def cell_name(part: int, stage: int, partition: int) -> str:
    return f"{part}.{stage}.{partition}"


def part_of(cell: str) -> int:
    return int(cell.partition(".")[0])


def routes(executor: QueryExecutor) -> Routes:
    """How the rows of scans are sent to the parts that need them."""
    sends = []
    stages = 0
    for number, part in executor.parts.items():
        cut, needed = part.continuous.cut, part.continuous.needed
        if cut is not None:
            stages = max(stages, len(cut.stages))
            sends += [
                (number, executor.scans[name], sent)
                for name, sent in cut.sources
                if sent.name in needed and name in executor.scans
            ]
    groups = executor.kept.divided
    divided = frozenset(spec.name for spec in executor.plan.synopses if (spec.of or spec.name) in groups)
    return Routes(tuple(sends), max(stages, 1) if divided else stages, divided)


# ---------------------------------------------------------------- sending


def scatter(routes: Routes, result: ChunkResult, of: int) -> Iterator[Message]:
    """The messages of a chunk: its rows, and to everybody its extent."""
    scanned = {rows.scan: rows.delta for rows in result.scanned}
    for part, name, sent in routes.sends:
        delta = scanned.get(name)
        if delta is not None and len(delta):
            for target, rows in sent.partitions(delta, 0, of):
                yield Message(part, sent.stage, target, sent.number, result.sequence, pack_delta(rows))
    yield from _partials(routes, result, of)
    yield from _told_everybody(News((result.extent,)), ALL, 1, routes.stages, of)
    home = ChunkResult(
        result.stream,
        result.sequence,
        result.accepted,
        result.newest,
        result.oldest,
        tuple(partial for partial in result.partials if partial.synopsis not in routes.divided),
        result.late,
        result.rejected,
        kept=result.kept,
        loss=result.loss,
        judged=result.judged,
        lateness=result.lateness,
        arrivals=result.arrivals,
    )
    yield Message(ALL, TOP, TOP, NEWS, 0, CODEC.to_bytes(News(result=home)))


def _partials(routes: Routes, result: ChunkResult, of: int) -> Iterator[Message]:
    """What a chunk adds to synopses that are divided, to the partitions of the groups."""
    given: dict[int, list[Partial]] = defaultdict(list)
    for partial in result.partials:
        if partial.synopsis in routes.divided:
            for target, rows in by_partition(partial, of):
                given[target].append(rows)
    for target, partials in given.items():
        yield Message(ALL, 1, target, PARTIALS, result.sequence, CODEC.to_bytes(Partials(tuple(partials))))


def failed(failure: SashError) -> Message:
    """For the driver, as it is: Spark would turn it into a page of text."""
    return Message(ALL, TOP, TOP, NEWS, 0, CODEC.to_bytes(News(failure=failure)))


def wake(routes: Routes, of: int) -> Iterator[Message]:
    """A message for every partition, so that each takes part in a batch without chunks."""
    yield from _told_everybody(News(), ALL, 1, routes.stages, of)


def _told_everybody(news: News, part: int, first: int, last: int, of: int) -> Iterator[Message]:
    """News for all partitions in the stages from `first` to `last`."""
    content = CODEC.to_bytes(news)
    for stage in range(first, last + 1):
        for target in range(of):
            yield Message(part, stage, target, NEWS, 0, content)


def first_files(
    part: int,
    operators: OperatorPlan,
    given: Iterable[tuple[str, int, Delta]],
    of: int,
    directory: Path,
    *,
    batch: int,
    durable: bool,
) -> dict[str, tuple[StateFile, ...]]:
    """The state of a part's cells after `batch`, before its first: rows that were there, by their sources."""
    rows: dict[tuple[int, int], list[tuple[str, int, Delta]]] = defaultdict(list)
    sources = operators.cut().sources
    for name, rank, delta in given:
        for source, sent in sources:
            if source == name and len(delta) and sent.stage != TOP:
                for target, sent_rows in sent.partitions(delta, 0, of):
                    rows[sent.stage, target].append((sent.name, rank, sent_rows))
    files = {}
    for (stage, target), there in rows.items():
        buffered = BufferedDataflow(operators.cut().stages[stage - 1].flow(target, of))
        cell = OperatorState(cell_name(part, stage, target), buffered, directory, durable=durable)
        for _ in cell.apply(batch, Work(tuple(there), None, {})):
            pass
        files[cell.name] = cell.files
        cell.close()
    return files


# ---------------------------------------------------------------- cells


@dataclass(frozen=True, slots=True)
class _PartWork:
    """What a batch brings the cell of a part in one stage, the files of the state before it, and where large
    payloads are posted."""

    rows: Sequence[Message]
    news: Sequence[News]
    extents: Sequence[ChunkExtent]
    files: Sequence[StateFile]
    mailbox: Path | None


class _Sending:
    """What a cell gives in a batch, put into messages as it comes: nobody holds all of it."""

    def __init__(self, part: int, partition: int, of: int, mailbox: Path | None) -> None:
        self._part = part
        self._partition = partition
        self._of = of
        self._mailbox = mailbox
        self._waiting: dict[tuple[Sent, int], list[Delta]] = defaultdict(list)
        self._rows: dict[tuple[Sent, int], int] = defaultdict(int)
        self._messages: list[Message] = []

    def add(self, sent: Sent, delta: Delta) -> None:
        for target, rows in sent.partitions(delta, self._partition, self._of):
            to = sent, target
            self._waiting[to].append(rows)
            self._rows[to] += len(rows)
            if self._rows[to] >= _ROWS_OF_A_MESSAGE:
                self._pack(to)

    def done(self) -> list[Message]:
        for to in list(self._waiting):
            self._pack(to)
        return self._messages

    def _pack(self, to: tuple[Sent, int]) -> None:
        sent, target = to
        content = pack_delta(concat(self._waiting.pop(to), sent.fields))
        del self._rows[to]
        # All rows of an instant are in one message: later ones of the same partition are later in time.
        rank = (self._partition << _RANK_BITS) + len(self._messages)
        message = Message(self._part, sent.stage, target, sent.number, rank, content)
        self._messages.append(message.posted(self._mailbox))


class Partition:
    """The cells of one partition and its part of synopses, with their state in memory.

    A cell whose state is not there, or of another batch, reads it from its files. `cut_of` gives the cut of
    a part, with operators that are the partition's own; `divided` has the synopses. `look` is called between
    operators and may raise to give a batch up.
    """

    def __init__(
        self,
        cut_of: Callable[[int], StagePlan],
        divided: PartitionedSynopses,
        partition: int,
        of: int,
        directory: Path,
        *,
        durable: bool,
        look: Callable[[], None] = keep_on,
    ) -> None:
        self._look = look
        self._divided = divided
        self._cut_of = cut_of
        self._partition = partition
        self._of = of
        self._directory = directory
        self._durable = durable
        # By part and stage, each with the number of stages of its part.
        self._stages: dict[tuple[int, int], tuple[Stage, int]] = {}
        self._cells: dict[tuple[int, int], OperatorState] = {}
        # Which exchanges were needed when a cell was last asked to take part, and who read join synopses.
        self._needed: dict[tuple[int, int], tuple[frozenset[str], tuple[JoinSetting, ...]]] = {}
        # The newest batch that it was asked to take part in.
        self._newest = -1
        # What the last batch gave, for who asks again.
        self._given: dict[tuple[int, int], tuple[int, list[Message]]] = {}

    def run(
        self,
        stage: int,
        turn: Turn,
        messages: Sequence[Message],
        files: Mapping[int, Sequence[StateFile]],
        mailbox: Path | None = None,
    ) -> list[Message]:
        """Take part in a batch; `files` are the state before it, of each part that has the stage.

        Large payloads are posted as soon as they are there.         Asked again, it gives the same again.
        """
        if turn.batch < self._newest:
            raise RunError(f"an attempt at batch {turn.batch} comes after batch {self._newest}")
        self._newest = turn.batch
        news: dict[int, list[News]] = defaultdict(list)
        rows: dict[int, list[Message]] = defaultdict(list)
        added: list[Message] = []
        for message in in_order(messages):
            if message.link == NEWS:
                news[message.part].append(CODEC.from_bytes(message.content, News))
            elif message.link == PARTIALS:
                added.append(message)
            else:
                rows[message.part].append(message)
        # News of chunks have all the same place in the order.
        extents = sorted(
            (extent for each in news[ALL] for extent in each.extents), key=lambda e: (e.stream, e.sequence)
        )
        if misjudged(extents, turn.clock.bars(turn.streams), turn.clock.slacks):
            return []
        for place in [place for place in self._cells if place[0] not in turn.parts]:
            self._drop(place)
        given: list[Message] = []
        if stage == 1 and turn.divided is not None:
            given.append(self._add(turn, turn.divided, added, extents))
        elif stage == 1:
            self._divided.forget()
        for part, saved in files.items():
            work = _PartWork(rows[part], news[part], extents, saved, mailbox)
            given.extend(self._part(part, stage, turn, work))
        return given

    def _add(
        self, turn: Turn, divided: PartitionedTurn, added: Sequence[Message], extents: Sequence[ChunkExtent]
    ) -> Message:
        """Let the synopses take part in a batch."""
        of_chunks = [CODEC.from_bytes(message.content, Partials) for message in added]
        # Chunks of two streams may have the same rank, but they do not add to the same synopsis.
        of_chunks.sort(key=lambda chunk: chunk.added[0].synopsis)
        partials = [partial for chunk in of_chunks for partial in chunk.added]
        before = {number: part.first for number, part in turn.parts.items()}
        after = {number: turn.firsts(number, extents) for number in turn.parts}
        synopses = {number: part.synopses for number, part in turn.parts.items()}
        given = self._divided.take(
            turn.batch,
            divided,
            Moment(
                by_stream(synopses, {number: part.through for number, part in turn.parts.items()}), before
            ),
            Moment(
                by_stream(synopses, {number: _moved(turn, number, extents) for number in turn.parts}), after
            ),
            partials,
        )
        return Message(ALL, TOP, TOP, NEWS, 0, CODEC.to_bytes(News(divided=given)))

    def _part(
        self,
        part: int,
        stage: int,
        turn: Turn,
        work: _PartWork,
    ) -> list[Message]:
        place = (part, stage)
        known = self._given.get(place)
        if known is not None and known[0] == turn.batch:
            return known[1]
        cell = self._cell(place, turn, work.files)
        try:
            given = self._apply(cell, place, turn, work)
        except BaseException:
            # What has been done by half must not be gone on with.
            self._drop(place)
            raise
        self._given[place] = (turn.batch, given)
        return given

    def _apply(
        self,
        cell: OperatorState,
        place: tuple[int, int],
        turn: Turn,
        work: _PartWork,
    ) -> list[Message]:
        part, _ = place
        through = _moved(turn, part, work.extents)
        first = turn.clock.firsts(turn.firsts(part, work.extents))
        first.update(_first_of(work.news))
        rows = tuple((f"exchange {m.link}", m.rank, m.rows) for m in work.rows)
        plan, last = self._stages[place]
        sending = _Sending(part, self._partition, self._of, work.mailbox)
        sends = {sent.name: sent for _, sent in plan.sends}
        for name, delta in cell.apply(turn.batch, Work(rows, through, first)):
            sending.add(sends[name], delta)
        return [*sending.done(), *self._news(cell, place, plan, last)]

    def _news(self, cell: OperatorState, place: tuple[int, int], plan: Stage, last: int) -> Iterator[Message]:
        part, stage = place
        flow = cell.buffered.flow
        begun = {
            v.operator.name: v.operator.first
            for v in flow.vertices
            if isinstance(v.operator, Sequenced) and v.operator.first is not None
        }
        if begun:
            yield from _told_everybody(News(first=begun), part, stage + 1, last, self._of)
        tallies: dict[tuple[int, int], Tally] = {}
        for number, tally in zip(plan.numbers, flow.tallies(), strict=True):
            if number >= 0:
                # An operator may stand here twice.
                at = (number, self._partition)
                tallies[at] = tallies.get(at, Tally()) + tally
        tallies[waiting_before(stage), self._partition] = cell.buffered.waiting
        flow.count_anew()
        news = News(first=begun, cell=cell.name, files=cell.files, tallies=tallies)
        yield Message(part, TOP, TOP, NEWS, 0, CODEC.to_bytes(news))

    def _cell(self, place: tuple[int, int], turn: Turn, files: Sequence[StateFile]) -> OperatorState:
        """The cell with its state before a batch, and without what nobody needs any more."""
        part, stage = place
        asked = turn.parts[part]
        needed = asked.needed, asked.joins
        cell = self._cells.get(place)
        if cell is None or cell.batch != turn.batch - 1 or cell.files != tuple(files):
            self._drop(place)
            stages = self._cut_of(part).stages
            plan = stages[stage - 1]
            self._stages[place] = plan, len(stages)
            buffered = BufferedDataflow(plan.flow(self._partition, self._of), self._look)
            buffered.keep(asked.needed)
            buffered.flow.adapt(asked.joins)
            name = cell_name(part, stage, self._partition)
            cell = OperatorState(name, buffered, self._directory, durable=self._durable)
            cell.load(turn.batch - 1, files)
            self._cells[place] = cell
        elif self._needed[place] != needed:
            cell.buffered.keep(asked.needed)
            cell.buffered.flow.adapt(asked.joins)
        self._needed[place] = needed
        return cell

    def _drop(self, place: tuple[int, int]) -> None:
        for kept in (self._given, self._stages, self._needed):
            kept.pop(place, None)
        cell = self._cells.pop(place, None)
        if cell is not None:
            cell.close()

    def close(self) -> None:
        for place in list(self._cells):
            self._drop(place)


def in_order(messages: Iterable[Message]) -> list[Message]:
    """Messages in the one order in which they are taken in, however they have come."""
    return sorted(messages, key=lambda message: (message.part, message.link, message.rank))


def _first_of(news: Iterable[News]) -> dict[str, int]:
    """The first instants of streams that sub-queries give, of all who tell them."""
    first: dict[str, int] = {}
    for each in news:
        for name, instant in (each.first or {}).items():
            first[name] = min(instant, first.get(name, instant))
    return first


def _moved(turn: Turn, number: int, extents: Sequence[ChunkExtent]) -> int | None:
    """How far the watermark of a part comes with a batch; None: not further than before."""
    part = turn.parts[number]
    after = advanced(turn.streams, extents, turn.ended, turn.beats)
    return moved_on(part.through, turn.clock.through(after, part.sources))


# ---------------------------------------------------------------- bringing home


def gather(messages: Iterable[Message]) -> BatchResult:
    """What has come to the driver."""
    results: list[ChunkResult] = []
    files: dict[str, tuple[StateFile, ...]] = {}
    rows: dict[int, list[tuple[str, int, Delta | Packed]]] = defaultdict(list)
    first: dict[int, dict[str, int]] = defaultdict(dict)
    tallies: dict[int, dict[tuple[int, int], Tally]] = defaultdict(dict)
    divided: list[PartitionedResult] = []
    for message in in_order(messages):
        if message.link != NEWS:
            link = f"exchange {message.link}"
            rows[message.part].append((link, message.rank, message.rows))
            continue
        news: News = CODEC.from_bytes(message.content, News)
        if news.failure is not None:
            raise news.failure
        if news.result is not None:
            results.append(news.result)
        if news.cell is not None:
            files[news.cell] = news.files
        first[message.part] = _first_of((News(first=first[message.part]), news))
        tallies[message.part].update(news.tallies or {})
        if news.divided is not None:
            divided.append(news.divided)
    parts = {
        part: JobResult(tuple(rows[part]), first[part], tallies[part])
        for part in sorted({*rows, *first} - {ALL})
    }
    divided.sort(key=lambda given: given.partition)
    return BatchResult(results, files, parts, divided)
