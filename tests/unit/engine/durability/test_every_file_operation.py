"""A process that dies, or a disk that fails, at any file operation of a run: the next run goes on rightly.

operation   1   2   3   …   n                       open, write, fsync, rename, remove, truncate, mkdir
first run   ok  ok  ok      ✗ (dead: nothing after it; an error: it is refused)
second run                    goes on and gives the same bytes
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sash.archive import open_snapshot
from sash.errors import UserError
from sash.runtime.run import run_program
from sash.testing.faults import ERRORS, STOP, Fault, Stopped, watched
from sash.testing.runs import bound

# All that has files: text, Parquet, progress, rows kept and indexed, late rows, panes, cells, an archive.
PROGRAM = """
CREATE STREAM s (t BIGINT, k STRING, n BIGINT) TIMESTAMP BY t SLACK 1 SEC RETAIN 4 SEC FROM 'csv:s.csv';
CREATE INDEX by_n ON s (n) USING T;
CREATE QUERY counted INTO 'jsonl:counted.jsonl' AS
  SELECT k, COUNT(*) AS c FROM (Istream(SELECT k, n FROM s [RANGE 5 SEC])) [RANGE 6 SEC SLIDE 2 SEC]
  GROUP BY k WITH (progress = true);
CREATE QUERY pairs INTO 'csv:pairs.csv' AS
  SELECT a.n, b.n AS m FROM s [RANGE 2 SEC] a, s [RANGE 3 SEC] b WHERE a.k = b.k AND a.n < b.n
  WITH (progress = true);
CREATE QUERY sums INTO 'parquet:sums' AS SELECT k, SUM(n) AS n FROM s [RANGE 4 SEC SLIDE 2 SEC] GROUP BY k
  WITH (progress = true);
CREATE ARCHIVE kept KEY (n) USING REBUILD 2x2 EVERY 2 SEC INTO 'kept' AS SELECT n, k FROM s [RANGE 3 SEC];
"""
ROWS, BATCH = 18, 6
# A run has some hundred operations. Each test takes those that lie so far apart, from another one on.
STRIDE = 29


def run(folder: Path, fault: Fault, partitions: int | None) -> int:
    """Run the program in a folder; gives how many operations there were."""
    with watched(fault, folder) as watch:
        run_program(
            bound(PROGRAM),
            base_dir=folder,
            runtime="inline",
            checkpoint=folder / "state",
            partitions=partitions,
            batch_rows=BATCH,
        )
    return watch.operations


def written(folder: Path) -> dict[str, object]:
    files = [
        *folder.glob("*.jsonl"),
        *folder.glob("pairs.csv"),
        *folder.glob("sums/*"),
        *folder.glob("state/dead-letters/*"),
    ]
    with open_snapshot(folder / "kept") as snapshot:
        rows = sorted(zip(*(column.to_pylist() for column in snapshot.scan().columns), strict=True))
        kept = snapshot.through, rows
    return {
        "kept": kept,
        **{path.name: path.read_bytes().replace(bytes(folder), b"") for path in sorted(files)},
    }


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        fill(Path(name))
        yield Path(name)


def fill(folder: Path) -> None:
    lines = (f"{i // 2 - 5 * (i == 9)},{'ab'[i % 2]},{i % 4}\n" for i in range(ROWS))
    (folder / "s.csv").write_text("t,k,n\n" + "".join(lines))


@pytest.mark.parametrize("partitions", [None, 3])
@pytest.mark.parametrize("what", [STOP, *ERRORS])
def test_whatever_operation_fails_the_next_run_gives_the_same(folder, what, partitions):
    total = run(folder, Fault(), partitions)
    right = written(folder)
    assert len(right) >= 6
    assert total > 100
    failed = 0
    for at in range(1 + list((STOP, *ERRORS)).index(what), total, STRIDE):
        shutil.rmtree(folder)
        folder.mkdir()
        fill(folder)
        try:
            run(folder, Fault(what, at), partitions)
        except Stopped:
            failed += 1
        except UserError:
            # Told as what it is. Nothing else may come out of it.
            failed += 1
        run(folder, Fault(), partitions)
        assert written(folder) == right, (what, at)
    # What is only put out of the way may be left there.
    assert failed > total / STRIDE / 2
