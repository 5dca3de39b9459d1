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
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sash.errors import InternalError, RunError, SashError
from sash.lang.bound import QueryDefinition, StreamDefinition
from sash.plan.periodic import PeriodicPlan
from sash.runtime.engine import Engine, Options
from sash.runtime.feed import Entry
from sash.runtime.report import Summary
from sash.runtime.sources import Chunk
from sash.runtime.spark.feed_source import NAME, FeedSource
from sash.runtime.spark.session import spark_session
from sash.runtime.stage import ChunkResult, run_chunk

_PAYLOAD = "payload binary"
# How long to wait before looking again for new input or a stop, in seconds.
_IDLE = 0.05


def run_spark(
    streams: Sequence[StreamDefinition],
    queries: Sequence[QueryDefinition],
    options: Options,
    stop: threading.Event,
) -> Summary:
    """Run until all input has ended or `stop` is set."""
    scratch = Path(tempfile.mkdtemp(prefix="sash-"))
    try:
        engine = Engine(streams, queries, options, "spark", _cores(options.master))
        log = None if options.debug else (options.checkpoint or scratch) / "spark.log"
        if options.checkpoint is None:
            engine.start(scratch / "feed")
            feed, offsets = scratch / "feed", scratch / "spark"
        else:
            engine.start()
            feed, offsets = options.checkpoint / "feed", options.checkpoint / "spark"
        try:
            if not engine.is_finished:
                with spark_session(options.master, log) as spark:
                    _Pipeline(spark, engine, feed, offsets).run(stop)
            return engine.finish(interrupted=not engine.is_finished)
        finally:
            engine.close()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _cores(master: str) -> int:
    import os
    import re

    found = re.fullmatch(r"local\[(\d+)\]", master)
    return int(found.group(1)) if found else os.cpu_count() or 1


class _Pipeline:
    def __init__(self, spark: SparkSession, engine: Engine, feed: Path, offsets: Path) -> None:
        self._spark = spark
        self._engine = engine
        self._feed = feed
        self._offsets = offsets
        self._entry: Entry | None = None
        self._failure: BaseException | None = None
        self._done = threading.Event()

    def run(self, stop: threading.Event) -> None:
        self._spark.dataSource.register(FeedSource)
        # Decided before Spark starts, so that Spark finds it when it looks for the first time.
        self._publish()
        query = self._start()
        try:
            while not self._engine.is_finished:
                if self._entry is None:
                    if stop.is_set():
                        break
                    self._publish()
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

    def _publish(self) -> None:
        self._entry = self._engine.next_entry()

    def _start(self) -> StreamingQuery:
        return (
            self._spark.readStream.format(NAME)
            .option("path", str(self._feed))
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
            f"Spark ended the pipeline: {_first_line(str(failure) if failure else 'no reason given')}",
            hint="run again with --debug for Spark's own messages",
        )

    def _batch(self, chunks: DataFrame, number: int) -> None:
        """Called by Spark for each batch, in a thread of its own."""
        entry = self._entry
        if number <= self._engine.committed:
            # Committed before a crash that Spark did not survive: nothing is left to do.
            return
        try:
            if entry is None or entry.number != number:
                raise InternalError(f"Spark asked for batch {number} out of turn")
            self._engine.process(entry, self._runner(chunks))
        except SashError as failure:
            self._failure = failure
        except PySparkException as failure:
            self._failure = RunError(f"a Spark task failed: {_first_line(str(failure))}")
            self._failure.__cause__ = failure
        except BaseException as failure:
            self._failure = failure
        self._done.set()
        if self._failure is not None:
            # Spark must not mark the batch as done.
            raise self._failure

    def _runner(
        self, chunks: DataFrame
    ) -> Callable[[Sequence[Chunk], Mapping[tuple[str, int], int | None]], list[ChunkResult]]:
        first = True

        def run(wanted: Sequence[Chunk], newest: Mapping[tuple[str, int], int | None]) -> list[ChunkResult]:
            nonlocal first
            frame = chunks
            if not first:
                rows = [(chunk.to_json(),) for chunk in wanted]
                frame = self._spark.createDataFrame(rows, "chunk string").repartition(len(rows))
            first = False
            task = _task(self._engine.plan, dict(newest))
            return _collect(frame.mapInArrow(task, _PAYLOAD).toArrow())

        return run


def _task(
    plan: PeriodicPlan, newest: dict[tuple[str, int], int | None]
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


def _first_line(text: str) -> str:
    """The line of a Spark error that says what happened: the last Python exception if there is one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.partition(":")[0].endswith(("Error", "Exception"))]
    return (errors or lines or ["unknown"])[-1 if errors else 0]
