"""Do the executors of a cluster have what tasks need? A first small job asks them.

It runs before any output is touched, and finds a cluster without room, a Python that does not fit, missing
modules, and a checkpoint folder that is not shared. An executor that comes later is found by its first task.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sash.errors import CheckpointError, RunError, SashError, SetupError
from sash.runtime.spark.failures import full_text, missing_module, task_failure, turned_away

# Seconds until a cluster that gives no executor is given up.
PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What a task found where it ran."""

    host: str
    missing: str | None
    sees_token: bool
    may_write: bool


def check_executors(spark: SparkSession, master: str, shared: Path | None) -> None:
    """Raise unless executors come and can work; `shared` is a folder that they must see and may write to."""
    for answer in asked(spark, master, shared):
        if answer.missing is not None:
            raise missing_module(answer.missing, answer.host)
        if shared is not None and not answer.sees_token:
            raise CheckpointError(
                f"the executor on {answer.host} does not see the checkpoint '{shared}'",
                hint="give --checkpoint a folder on a path that all machines of the cluster share",
                id="checkpoint-not-shared",
            )
        if shared is not None and not answer.may_write:
            raise CheckpointError(
                f"the executor on {answer.host} may not write to the checkpoint '{shared}'",
                hint="let the user that the executors run as write to that folder",
                id="checkpoint-not-shared",
            )


def asked(spark: SparkSession, master: str, shared: Path | None) -> list[Seen]:
    """What tasks find where they run."""
    with _token(shared) as token:
        try:
            return _ask(spark, master, token)
        except (PySparkException, Py4JError) as failure:
            raise _refusal(full_text(failure), master) from failure


def look(token: str | None) -> Seen:
    """Runs in a task."""
    missing = None
    try:
        importlib.import_module("sash.engine.ingest.first_stage")
    except ModuleNotFoundError as failure:
        missing = failure.name or str(failure)
    folder = None if token is None else os.path.dirname(token)
    return Seen(
        socket.gethostname(),
        missing,
        token is None or os.path.exists(token),
        folder is None or os.access(folder, os.W_OK),
    )


def _ask(spark: SparkSession, master: str, token: str | None) -> list[Seen]:
    context = spark.sparkContext
    tasks = max(1, context.defaultParallelism)

    def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"seen": [json.dumps(asdict(look(token))).encode()]})

    gave_up = threading.Event()

    def give_up() -> None:
        # The driver counts as one.
        if context._jsc.sc().getExecutorMemoryStatus().size() < 2:
            gave_up.set()
            context.cancelAllJobs()

    timer = threading.Timer(PATIENCE, give_up)
    timer.daemon = True
    timer.start()
    try:
        # The kind of job that batches are, so the processes that it starts are theirs.
        answers = spark.range(tasks, numPartitions=tasks).mapInArrow(answer, "seen binary").toArrow()
        return [Seen(**json.loads(seen.as_py())) for seen in answers.column("seen")]
    except (PySparkException, Py4JError) as failure:
        if not gave_up.is_set():
            raise
        raise SetupError(
            f"no executor of '{master}' has come within {PATIENCE:.0f} s",
            hint="does the cluster have workers with free cores and memory? Its web page shows them; "
            "spark.executor.memory and spark.cores.max in spark-defaults.conf say what is asked of them",
            id="no-executor",
        ) from failure
    finally:
        timer.cancel()


def _refusal(text: str, master: str) -> SashError:
    if "SparkContext was shut down" in text or "stopped SparkContext" in text or text == "Spark has ended":
        return turned_away(master)
    failure = task_failure(text)
    return (
        failure
        if not isinstance(failure, RunError)
        else RunError(f"executors cannot work: {failure.message}")
    )


@contextmanager
def _token(shared: Path | None) -> Iterator[str | None]:
    """A file that only those see who see the same folder."""
    if shared is None:
        yield None
        return
    path = shared.absolute() / f"seen-{uuid.uuid4().hex}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    try:
        yield str(path)
    finally:
        path.unlink(missing_ok=True)
