"""Outputs that others truncate, replace or write to while a run goes on: the run ends and says so."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.end_to_end.kit import Outcome, Started, committed, rows, sash

PROGRAM = """
CREATE STREAM packets (ts TIMESTAMP, src STRING, length BIGINT)
  TIMESTAMP BY ts FROM 'generator:packets' WITH (rate = 2000, hosts = 3, pace = true{more});
CREATE QUERY q INTO 'jsonl:q.jsonl' AS
  Rstream(SELECT src, COUNT(*) AS n FROM packets [RANGE 1 SEC SLIDE 100 MS] GROUP BY src);
"""
RUN = ("run", "p.cql", "--runtime", "inline", "-q", "--checkpoint", "ck")


def written(folder: Path) -> int:
    path = folder / "q.jsonl"
    return path.stat().st_size if path.exists() else 0


def prepared(folder: Path, more: str = "") -> Path:
    (folder / "p.cql").write_text(PROGRAM.format(more=more))
    return folder / "q.jsonl"


def truncate(path: Path) -> None:
    os.truncate(path, 0)


def replace(path: Path) -> None:
    path.rename(path.with_suffix(".old"))
    path.touch()


def write_too(path: Path) -> None:
    with path.open("a") as file:
        file.write("{}\n")


def refused(done: Outcome, path: Path, *words: str, sink: str = "jsonl:q.jsonl") -> None:
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error[sink]: '{sink}': ")
    assert str(path) in done.err
    for word in ("expected:", "got:", "hint:", *words):
        assert word in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("change", [truncate, replace, write_too])
def test_a_file_that_somebody_changes_ends_the_run_and_a_restart_notices_it_too(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    path = prepared(tmp_path)
    with Started(*RUN, cwd=tmp_path) as run:
        run.until(lambda: written(tmp_path) > 2000)
        change(path)
        refused(run.end(20), path, "changed by somebody else")
    assert b"\0" not in path.read_bytes()
    if change is write_too:
        # What was committed is there: the rest is cut off, and the run could go on.
        return
    refused(sash(*RUN, cwd=tmp_path), path, "not what the checkpoint says")
    # Filled again, by whatever: longer than before, but not what was written.
    path.write_text('{"ts":0}\n' * 100_000)
    refused(sash(*RUN, cwd=tmp_path), path, "not what the checkpoint says")


def remove_a_part(out: Path) -> None:
    (out / "part-000001.parquet").unlink()


def truncate_a_part(out: Path) -> None:
    os.truncate(out / "part-000002.parquet", 10)


@pytest.mark.parametrize("change", [remove_a_part, truncate_a_part, shutil.rmtree])
def test_parts_that_somebody_changes_are_noticed_at_the_end_of_the_run(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    text = PROGRAM.format(more=", rows = 4000").replace("jsonl:q.jsonl", "parquet:out")
    (tmp_path / "p.cql").write_text(text)
    out = tmp_path / "out"
    with Started(*RUN, cwd=tmp_path) as run:
        run.until(lambda: (out / "part-000005.parquet").exists())
        change(out)
        refused(run.end(20), out, "changed by somebody else", sink="parquet:out")
    refused(sash(*RUN, cwd=tmp_path), out, "not what the checkpoint says", sink="parquet:out")


def test_a_run_that_has_finished_notices_that_its_output_was_truncated(tmp_path: Path) -> None:
    path = prepared(tmp_path, ", rows = 3000")
    assert sash(*RUN, cwd=tmp_path).code == 0
    assert sash(*RUN, cwd=tmp_path).code == 0
    truncate(path)
    refused(sash(*RUN, cwd=tmp_path), path, "not what the checkpoint says")


def test_a_second_run_on_the_same_output_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    prepared(tmp_path)
    with Started(*RUN, cwd=tmp_path) as run:
        run.until(lambda: written(tmp_path) > 2000)
        second = sash("run", "p.cql", "--runtime", "inline", "-q", cwd=tmp_path)
        assert (second.code, second.out) == (2, "")
        assert "another run is writing to the file" in second.err
        before = committed(tmp_path / "ck")
        run.until(lambda: committed(tmp_path / "ck") > before + 3)
        run.send(signal.SIGINT)
        assert run.end(20).code == 0
    times = [row["ts"] for row in rows(tmp_path / "q.jsonl")]
    assert times == sorted(times)
