"""The pipeline on Spark: one StreamingQuery over all streams, one job a batch.

The feed decides what a batch reads. Spark logs its number, makes a task of every chunk, and `foreachBatch`
hands the tasks' results to the engine, which answers and commits. Rows never pass through the JVM: a task
gets the description of its chunk and reads the file itself.
"""

from __future__ import annotations

import pickle
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sash.errors import InternalError, RunError, SashError
from sash.plan.run_plan import RunPlan
from sash.runtime.engine import Engine, Newest, Options, RunChunks
from sash.runtime.feed import Entry
from sash.runtime.report import Summary
from sash.runtime.sources import Chunk
from sash.runtime.spark.failures import explained_failures, first_line
from sash.runtime.spark.feed_source import NAME, FeedSource
from sash.runtime.spark.java import check_java
from sash.runtime.spark.masters import cores, require_shared_state
from sash.runtime.spark.session import spark_session
from sash.runtime.stage import ChunkResult, run_chunk

_PAYLOAD = "payload binary"
# How long to wait before looking again for new input or a stop, in seconds.
_IDLE = 0.05


def run_spark(plan: RunPlan, options: Options, stop: threading.Event) -> Summary:
    """Run until all input has ended or `stop` is set."""
    require_shared_state(options.master, options.checkpoint)
    if SparkSession.getActiveSession() is None:
        # Before any output is replaced: without Java the results of the last run stay as they are.
        check_java()
    scratch = Path(tempfile.mkdtemp(prefix="sash-"))
    try:
        engine = Engine(plan, options, "spark", cores(options.master), overlap=True)
        log = None if options.debug else (options.checkpoint or scratch) / "spark.log"
        state = options.checkpoint or scratch
        feed, offsets = state / "feed", state / "spark"
        try:
            engine.load(feed)
            if not engine.is_finished and not stop.is_set():
                with spark_session(options.master, log, options.checkpoint) as spark:
                    # Only now are old outputs replaced: whatever keeps Spark from starting leaves them alone.
                    engine.open_outputs()
                    _Pipeline(spark, engine, feed, offsets).run(stop)
            return engine.finish(interrupted=not engine.is_finished)
        finally:
            engine.close()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


class _Pipeline:
    def __init__(self, spark: SparkSession, engine: Engine, feed: Path, offsets: Path) -> None:
        self._spark = spark
        self._tasks = spark.sparkContext.defaultParallelism
        self._engine = engine
        # Tasks know nothing of queries, and hundreds of them would have to travel with every batch.
        self._task_plan = replace(engine.plan, queries=(), continuous=(), one_time=())
        self._feed = feed
        self._offsets = offsets
        self._entry: Entry | None = None
        self._failure: BaseException | None = None
        self._done = threading.Event()

    def run(self, stop: threading.Event) -> None:
        if stop.is_set():
            return
        self._spark.dataSource.register(FeedSource)
        self._repeat_pending()
        query = self._start()
        try:
            while not self._engine.is_finished:
                if self._entry is None:
                    if stop.is_set():
                        break
                    self._entry = self._engine.next_entry()
                    if self._entry is None:
                        stop.wait(_IDLE)
                        self._check(query)
                elif self._done.wait(_IDLE):
                    self._done.clear()
                    if self._failure is not None:
                        raise self._failure
                    self._entry = None
                else:
                    self._check(query)
        finally:
            query.stop()

    def _repeat_pending(self) -> None:
        """Batches that were decided but not committed when the last run ended are run first, by ourselves.

        Spark may have marked them as done, because it does not wait for the answers.
        """
        while (entry := self._engine.pending_entry()) is not None:
            self._engine.take(entry, self._run_chunks)

    def _start(self) -> StreamingQuery:
        return (
            self._spark.readStream.format(NAME)
            .option("path", str(self._feed))
            .option("tasks", self._tasks)
            .load()
            .writeStream.foreachBatch(self._batch)
            .option("checkpointLocation", str(self._offsets))
            .start()
        )

    def _check(self, query: StreamingQuery) -> None:
        """Raise what ended the query, if something other than us did."""
        if query.isActive or self._done.is_set():
            return
        failure = query.exception()
        raise RunError(
            f"Spark ended the pipeline: {first_line(str(failure) if failure else 'no reason given')}",
            hint="run again with --debug for Spark's own messages",
        )

    def _batch(self, chunks: DataFrame, number: int) -> None:
        """Called by Spark for each batch, in a thread of its own."""
        # Spark has marked all batches before this one as done and will not ask for them again.
        self._engine.forget_entries(number)
        if number <= self._engine.taken:
            # Taken before Spark logged it as done: nothing is left to do.
            return
        try:
            entry = self._entry
            if entry is None or entry.number != number:
                raise InternalError(f"Spark asked for batch {number} out of turn")
            self._engine.take(entry, self._runner(chunks))
        except SashError as failure:
            self._failure = failure
        except BaseException as failure:
            self._failure = failure
        self._done.set()
        if self._failure is not None:
            # Spark must not mark the batch as done.
            raise self._failure

    def _runner(self, frame: DataFrame) -> RunChunks:
        """Runs the chunks that Spark handed over; the second time, just those that are asked for."""
        frames = iter((frame,))

        def run(chunks: Sequence[Chunk], newest: Newest) -> list[ChunkResult]:
            given = next(frames, None)
            return self._run_chunks(chunks, newest) if given is None else self._run(given, newest)

        return run

    def _run_chunks(self, chunks: Sequence[Chunk], newest: Newest) -> list[ChunkResult]:
        rows = [(chunk.to_json(),) for chunk in chunks]
        frame = self._spark.createDataFrame(rows, "chunk string").repartition(min(len(rows), self._tasks))
        return self._run(frame, newest)

    def _run(self, frame: DataFrame, newest: Newest) -> list[ChunkResult]:
        with explained_failures(self._spark):
            return _collect(frame.mapInArrow(_task(self._task_plan, dict(newest)), _PAYLOAD).toArrow())


def _task(
    plan: RunPlan, newest: dict[tuple[str, int], int | None]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a task does with the descriptions of its chunks."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for text in batch.column(0).to_pylist():
                chunk = Chunk.from_json(text)
                try:
                    result: ChunkResult | SashError = run_chunk(
                        plan, chunk, newest[chunk.stream, chunk.sequence]
                    )
                except SashError as failure:
                    # Handed over as it is: Spark would turn it into a page of text.
                    result = failure
                yield pa.RecordBatch.from_pydict({"payload": pa.array([pickle.dumps(result, 5)])})

    return run


def _collect(table: pa.Table) -> list[ChunkResult]:
    results: list[ChunkResult] = []
    for payload in table.column("payload"):
        result = pickle.loads(payload.as_buffer())
        if isinstance(result, SashError):
            raise result
        results.append(result)
    return results
