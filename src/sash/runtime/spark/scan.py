"""The limits that everything is measured against: Spark reads Parquet files and does nothing with them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Observation, SparkSession, functions
from pyspark.sql.functions import count, lit
from pyspark.sql.streaming.readwriter import DataStreamWriter

from sash.archive import DIES
from sash.errors import InternalError


def noop_scan(directory: Path, files_a_trigger: int) -> float:
    """Rows a second of a streaming scan into the no-op sink, its first trigger not counted."""
    spark = SparkSession.getActiveSession()
    if spark is None:
        raise InternalError("a scan needs an active Spark session")
    schema = spark.read.parquet(str(directory)).schema
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", files_a_trigger)
    with tempfile.TemporaryDirectory(prefix="sash-scan-") as checkpoint:
        return _speed(rows.parquet(str(directory)).writeStream, checkpoint)


def _speed(rows: DataStreamWriter, checkpoint: str) -> float:
    """Rows a second into the no-op sink, the first trigger not counted."""
    query = rows.format("noop").trigger(availableNow=True).option("checkpointLocation", checkpoint).start()
    query.awaitTermination()
    progress = [p for p in query.recentProgress if p["numInputRows"] > 0]
    counted = progress[1:] or progress
    seconds = sum(p["durationMs"]["triggerExecution"] for p in counted) / 1000
    return float(sum(p["numInputRows"] for p in counted) / seconds)


def native_window(directory: Path, files_a_trigger: int, range_: int, slide: int) -> float:
    """Rows a second of Spark's own sliding window, one sum by source; its first trigger not counted."""
    spark = SparkSession.getActiveSession()
    if spark is None:
        raise InternalError("a window needs an active Spark session")
    schema = spark.read.parquet(str(directory)).schema
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", files_a_trigger)
    window = functions.window("ts", f"{range_} seconds", f"{slide} seconds")
    timed = rows.parquet(str(directory)).withColumn("ts", functions.col("ts").cast("timestamp"))
    sums = timed.withWatermark("ts", "0 seconds").groupBy(window, "src").sum("length")
    with tempfile.TemporaryDirectory(prefix="sash-scan-") as checkpoint:
        return _speed(sums.writeStream.outputMode("update"), checkpoint)


def empty_stage(directories: Sequence[Path], files_a_trigger: int) -> float:
    """Rows a second that pass through a `mapInArrow` that does nothing, the first trigger not counted."""
    spark = SparkSession.getActiveSession()
    if spark is None:
        raise InternalError("a stage needs an active Spark session")
    schema = spark.read.parquet(str(directories[0])).schema
    frames = [
        spark.readStream.schema(schema).option("maxFilesPerTrigger", files_a_trigger).parquet(str(directory))
        for directory in directories
    ]
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.union(frame)
    with tempfile.TemporaryDirectory(prefix="sash-scan-") as checkpoint:
        return _speed(whole.mapInArrow(_nothing, schema).writeStream, checkpoint)


def scan_later(files: Sequence[Path], instant: int) -> int:
    """How many rows of an archive's files die after an instant; all columns are read, row by row."""
    spark = SparkSession.getActiveSession()
    if spark is None:
        raise InternalError("a scan needs an active Spark session")
    rows = spark.read.parquet(*map(str, files)).filter(f"{DIES} > {instant}")
    counted = Observation("rows")
    rows.observe(counted, count(lit(1)).alias("rows")).write.format("noop").mode("overwrite").save()
    return int(counted.get["rows"])


def _nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
