"""The pipeline on Spark: one StreamingQuery over all streams, one job a batch.

The feed decides what a batch reads. Spark logs its number, makes a task of every chunk, and `foreachBatch`
hands the tasks' results to the engine, which answers and commits. Rows never pass through the JVM: a task
gets the description of its chunk and reads the file itself.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sash.connectors.sources import Chunk
from sash.engine.batch_result import BatchResult
from sash.engine.control_channel import ControlChannel
from sash.engine.durability.checkpoint import FEED
from sash.engine.durability.scratch import scratch_folder
from sash.engine.engine import Engine
from sash.engine.ingest.feed import Entry
from sash.engine.observe.report import Summary
from sash.engine.options import Options
from sash.engine.run_chunks import Bars, RunBatch
from sash.engine.stopping import Look, leaving, on_leave, over
from sash.errors import InternalError
from sash.lang import Program
from sash.runtime.spark.archive_jobs import ArchiveJobs
from sash.runtime.spark.failures import ended, explained_failures
from sash.runtime.spark.feed_source import NAME, FeedSource
from sash.runtime.spark.java import check_java
from sash.runtime.spark.masters import cores, require_shared_state
from sash.runtime.spark.session import spark_session
from sash.runtime.spark.stages import NO_CHUNK, Stages, nursery_folder

# How long to wait before looking again for new input or a stop, in seconds.
_IDLE = 0.05


def run_spark(program: Program, options: Options, stop: threading.Event, control: ControlChannel) -> Summary:
    """Run until all input has ended or `stop` is set."""
    require_shared_state(options.master, options.checkpoint)
    if SparkSession.getActiveSession() is None:
        # Before any output is replaced: without Java the results of the last run stay as they are.
        check_java()
    count = cores(options.master)
    partitions = options.partitions or count
    with scratch_folder() as scratch:
        on_leave(stop, lambda: shutil.rmtree(scratch, ignore_errors=True))
        look = Look(stop)
        engine = Engine(
            program,
            options,
            "spark",
            count,
            state=scratch,
            overlap=True,
            partitions=partitions,
            look=look,
        )
        state = options.checkpoint or scratch
        log = None if options.debug else state / "spark.log"
        try:
            engine.load()
            if not engine.is_finished and not stop.is_set():
                with (
                    spark_session(options.master, log, options.checkpoint) as spark,
                    Stages(spark, engine, state, scratch) as stages,
                    leaving(stop, look, lambda: _leave(engine, scratch)),
                    engine.abandoning(),
                ):
                    engine.outputs.rewrite = ArchiveJobs(spark, state, options.max_driver_update)
                    pipeline = _Pipeline(spark, engine, stages, state)
                    # Only now are old outputs replaced: whatever keeps Spark from starting leaves them alone.
                    engine.open_outputs()
                    pipeline.run(stop, control)
            return engine.finish(interrupted=not engine.is_finished)
        finally:
            engine.close()


def _leave(engine: Engine, scratch: Path) -> None:
    """Leave nothing behind; the process ends now."""
    engine.leave(scratch)
    shutil.rmtree(nursery_folder(), ignore_errors=True)


class _Pipeline:
    def __init__(self, spark: SparkSession, engine: Engine, stages: Stages, state: Path) -> None:
        self._spark = spark
        self._tasks = spark.sparkContext.defaultParallelism
        self._engine = engine
        self._stages = stages
        self._feed = state / FEED
        self._offsets = state / "spark"
        self._failure: BaseException | None = None
        self._done = threading.Event()
        # Starts the Python of a worker.
        with explained_failures(spark):
            spark.dataSource.register(FeedSource)
            self._chunks = (
                spark.readStream.format(NAME)
                .option("path", str(self._feed))
                .option("tasks", self._tasks)
                .load()
            )

    def run(self, stop: threading.Event, control: ControlChannel) -> None:
        if stop.is_set():
            return
        self._repeat_pending()
        query, is_under_way = self._start(), False
        try:
            while not self._engine.is_finished:
                if not is_under_way:
                    if stop.is_set():
                        break
                    control.serve(self._engine)
                    is_under_way = self._engine.next_entry() is not None
                    if not is_under_way:
                        stop.wait(self._engine.wait(_IDLE))
                        self._check(query)
                elif self._done.wait(_IDLE):
                    self._done.clear()
                    if self._failure is not None:
                        raise self._failure
                    is_under_way = False
                else:
                    # Stopping the query cancels the jobs of the batch.
                    self._engine.look()
                    self._engine.check_feed()
                    self._check(query)
            # While there is Spark: what is still to be written may need it.
            self._engine.settle_archives()
            over(stop)
        finally:
            query.stop()

    def _repeat_pending(self) -> None:
        """Batches that were decided but not committed when the last run ended are run first, by ourselves.

        Spark may have marked them as done, because it does not wait for the answers.
        """
        while (entry := self._engine.pending_entry()) is not None:
            self._engine.take(entry, self._runner(None))

    def _start(self) -> StreamingQuery:
        with explained_failures(self._spark):
            return (
                self._chunks.writeStream.foreachBatch(self._batch)
                .option("checkpointLocation", str(self._offsets))
                .start()
            )

    def _check(self, query: StreamingQuery) -> None:
        """Raise what ended the query, if something other than us did."""
        if query.isActive or self._done.is_set():
            return
        failure = query.exception()
        raise ended(str(failure) if failure else "no reason given")

    def _batch(self, chunks: DataFrame, number: int) -> None:
        """Called by Spark for each batch, in a thread of its own."""
        if number <= self._engine.taken:
            # Taken before Spark logged it as done: nothing is left to do.
            return
        try:
            # Spark has marked all batches before this one as done and will not ask for them again.
            self._engine.forget_entries(number)
            entry = self._engine.decided
            if entry is None or entry.number != number:
                raise InternalError(f"Spark asked for batch {number} out of turn")
            self._engine.take(entry, self._runner(chunks))
        except BaseException as failure:
            self._failure = failure
        self._done.set()
        if self._failure is not None:
            # Spark must not mark the batch as done.
            raise self._failure

    def _runner(self, frame: DataFrame | None) -> RunBatch:
        """Runs the chunks that Spark handed over; the second time, just those that are asked for."""
        frames = iter((frame,) if frame is not None else ())

        def run(entry: Entry, chunks: Sequence[Chunk], bars: Bars) -> BatchResult:
            given = next(frames, None)
            if given is None or not chunks:
                given = self._chunk_frame(chunks)
            with explained_failures(self._spark):
                return self._stages.run(given, entry, bars)

        return run

    def _chunk_frame(self, chunks: Sequence[Chunk]) -> DataFrame:
        rows = [(chunk.to_json(),) for chunk in chunks] or [(NO_CHUNK,)]
        return self._spark.createDataFrame(rows, "chunk string").repartition(min(len(rows), self._tasks))
