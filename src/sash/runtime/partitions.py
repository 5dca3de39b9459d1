"""Operators in partitions: what a partition does with a batch, whatever process it runs in.

Rows travel as messages: from the chunks of a batch to the cells of the first stage, from stage to stage, and
at last to the driver. Every cell gets the extents of all chunks, too, so it knows how far time has come
without asking anybody; a batch in which a chunk judged a late row wrongly is recognised by all cells, and
none of them takes anything of it in.
"""

from __future__ import annotations

import pickle
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from sash.errors import SashError
from sash.operators.answers import Sequenced
from sash.operators.cut import TOP, Cut, Stage
from sash.operators.dataflow import Tally
from sash.operators.delta import Delta
from sash.runtime.cell import Cell, StateFile, Work
from sash.runtime.clock import Clock, StreamState, advanced
from sash.runtime.files import told
from sash.runtime.fragment import Fragment
from sash.runtime.harvest import Harvest
from sash.runtime.stage import ChunkExtent, ChunkResult, misjudged
from sash.runtime.wire import pack_deltas, unpack_delta

# From this size on a payload is posted.
_LARGE = 1 << 16
NEWS = -1
"""The link of messages that are not rows of an exchange."""


@dataclass(frozen=True, slots=True)
class Message:
    """For the cell `target` of a stage, or for the driver: the rows of an exchange (`link`), or news.

    Rows of one exchange are taken in the order of their rank. The payload of a message that was posted is in
    the file at `path`.
    """

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
        with told(Path(self.path), "read"), pa.memory_map(self.path) as file:
            return file.read_buffer()

    def posted(self, mailbox: Path | None) -> Message:
        """The message with a large payload in a file: processes of one machine need not copy it around."""
        if mailbox is None or len(self.payload) < _LARGE or self.path:
            return self
        path = mailbox / uuid.uuid4().hex
        with told(path):
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
    failure: SashError | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """A batch, and what came before it: the streams, how far time had come, and who has ended since."""

    batch: int
    clock: Clock
    streams: Mapping[str, StreamState]
    through: int | None
    ended: tuple[str, ...]


def waiting_before(stage: int) -> int:
    """What rows that wait before a stage are counted under, where operators have their numbers."""
    return -stage


def cell_name(stage: int, partition: int) -> str:
    return f"{stage}.{partition}"


# ---------------------------------------------------------------- sending


def scatter(cut: Cut, result: ChunkResult, of: int) -> Iterator[Message]:
    """The messages of a chunk: its rows, and to everybody its extent."""
    scanned = {rows.scan: rows.delta for rows in result.scanned}
    for name, sent in cut.sources:
        delta = scanned.get(name)
        if delta is not None and len(delta):
            for target, rows in sent.partitions(delta, 0, of):
                yield Message(sent.stage, target, sent.number, result.sequence, pack_deltas([rows]))
    news = pickle.dumps(News((result.extent,)), 5)
    for stage in range(1, len(cut.stages) + 1):
        for target in range(of):
            yield Message(stage, target, NEWS, 0, news)
    home = ChunkResult(
        result.stream,
        result.sequence,
        result.accepted,
        result.newest,
        result.oldest,
        result.partials,
        result.late,
        result.rejected,
    )
    yield Message(TOP, TOP, NEWS, 0, pickle.dumps(News(result=home), 5))


def failed(failure: SashError) -> Message:
    """For the driver, as it is: Spark would turn it into a page of text."""
    return Message(TOP, TOP, NEWS, 0, pickle.dumps(News(failure=failure), 5))


def wake(cut: Cut, of: int) -> Iterator[Message]:
    """A message for every cell, so that each takes part in a batch without chunks."""
    nothing = pickle.dumps(News(), 5)
    for stage in range(1, len(cut.stages) + 1):
        for target in range(of):
            yield Message(stage, target, NEWS, 0, nothing)


def first_files(
    cut: Cut, relations: Mapping[str, Delta], of: int, directory: Path, *, durable: bool
) -> dict[str, tuple[StateFile, ...]]:
    """The state of cells before the first batch: the rows of static relations, where they are needed."""
    rows: dict[tuple[int, int], list[tuple[str, int, Delta]]] = defaultdict(list)
    for name, delta in relations.items():
        for source, sent in cut.sources:
            if source == f"relation {name}" and len(delta):
                for target, part in sent.partitions(delta, 0, of):
                    rows[sent.stage, target].append((sent.name, 0, part))
    files = {}
    for (stage, target), given in rows.items():
        fragment = Fragment(pickle.loads(pickle.dumps(cut.stages[stage - 1])).flow(target, of))
        cell = Cell(cell_name(stage, target), fragment, directory, durable=durable)
        for _ in cell.apply(-1, Work(tuple(given), None, {})):
            pass
        files[cell.name] = cell.files
        cell.close()
    return files


# ---------------------------------------------------------------- cells


