"""The one streaming source that Spark reads: the entries of the feed.

All streams of a program come through it, so Spark's offset log is a single number and a restart repeats
exactly one batch. A partition is one chunk's description; the rows are read by the task that gets it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from sash.engine.durability.feed_log import FeedLog

NAME = "sash_feed"


class ChunksPartition(InputPartition):
    """The chunks that one task reads, in order."""

    def __init__(self, chunks: list[str]) -> None:
        self.chunks = chunks


class FeedReader(DataSourceStreamReader):
    def __init__(self, directory: str, tasks: int) -> None:
        self._log = FeedLog(Path(directory))
        self._tasks = tasks

    def initialOffset(self) -> dict[str, int]:
        return {"entries": 0}

    def latestOffset(self, start: dict[str, int], limit: object) -> dict[str, int]:
        # One entry a batch, so that batch numbers are entry numbers. Never back, also if the feed has gone
        # away: Spark would log that, too.
        known = start["entries"]
        return {"entries": max(known, min(known + 1, self._log.count()))}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[ChunksPartition]:
        chunks: list[str] = []
        for number in range(start["entries"], end["entries"]):
            entry = self._log.read(number)
            if entry is None:
                raise FileNotFoundError(f"entry {number} of the feed is missing")
            chunks.extend(json.dumps(chunk) for chunk in json.loads(entry)["chunks"])
        # A task costs more than a chunk's description is worth, so there are no more tasks than cores.
        return [ChunksPartition(chunks[task :: self._tasks]) for task in range(min(self._tasks, len(chunks)))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ChunksPartition)
        yield pa.RecordBatch.from_pydict({"chunk": partition.chunks})


class FeedSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return "chunk string"

    def streamReader(self, schema: Any) -> FeedReader:
        return FeedReader(self.options["path"], int(self.options["tasks"]))
