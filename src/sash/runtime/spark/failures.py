"""What Spark says when something fails, said in one sentence.

A failure in a task comes as pages of text of Java and Python. What matters is the last Python exception; some
of them mean that an executor is not set up as it must be, and then the hint says what it needs.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pyspark
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sash.errors import RunError, SashError, SetupError, SourceError
from sash.runtime.spark.masters import is_local

_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_VERSIONS = re.compile(r"Python in worker has different version: ([\d.]+) than that in driver: ([\d.]+)")
_NO_PYTHON = re.compile(
    r'Cannot run program "([^"]+)".*?: (?:Exec failed, )?error[=:] ?\d+(?:, | \()([^)\n]+)'
)
_PYTHON_SAID = re.compile(r"Error from python worker:\n(.*?)\nPYTHONPATH was:", re.DOTALL)

_CRASH = "Python worker exited unexpectedly"
_FULL = "No space left on device"
_NO_DAEMON = "occurred while reading the port number from"


@contextmanager
def explained_failures(spark: SparkSession) -> Iterator[None]:
    """Failures of Spark jobs in the block become errors of ours."""
    is_cluster = not is_local(str(spark.sparkContext.master))
    try:
        yield
    except (PySparkException, Py4JError) as failure:
        text = full_text(failure)
        # With its text as it is now: later the JVM, which an exception of Java's asks for it, has gone.
        said = RuntimeError(text).with_traceback(failure.__traceback__)
        raise task_failure(text, is_cluster=is_cluster) from said
    except SourceError as failure:
        if failure.hint is None and is_cluster:
            failure.hint = (
                "executors read sources themselves: the path must lead to the same file on all machines"
            )
        raise


def task_failure(text: str, *, is_cluster: bool = True) -> SashError:
    """The error that a failure of a task means."""
    if found := _VERSIONS.search(text):
        return SetupError(
            "an executor has another version of Python than the driver",
            expected=found.group(2),
            got=found.group(1),
            hint="set PYSPARK_PYTHON to a path that leads to the same version on all machines",
            id="executor-python",
        )
    if found := _MODULE.search(text):
        return missing_module(found.group(1))
    if found := _NO_PYTHON.search(text):
        return _no_python(found.group(1), found.group(2).strip(), is_cluster=is_cluster)
    if _NO_DAEMON in text:
        said = _PYTHON_SAID.search(text)
        lines = [] if said is None else [line.strip() for line in said.group(1).splitlines() if line.strip()]
        python = os.environ.get("PYSPARK_PYTHON") or sys.executable
        return _no_python(python, lines[-1] if lines else None, is_cluster=is_cluster)
    if _FULL in text:
        return _disk_full("a Spark task failed")
    if _CRASH in text:
        return RunError(
            "the Python process of a task died each time that the task was tried",
            hint="was it short of memory? The logs of Spark and of the system say more",
        )
    return RunError(f"a Spark task failed: {first_line(text)}")


def _no_python(python: str, got: str | None, *, is_cluster: bool) -> SetupError:
    # On this machine alone workers have the Python that runs sash, whatever PYSPARK_PYTHON says.
    hint = (
        "set PYSPARK_PYTHON to a path that leads to it on all machines, this one included, for the user that "
        "the workers run as; the log of an executor shows what its Python said"
        if is_cluster
        else "it is the Python that runs sash: let its user run it, or start sash with another one"
    )
    return SetupError(
        f"Spark could not start the Python of its workers, '{python}'",
        expected=f"Python {sys.version_info.major}.{sys.version_info.minor} with pyspark",
        got=got,
        hint=hint,
        id="executor-python",
    )


def ended(text: str) -> RunError:
    """Spark has given up the pipeline on its own."""
    if _FULL in text:
        return _disk_full("Spark ended the pipeline")
    return RunError(
        f"Spark ended the pipeline: {first_line(text)}",
        hint="run again with --debug for Spark's own messages",
    )


def _disk_full(what: str) -> RunError:
    return RunError(
        f"{what}: the disk is full",
        hint="make room where the checkpoint and temporary files are, then start again: "
        "with --checkpoint all that was committed is kept",
        id="disk-full",
    )


def missing_module(module: str, host: str | None = None) -> SetupError:
    name = module.partition(".")[0]
    return SetupError(
        f"an executor{f' on {host}' if host else ''} lacks the Python module '{name}'",
        hint="install what sash depends on for the Python of the executors; PYSPARK_PYTHON chooses it",
        id="executor-module",
    )


def turned_away(master: str) -> SetupError:
    """The cluster did not take the application, or has ended it. Why, only the logs tell."""
    return SetupError(
        f"the cluster '{master}' has turned the run away",
        hint=f"is it a Spark {pyspark.__version__} cluster whose workers work? Its logs say why, and "
        "--debug shows what Spark says here",
        id="turned-away",
    )


def reason(failure: BaseException) -> str:
    """What Java says of it, without the name of the exception; else the first line."""
    java = getattr(failure, "java_exception", None)
    message = None if java is None else java.getMessage()
    return str(message or failure).splitlines()[0]


def full_text(failure: BaseException) -> str:
    """All that is said of a failure. Asks the JVM, which may have gone."""
    try:
        if not isinstance(failure, Py4JJavaError):
            return str(failure)
        said = []
        java = failure.java_exception
        while java is not None:
            said.append(str(java.toString()))
            java = java.getCause()
        return "\n".join(said)
    except (Py4JError, OSError):
        return "Spark has ended"


def first_line(text: str) -> str:
    """The line of a Spark error that says what happened: the last Python exception if there is one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.partition(":")[0].endswith(("Error", "Exception"))]
    return (errors or lines or ["unknown"])[-1 if errors else 0]
