"""Sub-indices of archives are written in Spark tasks: a job for an update, a task for each sub-index that it
must touch.

The driver puts the new rows of each into a file where the state of the run is, which all machines share, so
rows do not pass through the JVM. What tasks have written becomes a version when the driver commits it; until
then it is nothing, so a task may fail, or run twice. Jobs run beside those of batches. An update that has
little to do is done by threads of the driver, because a job takes longer to start: up to 128 MB on a cluster
and, where tasks have no other cores than the driver (`archive-parallel` measures it), up to 1 GB.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from sash.archive import SlotResult, SlotTask, SlotWork, rewrite_in_threads
from sash.archive.taken import Taken
from sash.errors import ArchiveError, SashError
from sash.runtime.files import save_file, told
from sash.runtime.spark.failures import explained_failures
from sash.runtime.spark.masters import is_local
from sash.runtime.wire import pack_state, unpack_state

_WORTH_A_JOB = 128_000_000
_WORTH_A_JOB_HERE = 1_000_000_000
_FOLDER = "archived"


class ArchiveJobs:
    """Rewrites sub-indices in Spark tasks; `state` is a folder that they share with the driver.

    What has fewer than `worth` bytes to read and write is done here.
    """

    def __init__(self, spark: SparkSession, state: Path, worth: int | None = None) -> None:
        self._spark = spark
        self._state = state
        here = is_local(str(spark.sparkContext.master))
        self._worth = worth if worth is not None else _WORTH_A_JOB_HERE if here else _WORTH_A_JOB

    def __call__(self, work: Sequence[SlotWork]) -> list[SlotResult]:
        busy = sorted((each for each in work if not each.is_idle), key=lambda each: -each.size)
        if len(busy) < 2 or sum(each.size for each in busy) < self._worth:
            return rewrite_in_threads(work)
        folder = self._state / f"{_FOLDER}-{uuid.uuid4().hex}"
        with told(folder, "make"):
            folder.mkdir()
        try:
            results = self._job([_posted(each, folder / str(n)) for n, each in enumerate(busy)])
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return [*results, *(each.done() for each in work if each.is_idle)]

    def _job(self, tasks: Sequence[tuple[SlotTask, Path]]) -> list[SlotResult]:
        context = self._spark.sparkContext
        with explained_failures(self._spark):
            given = context.parallelize(tasks, len(tasks)).map(_rewritten).collect()
        results = []
        for (task, _), result in zip(tasks, given, strict=True):
            if isinstance(result, SashError):
                raise result
            for segment in result.segments:
                if not (Path(task.root) / segment.name).exists():
                    raise ArchiveError(
                        f"the archive '{task.root}' is not the same directory on all machines",
                        got=f"no '{segment.name}', which a task has written",
                        hint="executors write archives themselves: name a directory that all machines share",
                        id="archive-shared",
                    )
            results.append(result)
        return results


def _posted(work: SlotWork, path: Path) -> tuple[SlotTask, Path]:
    """The task, and the file with its rows."""
    tables = {} if work.rows is None else {"rows": work.rows}
    if work.taken is not None:
        tables |= {"taken rows": work.taken.rows, "taken keys": work.taken.keys}
    save_file(path, pack_state(tables), durable=False)
    return work.task, path


def _rewritten(given: tuple[SlotTask, Path]) -> SlotResult | SashError:
    """What a task does; what went wrong is the driver's to tell."""
    task, path = given
    try:
        with told(path, "read"):
            tables = unpack_state(path.read_bytes())
        taken = Taken(tables["taken rows"], tables["taken keys"]) if "taken rows" in tables else None
        return SlotWork(task, tables.get("rows"), taken).done()
    except SashError as failure:
        return failure
