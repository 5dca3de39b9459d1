"""A disk that takes no more: one message, no trace, and the run goes on when there is room."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.end_to_end.kit import PATIENCE, SASH, committed, sash, sorted_within_instants

PROGRAM = """
CREATE STREAM packets (ts TIMESTAMP, src STRING, length BIGINT)
  TIMESTAMP BY ts SLACK 1 SEC FROM 'generator:packets' WITH (rate = 20, rows = 1000, hosts = 12);
CREATE QUERY heavy INTO 'jsonl:{out}.jsonl' AS
  SELECT src, SUM(length) AS bytes FROM packets [RANGE 30 SEC SLIDE 5 SEC] GROUP BY src;
"""


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
