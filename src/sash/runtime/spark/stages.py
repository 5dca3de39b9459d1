"""The job of a batch: chunks are read in tasks, then the operators work, stage by stage.

    chunks ─► read, filter, project, pre-aggregate ─► by partition ─► operators ─► … ─► driver

Between stages Spark moves messages: a row of Spark's is a whole Arrow table of ours, so the JVM handles a few
large values where it would otherwise copy every row three times. On one machine it handles even less: large
tables lie in files, and messages say where. Which partition a row belongs to is decided by our own hash in
the task that sends it.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType

import pyarrow as pa
from pyspark.sql import DataFrame

from sash.errors import SashError
from sash.operators.cut import TOP, Cut, Stage
from sash.operators.dataflow import Dataflow
from sash.plan.run_plan import RunPlan
from sash.runtime.cell import StateFile
from sash.runtime.checkpoint import CELLS
from sash.runtime.engine import Engine, Newest
from sash.runtime.feed import Entry
from sash.runtime.files import told
from sash.runtime.harvest import Harvest
from sash.runtime.partitions import (
    Message,
    Turn,
    cell_name,
    failed,
    first_files,
    gather,
    scatter,
    wake,
)
from sash.runtime.sources import Chunk
from sash.runtime.spark.holder import BEAT, Request, Run, ask, heads_of
from sash.runtime.spark.masters import is_local
from sash.runtime.stage import run_chunk

NO_CHUNK = ""
"""The description of a chunk that is none, so that a batch without chunks has a task."""
Batches = Iterator[pa.RecordBatch]
_SCHEMA = pa.schema(
    [
        ("place", pa.int32()),
        ("stage", pa.int32()),
        ("target", pa.int32()),
        ("link", pa.int32()),
        ("rank", pa.int64()),
        ("path", pa.string()),
        ("payload", pa.binary()),
    ]
)
_DDL = "place int, stage int, target int, link int, rank bigint, path string, payload binary"


_ALIVE = "run-"
_NOTHING = Cut((), (), Dataflow(), ())
_BARE = Stage((), (), (), ())


class Stages:
    """Runs batches of an engine as Spark jobs; `state` is where the state of partitions is."""

    def __init__(self, engine: Engine, state: Path) -> None:
        self._engine = engine
        # Tasks know nothing of queries, and hundreds of them would have to travel with every batch.
        self._plan = replace(engine.plan, queries=(), continuous=(), one_time=())
        self._cut = engine.plane.continuous.cut or _NOTHING
        self._of = engine.partitions or 1
        is_here = is_local(engine.options.master)
        self._run = Run(
            uuid.uuid4().hex[:12],
            pickle.dumps(self._cut, 5),
            self._of,
            state / CELLS,
            state / f"{_ALIVE}{uuid.uuid4().hex[:12]}",
            engine.options.checkpoint is not None,
            os.getpid() if is_here else None,
            state / "mail" if is_here else None,
        )
        self._ended = threading.Event()

    def __enter__(self) -> Stages:
        with told(self._run.alive.parent):
            self._run.directory.mkdir(exist_ok=True)
            for path in self._run.alive.parent.glob(f"{_ALIVE}*"):
                # Of a run that was killed: whoever waits for its end may go.
                path.unlink()
            self._run.alive.touch()
            if self._run.mail is not None:
                shutil.rmtree(self._run.mail, ignore_errors=True)
                self._run.mail.mkdir()
        if self._engine.taken < 0:
            self._engine.cells = first_files(
                self._cut,
                self._engine.relations,
                self._of,
                self._run.directory,
                durable=self._run.durable,
            )
        threading.Thread(target=self._beat, name="sash-alive", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._run.alive.unlink(missing_ok=True)
        if self._run.mail is not None:
            shutil.rmtree(self._run.mail, ignore_errors=True)

    def _beat(self) -> None:
        """Show holders on other machines that the run is alive."""
        while not self._ended.wait(BEAT):
            with contextlib.suppress(OSError):
                os.utime(self._run.alive)

    def run(self, chunks: DataFrame, entry: Entry, newest: Newest) -> Harvest:
        """Run the chunks that a frame describes, and the operators over them."""
        mailbox = self._run.mailbox(entry.number)
        first = _first_stage(self._plan, self._sent_cut, self._of, dict(newest), mailbox)
        frame = chunks.mapInArrow(first, _DDL)
        turn = self._engine.turn(entry)
        for stage in range(1, len(self._cut.stages) + 1):
            files = {
                partition: self._engine.cells.get(cell_name(stage, partition), ())
                for partition in range(self._of)
            }
            work = _stage(self._run, stage, turn, files)
            frame = frame.repartitionById(self._of, "place").mapInArrow(work, _DDL)
        harvest = gather(_messages(frame.toArrow()))
        if mailbox is not None:
            shutil.rmtree(mailbox, ignore_errors=True)
        return harvest

    @property
    def _sent_cut(self) -> Cut:
        """The cut without operators: what the first stage needs to send rows."""
        return replace(self._cut, stages=tuple(_BARE for _ in self._cut.stages), top=_NOTHING.top)


def _first_stage(
    plan: RunPlan,
    cut: Cut,
    of: int,
    newest: Mapping[tuple[str, int], int | None],
    mailbox: Path | None,
) -> Callable[[Batches], Batches]:
    """What a task does with the descriptions of its chunks."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for text in batch.column(0).to_pylist():
                try:
                    if text == NO_CHUNK:
                        messages = list(wake(cut, of))
                    else:
                        chunk = Chunk.from_json(text)
                        result = run_chunk(plan, chunk, newest[chunk.stream, chunk.sequence])
                        messages = [message.posted(mailbox) for message in scatter(cut, result, of)]
                except SashError as failure:
                    messages = [failed(failure)]
                yield from _rows(messages, 0)

    return run


def _stage(
    run: Run, stage: int, turn: Turn, files: Mapping[int, tuple[StateFile, ...]]
) -> Callable[[Batches], Batches]:
    """What a task does with the messages of its partitions: others pass on to later stages."""

    def work(batches: Batches) -> Batches:
        waiting: dict[int, list[Message]] = defaultdict(list)
        for batch in batches:
            for message in _messages(pa.Table.from_batches([batch])):
                if message.stage == stage:
                    waiting[message.target].append(message)
                else:
                    yield from _rows([message], 0)
        for partition, messages in waiting.items():
            request = Request(stage, turn, files[partition], heads_of(messages))
            try:
                given = ask(run, partition, request, [m.payload for m in messages])
            except SashError as failure:
                given = [failed(failure)]
            yield from _rows(given, partition)

    return work


def _rows(messages: Iterable[Message], here: int) -> Batches:
    """Messages as rows of Spark's, one a batch: a payload may be large."""
    for m in messages:
        values = [here if m.target == TOP else m.target, m.stage, m.target, m.link, m.rank, m.path]
        arrays = [pa.array([value], field.type) for value, field in zip(values, _SCHEMA, strict=False)]
        # Not copied: the one value of the column is the payload as it is.
        ends = pa.array([0, len(m.payload)], pa.int32()).buffers()[1]
        arrays.append(pa.Array.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(m.payload)]))
        yield pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def _messages(table: pa.Table) -> Iterator[Message]:
    heads = table.select(["stage", "target", "link", "rank", "path"]).to_pylist()
    for head, payload in zip(heads, table.column("payload"), strict=True):
        yield Message(payload=payload.as_buffer(), **head)