class Partition:
    """The cells of one partition, with their state in memory.

    A cell whose state is not there, or of another batch, reads it from its files.
    """

    def __init__(self, cut: Cut, partition: int, of: int, directory: Path, *, durable: bool) -> None:
        self._stages = cut.stages
        # Each cell gets operators of its own.
        self._packed = [pickle.dumps(stage) for stage in cut.stages]
        self._partition = partition
        self._of = of
        self._directory = directory
        self._durable = durable
        self._cells: dict[int, Cell] = {}
        # What the last batch gave, for who asks again.
        self._given: dict[int, tuple[int, list[Message]]] = {}

    def run(
        self, stage: int, turn: Turn, messages: Sequence[Message], files: Sequence[StateFile]
    ) -> list[Message]:
        """Take part in a batch; `files` are the state before it. Asked again, it gives the same again."""
        news = [pickle.loads(message.content) for message in messages if message.link == NEWS]
        extents = [extent for each in news for extent in each.extents]
        newest = {name: state.newest for name, state in turn.streams.items()}
        if misjudged(extents, newest, turn.clock.slacks):
            return []
        known = self._given.get(stage)
        if known is not None and known[0] == turn.batch:
            return known[1]
        cell = self._cell(stage, turn.batch, files)
        try:
            given = self._apply(cell, stage, turn, messages, news, extents)
        except BaseException:
            # What has been done by half must not be gone on with.
            self._drop(stage)
            raise
        self._given[stage] = (turn.batch, given)
        return given

    def _apply(
        self,
        cell: Cell,
        stage: int,
        turn: Turn,
        messages: Sequence[Message],
        news: Sequence[News],
        extents: Sequence[ChunkExtent],
    ) -> list[Message]:
        streams = advanced(turn.streams, extents, turn.ended)
        through = turn.clock.through(streams)
        if through is not None and turn.through is not None and through <= turn.through:
            through = None
        first = turn.clock.firsts(streams)
        for each in news:
            first.update(each.first or {})
        sent_rows = [message for message in messages if message.link != NEWS]
        packed = tuple(message.content for message in sent_rows)
        rows = tuple(
            (f"exchange {m.link}", m.rank, unpack_delta(content))
            for m, content in zip(sent_rows, packed, strict=True)
        )
        plan = self._stages[stage - 1]
        sends = {sent.name: sent for _, sent in plan.sends}
        given: dict[tuple[str, int], list[Delta]] = defaultdict(list)
        for name, delta in cell.apply(turn.batch, Work(rows, through, first, packed)):
            for target, part in sends[name].partitions(delta, self._partition, self._of):
                given[name, target].append(part)
        sent = [
            Message(
                sends[name].stage,
                target,
                sends[name].number,
                self._partition,
                pack_deltas(deltas),
            )
            for (name, target), deltas in given.items()
        ]
        return [*sent, *self._news(cell, stage, plan)]

    def _news(self, cell: Cell, stage: int, plan: Stage) -> Iterator[Message]:
        flow = cell.fragment.flow
        begun = {
            v.operator.name: v.operator.first
            for v in flow.vertices
            if isinstance(v.operator, Sequenced) and v.operator.first is not None
        }
        if begun:
            told = pickle.dumps(News(first=begun), 5)
            for later in range(stage + 1, len(self._stages) + 1):
                for target in range(self._of):
                    yield Message(later, target, NEWS, 0, told)
        tallies: dict[tuple[int, int], Tally] = {}
        for number, tally in zip(plan.numbers, flow.tallies(), strict=True):
            if number >= 0:
                # An operator may stand here twice.
                place = (number, self._partition)
                tallies[place] = tallies.get(place, Tally()) + tally
        tallies[waiting_before(stage), self._partition] = cell.fragment.waiting
        flow.count_anew()
        news = News(first=begun, cell=cell.name, files=cell.files, tallies=tallies)
        yield Message(TOP, TOP, NEWS, 0, pickle.dumps(news, 5))

    def _cell(self, stage: int, batch: int, files: Sequence[StateFile]) -> Cell:
        """The cell with its state before a batch."""
        cell = self._cells.get(stage)
        if cell is not None and cell.batch == batch - 1 and cell.files == tuple(files):
            return cell
        self._drop(stage)
        plan: Stage = pickle.loads(self._packed[stage - 1])
        fragment = Fragment(plan.flow(self._partition, self._of))
        cell = Cell(cell_name(stage, self._partition), fragment, self._directory, durable=self._durable)
        cell.load(batch - 1, files)
        self._cells[stage] = cell
        return cell

    def _drop(self, stage: int) -> None:
        self._given.pop(stage, None)
        cell = self._cells.pop(stage, None)
        if cell is not None:
            cell.close()

    def close(self) -> None:
        for stage in list(self._cells):
            self._drop(stage)


# ---------------------------------------------------------------- bringing home


def gather(messages: Iterable[Message]) -> Harvest:
    """What has come to the driver."""
    results: list[ChunkResult] = []
    rows: list[tuple[str, int, Delta]] = []
    first: dict[str, int] = {}
    files: dict[str, tuple[StateFile, ...]] = {}
    tallies: dict[tuple[int, int], Tally] = {}
    for message in messages:
        if message.link != NEWS:
            rows.append((f"exchange {message.link}", message.rank, unpack_delta(message.content)))
            continue
        news: News = pickle.loads(message.content)
        if news.failure is not None:
            raise news.failure
        if news.result is not None:
            results.append(news.result)
        first.update(news.first or {})
        if news.cell is not None:
            files[news.cell] = news.files
        tallies.update(news.tallies or {})
    return Harvest(results, tuple(rows), first, files, tallies)
