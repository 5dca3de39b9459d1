"""The Spark session of a run, silent on the user's terminal.

The JVM is started with a log file as its standard error, which the Python workers inherit, so nothing of
theirs reaches the terminal (with `debug` it keeps the terminal). It has a process group of its own, so
Ctrl-C reaches only the driver, which lets the batch under way finish.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from sash.errors import SetupError
from sash.runtime.spark.executors import check_executors
from sash.runtime.spark.failures import reason
from sash.runtime.spark.java import check_java
from sash.runtime.spark.masters import NICENESS, check_master, is_local, is_on_loopback, with_retries
from sash.runtime.spark.shipping import shipped

_SETTINGS = {
    "spark.app.name": "sash",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.driver.maxResultSize": "0",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.metricsEnabled": "false",
    # Jobs of batches are in one pool, those of archives in another one: else a batch would wait for all tasks
    # of an update that began before it.
    "spark.scheduler.mode": "FAIR",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "sash.runtime.spark.daemon",
    "spark.log.level": "WARN",
}
# A session on this machine talks to nobody else.
_LOOPBACK_SETTINGS = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
# Rows do not pass through the JVM of a session on this machine: it plans batches and starts tasks. Its
# optimising compiler would take more than half of a run's first minute, and no batch pays that back.
_JVM_OPTION = "spark.driver.extraJavaOptions"
_QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Spark's log of batches costs a batch a tenth of a second where Hadoop's library for this system is missing,
# which PyPI's Spark does not have: each of its files and checksums starts other programs to set permissions.
# Plain files that are renamed are as safe, and the feed is what a run goes on from.
_PLAIN_FILES = {
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
# By so much tasks give way to the driver of a session on this machine: less, and they wait for answers of the
# batch before; more, and answers wait for them. Seen at 0 and at 5; this is between, not tuned.
_NICENESS = "2"
# How many blocks use the session that we started: a process has one Spark, and may have several runs.
_users = 0
_lock = threading.Lock()
# What must be there as long as the session.
_parts = ExitStack()


@contextmanager
def spark_session(
    master: str, log: Path | None, shared: Path | None = None, *, optimising: bool = False
) -> Iterator[SparkSession]:
    """The session of this process if there is one, else a new one that ends with the last block to use it.

    `log` is where Spark's own messages go; None leaves them on the terminal. `shared` is a folder that the
    executors of a cluster must see. `optimising` is for those who let Spark itself work on rows, as it does.
    """
    global _users
    with _lock:
        # Spark tells only the thread that made a session of it, and a run may have a thread of its own.
        running = SparkContext._active_spark_context
        is_ours = running is None or _users > 0
        if running is None:
            check_java()
            check_master(master)
        context = running or _start(master, log, optimising)
        _users += is_ours
    try:
        session = SparkSession.getActiveSession() or SparkSession(context)
        if running is None and not is_local(master):
            _parts.enter_context(shipped(context, master))
            check_executors(session, master, shared)
        yield session
    finally:
        with _lock:
            _users -= is_ours
            if is_ours and not _users:
                _parts.close()
                context.stop()
                _end_jvm()


def _start(master: str, log: Path | None, optimising: bool) -> SparkContext:
    # Workers must run in the environment of the driver, not in whatever python3 the PATH has.
    # Those of a cluster may have another one of the same version, which only the user knows.
    if is_local(master) or not os.environ.get("PYSPARK_PYTHON"):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ[NICENESS] = _NICENESS if is_local(master) else "0"
    conf = SparkConf().setMaster(with_retries(master)).setAll(list(_SETTINGS.items()))
    if is_on_loopback(master):
        conf.setAll(list(_LOOPBACK_SETTINGS.items()))
    if not optimising:
        conf.setAll(list(_PLAIN_FILES.items()))
    if is_local(master) and not optimising:
        conf.set(_JVM_OPTION, " ".join(filter(None, (_QUICK_JVM, conf.get(_JVM_OPTION)))))
    try:
        return SparkContext(conf=conf, gateway=_gateway(conf, log))
    except (PySparkRuntimeError, Py4JError, OSError) as failure:
        raise SetupError(
            "Spark did not start",
            got=reason(failure),
            hint="see the messages above" if log is None else "--debug shows Spark's own messages",
            id="spark-start",
        ) from failure


def _gateway(conf: SparkConf, log: Path | None) -> Any:
    """The JVM.

    PySpark runs Python between fork and exec, which may crash where other threads are at work: then once
    more.
    """
    try:
        return _launched(conf, log)
    except PySparkRuntimeError:
        return _launched(conf, log)


def _launched(conf: SparkConf, log: Path | None) -> Any:
    launch: Any = launch_gateway
    process: dict[str, Any] = {"start_new_session": True}
    if log is None:
        return launch(conf, process)
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as messages:
        return launch(conf, {**process, "stdout": messages, "stderr": messages})


def _end_jvm() -> None:
    """End the JVM with the session, so that nothing outlives the run."""
    gateway = SparkContext._gateway
    if gateway is None:
        return
    gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.stdin.close()
        process.wait(timeout=30)
    SparkContext._gateway = None
    SparkContext._jvm = None
