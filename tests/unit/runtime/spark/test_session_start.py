"""Spark's JVM is started once more where the first attempt ended before it said where it listens."""

from __future__ import annotations

import pytest
from pyspark import SparkConf
from pyspark.errors import PySparkRuntimeError

from sash.runtime.spark import session


@pytest.mark.parametrize("failures", [0, 1, 2])
def test_a_jvm_that_did_not_start_is_started_once_more(monkeypatch, tmp_path, failures):
    attempts = []

    def launch(conf: SparkConf, process: dict[str, object]) -> str:
        attempts.append(process)
        if len(attempts) <= failures:
            raise PySparkRuntimeError("ended")
        return "gateway"

    monkeypatch.setattr(session, "launch_gateway", launch)
    if failures == 2:
        with pytest.raises(PySparkRuntimeError):
            session._gateway(SparkConf(loadDefaults=False), tmp_path / "spark.log")
    else:
        assert session._gateway(SparkConf(loadDefaults=False), tmp_path / "spark.log") == "gateway"
    assert len(attempts) == min(failures, 1) + 1
