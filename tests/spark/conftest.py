"""One Spark session for all tests of this folder: starting one takes longer than most of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.spark.kit import MASTER

from sash.runtime.spark.session import spark_session


@pytest.fixture(scope="session", autouse=True)
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """`run_program` takes the active session, so a test need not ask for it."""
    with spark_session(MASTER, tmp_path_factory.mktemp("spark") / "spark.log") as session:
        yield session
