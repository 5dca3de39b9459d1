"""The job of a batch: chunks are read in tasks, then the operators work, stage by stage.

    chunks ─► read, filter, project, pre-aggregate ─► by partition ─► operators ─► … ─► driver

Between stages Spark moves messages: a row of Spark's is a whole Arrow table of ours, so the JVM handles a few
large values where it would otherwise copy every row three times. On one machine it handles even less: large
tables lie in files, and messages say where. Which partition a row belongs to is decided by our own hash in
the task that sends it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from sash.connectors.sources import Chunk
from sash.engine.batch_result import BatchResult
from sash.engine.continuous.partitions import Message, Routes, Turn, failed, gather, scatter, wake
from sash.engine.durability.files import translate_os_errors
from sash.engine.durability.operator_state import StateFile
from sash.engine.engine import Engine
from sash.engine.ingest.feed import Entry
from sash.engine.ingest.first_stage import run_chunk
from sash.engine.ingest.retained_files import Keep
from sash.engine.run_chunks import Bars
from sash.errors import InternalError, SashError
from sash.operators.stage_planner import TOP
from sash.plan.run_plan import RunPlan
from sash.runtime.spark.masters import is_local
from sash.runtime.spark.peers import make_folder, new_secret
from sash.runtime.spark.state_server import BEAT, PLANS, Request, Run, Wanted, ask, heads_of

NO_CHUNK = ""
"""The description of a chunk that is none, so that a batch without chunks has a task."""
Batches = Iterator[pa.RecordBatch]
_SCHEMA = pa.schema(
    [
        ("place", pa.int32()),
        ("part", pa.int32()),
        ("stage", pa.int32()),
        ("target", pa.int32()),
        ("link", pa.int32()),
        ("rank", pa.int64()),
        ("path", pa.string()),
        ("payload", pa.binary()),
    ]
)
# The same in Spark's words: those of SQL it would parse for every batch.
_TYPE = from_arrow_schema(_SCHEMA)

_ALIVE, _SOCKETS = "run-", "sockets"


class Stages:
    """Runs batches of an engine as Spark jobs.

    `state` is where the state of partitions is, `scratch` a folder of the run on this machine.
    """

    def __init__(self, spark: SparkSession, engine: Engine, state: Path, scratch: Path) -> None:
        self._spark = spark
        self._engine = engine
        self._of = engine.partitions or 1
        is_here = is_local(engine.options.master)
        self._run = Run(
            uuid.uuid4().hex[:12],
            self._of,
            engine.cells_directory,
            engine.panes_directory,
            state / f"{_ALIVE}{uuid.uuid4().hex[:12]}",
            engine.options.checkpoint is not None,
            os.getpid() if is_here else None,
            engine.mail_directory if is_here else None,
            scratch / _SOCKETS if is_here else None,
            nursery_folder() if is_here else None,
            secret_of_this_process(),
        )
        self._ended = threading.Event()
        self._beating = threading.Thread(target=self._beat, name="sash-alive", daemon=True)
        # The plans of parts, and a version of that of synopses in partitions.
        self._plans: dict[int, Broadcast[bytes]] = {}
        self._divided: tuple[int, Broadcast[bytes]] | None = None

    def __enter__(self) -> Stages:
        with translate_os_errors(self._run.alive.parent):
            for path in self._run.alive.parent.glob(f"{_ALIVE}*"):
                # Of a run that was killed: whoever waits for its end may go.
                path.unlink()
            self._run.alive.touch()
            if self._run.folder is not None:
                make_folder(self._run.folder)
            if self._run.mail is not None:
                shutil.rmtree(self._run.mail, ignore_errors=True)
                self._run.mail.mkdir()
        self._beating.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._beating.join()
        self._run.alive.unlink(missing_ok=True)
        for broadcast in (*self._plans.values(), *(self._divided or ())[1:]):
            with contextlib.suppress(Py4JError, OSError):
                # Spark may have gone.
                broadcast.destroy()
        if self._run.mail is not None:
            shutil.rmtree(self._run.mail, ignore_errors=True)

    def _beat(self) -> None:
        """Show holders on other machines that the run is alive."""
        while not self._ended.wait(BEAT):
            with contextlib.suppress(OSError):
                os.utime(self._run.alive)

    def run(self, chunks: DataFrame, entry: Entry, bars: Bars) -> BatchResult:
        """Run the chunks that a frame describes, and the operators over them."""
        plans = self._shipped()
        self._forget_mail()
        mailbox = self._run.mailbox(entry.number)
        routes = self._engine.routes
        # Tasks know nothing of queries, and hundreds of them would have to travel with every batch.
        plan = replace(self._engine.plan, queries=(), continuous=(), one_time=())
        keep = self._engine.keep(entry.number)
        first = _first_stage(plan, routes, self._of, dict(bars), mailbox, keep)
        frame = chunks.mapInArrow(first, _TYPE)
        turn = self._engine.turn(entry)
        for stage in range(1, routes.stages + 1):
            files = {partition: self._engine.files_before(stage, partition) for partition in range(self._of)}
            work = _stage(self._run, stage, turn if stage == 1 else replace(turn, divided=None), files, plans)
            frame = frame.repartitionById(self._of, "place").mapInArrow(work, _TYPE)
        return gather(_messages(frame.toArrow()))

    def _forget_mail(self) -> None:
        """Remove what was posted in batches that the driver is done with."""
        if self._run.mail is not None:
            for folder in self._run.mail.iterdir():
                if int(folder.name) <= self._engine.committed:
                    shutil.rmtree(folder, ignore_errors=True)

    def _shipped(self) -> Shipped:
        """The plans, which Spark ships to the tasks that ask for them."""
        parts, context = self._engine.executor.parts, self._spark.sparkContext
        for number in [number for number in self._plans if number not in parts]:
            self._plans.pop(number).destroy()
        for number, part in parts.items():
            if number not in self._plans and part.continuous.operators is not None:
                self._plans[number] = context.broadcast(PLANS.to_bytes(part.continuous.operators))
        version = self._engine.version
        if self._engine.routes.divided and (self._divided is None or self._divided[0] != version):
            if self._divided is not None:
                self._divided[1].destroy()
            self._divided = version, context.broadcast(PLANS.to_bytes(self._engine.divided_plan()))
        return Shipped(dict(self._plans), self._divided)


@dataclass(frozen=True, slots=True)
class Shipped:
    """Plans as Spark has shipped them: of parts, and a version of that of synopses in partitions."""

    parts: Mapping[int, Broadcast[bytes]]
    divided: tuple[int, Broadcast[bytes]] | None

    def find(self, wanted: Wanted) -> bytes:
        if wanted.part is not None:
            return self.parts[wanted.part].value
        if self.divided is None or self.divided[0] != wanted.version:
            raise InternalError(
                f"version {wanted.version} of a plan is wanted, which is not that of the batch"
            )
        return self.divided[1].value


# What runs of this process share: the process, the folder, and the secret.
_shared: list[tuple[int, Path, str]] = []


def _of_this_process() -> tuple[int, Path, str]:
    if not _shared or _shared[0][0] != os.getpid():
        folder = Path(tempfile.mkdtemp(prefix="sash-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        _shared[:] = [(os.getpid(), folder, new_secret())]
    return _shared[0]


def nursery_folder() -> Path:
    """Where the process is found that the holders of all runs of this one are forked from."""
    return _of_this_process()[1]


def secret_of_this_process() -> str:
    return _of_this_process()[2]


def _first_stage(
    plan: RunPlan,
    routes: Routes,
    of: int,
    bars: Bars,
    mailbox: Path | None,
    keep: Keep | None,
) -> Callable[[Batches], Batches]:
    """What a task does with the descriptions of its chunks."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for text in batch.column(0).to_pylist():
                try:
                    if text == NO_CHUNK:
                        messages = list(wake(routes, of))
                    else:
                        chunk = Chunk.from_json(text)
                        result = run_chunk(plan, chunk, bars[chunk.stream, chunk.sequence], keep)
                        messages = [message.posted(mailbox) for message in scatter(routes, result, of)]
                except SashError as failure:
                    messages = [failed(failure)]
                yield from _rows(messages, 0)

    return run


