"""A checkpoint is taken up with a program in which a name has come to mean another source."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sash.engine.durability.checkpoint import Checkpoint
from sash.runtime.run import run_program
from sash.testing.runs import StopAfter, bound

STREAM = "CREATE STREAM {name} (t BIGINT, n BIGINT) TIMESTAMP BY t SLACK {slack} SEC FROM 'csv:{file}.csv';\n"
QUERY = "CREATE QUERY {query} INTO 'jsonl:{query}.jsonl' AS Istream(SELECT n FROM {name} [RANGE 5 SEC]);\n"
PARTITIONS = [None, 2]


def program(*reads: tuple[str, str, str], slack: int = 0) -> str:
    """(query, stream, file) each."""
    text = "".join(
        STREAM.format(name=name, file=file, slack=slack) for name, file in {read[1:]: None for read in reads}
    )
    return text + "".join(QUERY.format(query=query, name=name) for query, name, _ in reads)


def run(folder: Path, text: str, partitions: int | None, batches: int | None = None, **options: Any) -> None:
    stop = StopAfter(batches)
    run_program(
        bound(text),
        base_dir=folder,
        runtime="inline",
        checkpoint=options.pop("checkpoint", folder / "state"),
        partitions=partitions,
        batch_rows=4,
        monitor=stop,
        stop=stop.stop,
        **options,
    )


def dies(folder: Path, text: str, partitions: int | None, commits: int) -> None:
    """Run in another process, which is killed instead of its next commit after so many."""
    root = Path(__file__).parents[3]
    ended = subprocess.run(
        [sys.executable, __file__, str(folder), text, str(partitions or 0), str(commits)],
        env={**os.environ, "PYTHONPATH": f"{root / 'src'}:{root}"},
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, first in (("one", 100), ("two", 200), ("three", 300)):
        lines = (f"{i},{first + i}\n" for i in range(20))
        (tmp_path / f"{name}.csv").write_text("t,n\n" + "".join(lines))
    return tmp_path


def numbers(folder: Path, query: str) -> list[int]:
    return [json.loads(line)["n"] for line in (folder / f"{query}.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("partitions", PARTITIONS)
@pytest.mark.parametrize("slack", [0, 3])
def test_what_was_decided_for_another_source_is_not_read(folder, partitions, slack):
    """Before the first commit nothing is known of the program that the feed is of."""
    dies(folder, program(("p", "s", "one"), slack=slack), partitions, 0)
    assert (folder / "state" / "feed" / "count").exists()
    run(folder, program(("q", "s", "two")), partitions)
    assert numbers(folder, "q") == list(range(200, 220))


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_what_was_decided_for_the_same_source_is_read_with_what_is_new(folder, partitions):
    dies(folder, program(("p", "s", "one"), ("r", "u", "two")), partitions, 0)
    run(folder, program(("p", "s", "one"), ("q", "u", "three"), ("o", "v", "two")), partitions)
    assert numbers(folder, "p") == list(range(100, 120))
    assert numbers(folder, "q") == list(range(300, 320))
    assert numbers(folder, "o") == list(range(200, 220))


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_a_feed_of_another_folder_is_not_read(folder, tmp_path_factory, partitions):
    text = program(("q", "s", "one"))
    dies(folder, text, partitions, 0)
    other = tmp_path_factory.mktemp("other")
    (other / "one.csv").write_bytes((folder / "two.csv").read_bytes())
    run(other, text, partitions, checkpoint=folder / "state")
    assert numbers(other, "q") == list(range(200, 220))


@pytest.mark.parametrize("partitions", PARTITIONS)
@pytest.mark.parametrize("commits", [1, 2])
def test_a_stream_of_another_source_begins_anew(folder, partitions, commits):
    """Its queries are gone, others of the program stay; the batch that was under way knew its old source."""
    dies(folder, program(("p", "s", "one"), ("r", "u", "two")), partitions, commits)
    for batches in (1, None):
        run(folder, program(("q", "s", "three"), ("r", "u", "two")), partitions, batches)
    assert numbers(folder, "r") == list(range(200, 220))
    assert numbers(folder, "q") == list(range(300, 320))


if __name__ == "__main__":
    place, text, count, commits = sys.argv[1:]
    real, left = Checkpoint.commit, iter(range(int(commits)))

    def commit(self: Checkpoint, manifest: Any) -> None:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        real(self, manifest)

    Checkpoint.commit = commit  # type: ignore[method-assign]
    run(Path(place), text, int(count) or None)
