"""Sub-indices of archives are written in Spark tasks: a job for an update, a task for each sub-index that it
must touch.

The driver puts the new rows of each into a file where the state of the run is, which all machines share, so
rows do not pass through the JVM. What tasks have written becomes a version when the driver commits it; until
then it is nothing, so a task may fail, or run twice. Jobs run beside those of batches. An update that has
little to do is done by threads of the driver, because a job takes longer to start: up to 128 MB on a cluster
and, where tasks have no other cores than the driver (`archive-parallel` measures it), up to 1 GB, unless
`--max-driver-update` says otherwise. Whether executors see the directory is asked at the first update,
however small: later the run would have to end for it.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from sash.archive import SlotResult, SlotTask, SlotWork, rewrite_in_threads
from sash.archive.taken import Taken
from sash.archive.versions import DATA
from sash.engine.durability.files import save_file, translate_os_errors
from sash.engine.durability.wire import pack_state, unpack_state
from sash.errors import ArchiveError, SashError
from sash.runtime.spark.executors import asked
from sash.runtime.spark.failures import explained_failures
from sash.runtime.spark.masters import is_local

_LARGE = 128_000_000
_LARGE_HERE = 1_000_000_000
_FOLDER = "archived"
_POOL = "spark.scheduler.pool"


class ArchiveJobs:
    """Rewrites sub-indices in Spark tasks; `state` is a folder that they share with the driver.

    What has at most `here` bytes to read and write is done here: None for what is usual, 0 for all.
    """

    def __init__(self, spark: SparkSession, state: Path, here: int | None = None) -> None:
        self._spark = spark
        self._state = state
        self._master = str(spark.sparkContext.master)
        usual = _LARGE_HERE if is_local(self._master) else _LARGE
        self._here = usual if here is None else here
        # Directories that executors see.
        self._shared: set[str] = set()

    def __call__(self, work: Sequence[SlotWork]) -> list[SlotResult]:
        if not self._here:
            return rewrite_in_threads(work)
        if not is_local(self._master):
            for root in sorted({each.task.root for each in work} - self._shared):
                self._check_shared(root)
        busy = sorted((each for each in work if not each.is_idle), key=lambda each: -each.size)
        if len(busy) < 2 or sum(each.size for each in busy) <= self._here:
            return rewrite_in_threads(work)
        folder = self._state / f"{_FOLDER}-{uuid.uuid4().hex}"
        with translate_os_errors(folder, "make"):
            folder.mkdir()
        try:
            results = self._job([_posted(each, folder / str(n)) for n, each in enumerate(busy)])
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return [*results, *(each.done() for each in work if each.is_idle)]

    def _check_shared(self, root: str) -> None:
        for answer in asked(self._spark, self._master, Path(root) / DATA):
            if not answer.sees_token:
                raise _not_shared(root, f"the executor on {answer.host} does not see it")
            if not answer.may_write:
                raise _not_shared(root, f"the executor on {answer.host} may not write to it")
        self._shared.add(root)

    def _job(self, tasks: Sequence[tuple[SlotTask, Path]]) -> list[SlotResult]:
        context = self._spark.sparkContext
        context.setLocalProperty(_POOL, "archives")
        try:
            with explained_failures(self._spark):
                given = context.parallelize(tasks, len(tasks)).map(_rewritten).collect()
        finally:
            context.setLocalProperty(_POOL, "default")
        results = []
        for (task, _), result in zip(tasks, given, strict=True):
            if isinstance(result, SashError):
                raise result
            for segment in result.segments:
                if not (Path(task.root) / segment.name).exists():
                    raise _not_shared(task.root, f"no '{segment.name}', which a task has written")
            results.append(result)
        return results


def _not_shared(root: str, got: str) -> ArchiveError:
    return ArchiveError(
        f"the archive '{root}' is not the same directory on all machines",
        got=got,
        hint="executors write archives: name a directory that all machines share, "
        "or let the driver do it alone, with --max-driver-update none",
        id="archive-shared",
    )


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
        with translate_os_errors(path, "read"):
            tables = unpack_state(path.read_bytes())
        taken = Taken(tables["taken rows"], tables["taken keys"]) if "taken rows" in tables else None
        return SlotWork(task, tables.get("rows"), taken).done()
    except SashError as failure:
        return failure