def _stage(
    run: Run,
    stage: int,
    turn: Turn,
    files: Mapping[int, Mapping[int, tuple[StateFile, ...]]],
    plans: Shipped,
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
            divided = turn.divided and turn.divided.for_one(partition, run.partitions)
            own = replace(turn, divided=divided)
            request = Request(stage, own, files[partition], heads_of(messages))
            try:
                given = ask(run, partition, request, [m.payload for m in messages], plans.find)
            except SashError as failure:
                given = [failed(failure)]
            yield from _rows(given, partition)

    return work


def _rows(messages: Iterable[Message], here: int) -> Batches:
    """Messages as rows of Spark's, one a batch: a payload may be large."""
    for m in messages:
        place = here if m.target == TOP else m.target
        values = [place, m.part, m.stage, m.target, m.link, m.rank, m.path]
        arrays = [pa.array([value], field.type) for value, field in zip(values, _SCHEMA, strict=False)]
        # Not copied: the one value of the column is the payload as it is.
        ends = pa.array([0, len(m.payload)], pa.int32()).buffers()[1]
        arrays.append(pa.Array.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(m.payload)]))
        yield pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def _messages(table: pa.Table) -> Iterator[Message]:
    heads = table.select(["part", "stage", "target", "link", "rank", "path"]).to_pylist()
    for head, payload in zip(heads, table.column("payload"), strict=True):
        yield Message(payload=payload.as_buffer(), **head)
