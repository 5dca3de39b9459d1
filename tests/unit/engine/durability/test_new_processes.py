"""A checkpoint is taken up by another process, which has another hash seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sash.errors import CheckpointError
from sash.operators import build as building
from sash.operators.dataflow import nothing
from sash.operators.time_window import TimeWindow
from sash.runtime.run import run_program
from sash.testing.runs import StopAfter, bound, run

ROWS = 240
# Streams that sub-queries give have names of their own, which are in the logs of cells.
PROGRAM = """
CREATE STREAM s (t BIGINT, k STRING, n BIGINT) TIMESTAMP BY t FROM 'csv:s.csv';
CREATE QUERY q INTO 'jsonl:q.jsonl' AS
  SELECT k, COUNT(*) AS n FROM (Istream(SELECT k, n FROM s [RANGE 5 SEC])) [RANGE 10 SEC SLIDE 1 SEC]
  GROUP BY k;
CREATE QUERY r INTO 'jsonl:r.jsonl' AS
  SELECT a.k, a.n FROM (Dstream(SELECT k, n FROM s [RANGE 3 SEC])) [ROWS 4] a, s [RANGE 2 SEC] b
  WHERE a.k = b.k;
"""
DIVIDED = [None, 1, 2, 3]


def step(directory: Path, batches: int | None, partitions: int | None) -> None:
    """Run the program in a directory for some batches."""
    monitor = StopAfter(batches)
    run_program(
        bound(PROGRAM),
        base_dir=directory,
        runtime="inline",
        checkpoint=directory / "state",
        partitions=partitions,
        batch_rows=20,
        monitor=monitor,
        stop=monitor.stop,
    )


def in_a_new_process(directory: Path, batches: int, partitions: int | None, hash_seed: int) -> None:
    root = Path(__file__).parents[4]
    subprocess.run(
        [sys.executable, __file__, str(directory), str(batches), str(partitions or 0)],
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": f"{root / 'src'}:{root}"},
        check=True,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = (f"{i // 6},{'abc'[i * 7 % 3]},{i % 5}\n" for i in range(ROWS))
    (tmp_path / "s.csv").write_text("t,k,n\n" + "".join(lines))
    return tmp_path


def outputs(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.glob("*.jsonl"))}


def files(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize("partitions", DIVIDED)
def test_a_process_with_another_hash_seed_goes_on(folder, tmp_path_factory, partitions):
    whole = tmp_path_factory.mktemp("whole")
    (whole / "s.csv").write_bytes((folder / "s.csv").read_bytes())
    run(bound(PROGRAM), whole, batch_rows=20, partitions=partitions)
    in_a_new_process(folder, 4, partitions, 1)
    in_a_new_process(folder, 3, partitions, 2)
    step(folder, None, partitions)
    assert outputs(folder) == outputs(whole)


@pytest.mark.parametrize(("before", "after"), [(2, None), (None, 2), (3, 2)])
def test_operators_stay_divided_as_they_were(folder, tmp_path_factory, before, after):
    whole = tmp_path_factory.mktemp("whole")
    (whole / "s.csv").write_bytes((folder / "s.csv").read_bytes())
    run(bound(PROGRAM), whole, batch_rows=20, partitions=before)
    step(folder, 4, before)
    step(folder, None, after)
    assert outputs(folder) == outputs(whole)


@pytest.mark.parametrize("partitions", [None, 2])
@pytest.mark.parametrize("change", ["an operator", "a setting", "the numbers of all operators"])
def test_another_plan_over_the_same_state_is_refused_before_anything_is_written(
    folder, monkeypatch, partitions, change
):
    step(folder, 4, partitions)
    (folder / "state" / "cells" / "9.9.9.00000000.log").write_bytes(b"of a batch that was never committed")
    before = files(folder)

    class Window(TimeWindow):
        """Another operator, with the same settings."""

    class Longer(TimeWindow):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self._step += 1

    class Builder(building._Builder):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self.flow.vertices.append(nothing(()))

    match change:
        case "an operator":
            monkeypatch.setattr(building, "TimeWindow", Window)
        case "a setting":
            Longer.__name__ = TimeWindow.__name__
            monkeypatch.setattr(building, "TimeWindow", Longer)
        case _:
            monkeypatch.setattr(building, "_Builder", Builder)
    with pytest.raises(CheckpointError, match="the state of another plan") as caught:
        step(folder, 1, partitions)
    assert caught.value.id == "checkpoint-plan"
    assert "another checkpoint directory" in str(caught.value.hint)
    assert files(folder) == before


if __name__ == "__main__":
    directory, batches, partitions = sys.argv[1:]
    step(Path(directory), int(batches), int(partitions) or None)
