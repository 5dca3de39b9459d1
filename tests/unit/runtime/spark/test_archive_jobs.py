"""Who does an update of an archive, and whether executors can."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.archive.archive_kit import SPEC, random_rows, table

from sash.archive import ArchiveWriter, Update
from sash.errors import ArchiveError
from sash.runtime.spark import archive_jobs
from sash.runtime.spark.archive_jobs import ArchiveJobs
from sash.runtime.spark.executors import Seen

CLUSTER = "spark://here:7077"


class Executors:
    """Answer for those of a cluster, and count how often they are asked and given work."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, sees_token: bool = True, may_write: bool = True):
        self.asked: list[Path] = []
        self.jobs = 0
        self._answer = Seen("there", None, sees_token, may_write)
        monkeypatch.setattr(archive_jobs, "asked", self._ask)
        monkeypatch.setattr(ArchiveJobs, "_job", self._job)

    def _ask(self, spark: object, master: str, shared: Path) -> list[Seen]:
        assert master == CLUSTER
        assert shared.is_dir()
        self.asked.append(shared)
        return [self._answer]

    def _job(self, tasks: Any) -> Any:
        self.jobs += 1
        return [archive_jobs._rewritten(task) for task in tasks]


def updated(folder: Path, *, here: int | None = None, master: str = CLUSTER) -> None:
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(master=master))
    folder.mkdir(exist_ok=True)
    jobs = ArchiveJobs(spark, folder, here)
    with ArchiveWriter(folder / "kept", SPEC, "rebuild", (2, 2), durable=False) as writer:
        for batch in range(3):
            rows = random_rows(random.Random(batch), 10 * batch, 10 * (batch + 1), 40)
            writer.update(Update(batch, 10 * (batch + 1), table(rows)), jobs)


@pytest.mark.parametrize(
    ("answer", "said"), [({"sees_token": False}, "does not see"), ({"may_write": False}, "may not write")]
)
def test_a_directory_that_executors_do_not_share_is_found_out_by_the_first_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: dict[str, bool], said: str
) -> None:
    Executors(monkeypatch, **answer)
    with pytest.raises(ArchiveError) as refused:
        updated(tmp_path)
    assert refused.value.id == "archive-shared"
    assert said in str(refused.value.got)
    assert "--max-driver-update none" in str(refused.value.hint)


def test_executors_are_asked_once_and_not_where_the_driver_does_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executors = Executors(monkeypatch)
    updated(tmp_path / "small")
    assert executors.asked == [tmp_path / "small" / "kept" / "data"]
    executors.asked.clear()
    updated(tmp_path / "alone", here=0)
    updated(tmp_path / "local", master="local[2]")
    assert (executors.asked, executors.jobs) == ([], 0)


def test_what_reads_and_writes_more_than_the_driver_may_is_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executors = Executors(monkeypatch)
    updated(tmp_path, here=1)
    assert executors.jobs == 3
    assert not list(tmp_path.glob("archived-*"))
