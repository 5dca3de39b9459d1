"""The limit that everything is measured against: Spark reads Parquet files and does nothing with them."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from sash.errors import InternalError


def noop_scan(directory: Path, files_a_trigger: int) -> float:
    """Rows a second of a streaming scan into the no-op sink, its first trigger not counted."""
    spark = SparkSession.getActiveSession()
    if spark is None:
        raise InternalError("a scan needs an active Spark session")
    schema = spark.read.parquet(str(directory)).schema
    with tempfile.TemporaryDirectory(prefix="sash-scan-") as checkpoint:
        query = (
            spark.readStream.schema(schema)
            .option("maxFilesPerTrigger", files_a_trigger)
            .parquet(str(directory))
            .writeStream.format("noop")
            .trigger(availableNow=True)
            .option("checkpointLocation", checkpoint)
            .start()
        )
        query.awaitTermination()
        progress = [p for p in query.recentProgress if p["numInputRows"] > 0]
    counted = progress[1:] or progress
    seconds = sum(p["durationMs"]["triggerExecution"] for p in counted) / 1000
    return float(sum(p["numInputRows"] for p in counted) / seconds)
