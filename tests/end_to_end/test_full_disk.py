"""A disk that takes no more: one message, no trace, and the run goes on when there is room."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.end_to_end.kit import PATIENCE, SASH, committed, sash, sorted_within_instants

PROGRAM = """
CREATE STREAM packets (ts TIMESTAMP, src STRING, length BIGINT)
  TIMESTAMP BY ts SLACK 1 SEC RETAIN 1 MIN
  FROM 'generator:packets' WITH (rate = 20, rows = 1000, hosts = 12);
CREATE QUERY heavy INTO 'jsonl:{out}.jsonl' AS
  SELECT src, SUM(length) AS bytes FROM packets [RANGE 30 SEC SLIDE 5 SEC] GROUP BY src;
"""
QUESTION = "SELECT SUM(length) AS bytes FROM packets [RANGE 30 SEC SLIDE 5 SEC]"


def test_files_that_may_not_grow_end_the_run_with_a_message_and_it_goes_on_when_they_may(
    tmp_path: Path,
) -> None:
    for name in ("whole", "limited"):
        (tmp_path / f"{name}.cql").write_text(PROGRAM.format(out=name))
    assert sash("run", "whole.cql", "--runtime", "inline", "-q", cwd=tmp_path).code == 0
    command = (
        "run",
        "limited.cql",
        "--runtime",
        "inline",
        "-q",
        "--checkpoint",
        "state",
        "--batch-rows",
        "100",
    )
    # Files of eight blocks of 1,024 bytes at most: the output is the first to be larger.
    done = subprocess.run(
        ["bash", "-c", 'ulimit -f 8; exec "$@"', "limited", SASH, *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "error[sink]: 'jsonl:limited.jsonl': cannot write",
        "  got: the file is as large as files may be here",
        "  hint: raise the limit for files (ulimit -f), then start again: "
        "with --checkpoint no row is lost or doubled",
    ]
    assert 0 <= committed(tmp_path / "state") < 9
    assert sash(*command, cwd=tmp_path).code == 0
    assert sorted_within_instants(tmp_path / "limited.jsonl") == sorted_within_instants(
        tmp_path / "whole.jsonl"
    )


@pytest.mark.parametrize(
    "command",
    [
        ("run", "p.cql", "--runtime", "inline"),
        ("run", "p.cql", "--runtime", "inline", "-q"),
        ("explain", "p.cql"),
        ("check", "p.cql"),
        ("query", "--checkpoint", "state", QUESTION),
        ("query", "--checkpoint", "state", "--format", "csv", QUESTION),
        ("query", "--checkpoint", "state", "--format", "jsonl", QUESTION),
        ("--version",),
        ("--help",),
    ],
)
def test_standard_output_that_takes_no_more_is_told_in_a_sentence(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "p.cql").write_text(PROGRAM.format(out="out") + QUESTION + ";")
    if command[0] == "query":
        run = ("run", "p.cql", "--runtime", "inline", "-q", "--checkpoint", "state")
        assert sash(*run, cwd=tmp_path).code == 0
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [SASH, *command],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE,
        )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-2:] == [
        "error[disk]: cannot write to standard output: the disk is full",
        "  hint: make room on the disk",
    ]
    assert "Traceback" not in done.stderr
    if command[0] == "run":
        assert (tmp_path / "out.jsonl").stat().st_size


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_run_whose_progress_cannot_be_written_goes_on(tmp_path: Path, unbuffered: str) -> None:
    (tmp_path / "p.cql").write_text(PROGRAM.format(out="out"))
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [SASH, "run", "p.cql", "--runtime", "inline"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE,
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out.jsonl").stat().st_size
