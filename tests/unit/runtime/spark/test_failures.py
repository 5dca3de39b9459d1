"""A page of Spark becomes a sentence."""

from __future__ import annotations

import pytest

from sash.runtime.spark.failures import task_failure

PAGE = """Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent failure: Lost task
 0.3 in stage 3.0 (TID 9) (10.0.0.7 executor 1): org.apache.spark.api.python.PythonException: Traceback (most
 recent call last):
  File "/opt/spark/python/lib/pyspark.zip/pyspark/worker.py", line 3250, in main
    func, profiler, deserializer, serializer = read_command(pickleSer, infile)
{exception}

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
Driver stacktrace:"""


def test_a_module_that_an_executor_lacks_is_named() -> None:
    failure = task_failure(PAGE.format(exception="ModuleNotFoundError: No module named 'duckdb.functional'"))
    assert (failure.id, failure.exit_code) == ("executor-module", 2)
    assert failure.message == "an executor lacks the Python module 'duckdb'"


def test_another_version_of_python_is_told_with_both_versions() -> None:
    failure = task_failure(
        PAGE.format(
            exception="pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python "
            "in worker has different version: 3.12 than that in driver: 3.11, PySpark cannot run"
        )
    )
    assert failure.id == "executor-python"
    assert (failure.expected, failure.got) == ("3.11", "3.12")


@pytest.mark.parametrize(
    ("said", "got"),
    [
        ('"/opt/py/bin/python3": error=2, No such file or directory', "No such file or directory"),
        ('"/opt/py/bin/python3": error=13, Permission denied\n\tat java', "Permission denied"),
        ('"/opt/py/bin/python3" (in directory "/w"): error=13, Permission denied', "Permission denied"),
        (
            '"/opt/py/bin/python3": Exec failed, error: 13 (Permission denied) ',
            "Permission denied",
        ),
    ],
)
@pytest.mark.parametrize("is_cluster", [False, True])
def test_a_python_that_cannot_be_run_is_told_with_its_path(said: str, got: str, is_cluster: bool) -> None:
    failure = task_failure(f"java.io.IOException: Cannot run program {said}", is_cluster=is_cluster)
    assert failure.id == "executor-python"
    assert failure.message == "Spark could not start the Python of its workers, '/opt/py/bin/python3'"
    assert failure.got == got
    assert ("PYSPARK_PYTHON" in str(failure.hint)) == is_cluster


def test_a_python_that_cannot_run_workers_is_told_with_what_it_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/py/bin/python3")
    ended = (
        "org.apache.spark.SparkException: EOFException occurred while reading the port number from "
        "sash.runtime.spark.daemon's stdout and terminated with code: 1."
    )
    said = "Error from python worker:\n  one\n  no such luck\nPYTHONPATH was:\n  /opt\n"
    for text, got in ((ended, None), (said + ended, "no such luck")):
        failure = task_failure(text)
        assert failure.id == "executor-python"
        assert failure.message == "Spark could not start the Python of its workers, '/opt/py/bin/python3'"
        assert failure.got == got


def test_a_worker_that_crashes_each_time_is_told_as_such() -> None:
    failure = task_failure(
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider"
    )
    assert (failure.id, failure.exit_code) == ("run", 1)
    assert failure.message.startswith("the Python process of a task died")


def test_any_other_failure_is_the_last_python_exception() -> None:
    failure = task_failure(PAGE.format(exception="ValueError: one\nRuntimeError: two"))
    assert failure.id == "run"
    assert failure.message == "a Spark task failed: RuntimeError: two"
