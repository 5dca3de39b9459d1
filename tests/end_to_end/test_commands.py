"""The commands that run nothing, and the ways to name a program."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.end_to_end.kit import PATIENCE, rows, sash

PROGRAM = """
CREATE STREAM s (t BIGINT, src STRING, x BIGINT) TIMESTAMP BY t FROM 'csv:s.csv';
CREATE QUERY q INTO 'jsonl:q.jsonl' AS
  SELECT src, SUM(x) AS total FROM s [RANGE 20 SEC SLIDE 10 SEC] GROUP BY src;
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "p.cql").write_text(PROGRAM)
    (tmp_path / "s.csv").write_text("t,src,x\n1,a,1\n12,b,2\n")
    return tmp_path


def test_version_names_sash_python_and_pyspark(tmp_path: Path) -> None:
    done = sash("--version", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert re.fullmatch(r"sash \d+\.\d+\.\d+ \(Python 3\.\d+\.\d+, pyspark 4\.\d+\.\d+\)\n", done.out)


def test_check_lists_streams_and_queries_and_runs_nothing(folder: Path) -> None:
    done = sash("check", "p.cql", cwd=folder)
    assert (done.code, done.err) == (0, "")
    assert "stream s from csv:s.csv" in done.out
    assert "query q into jsonl:q.jsonl" in done.out
    assert done.out.splitlines()[-1] == "ok: 1 stream, 1 query"
    assert sorted(path.name for path in folder.iterdir()) == ["p.cql", "s.csv"]


def test_explain_shows_how_each_query_is_computed(folder: Path) -> None:
    done = sash("explain", "p.cql", cwd=folder)
    assert (done.code, done.err) == (0, "")
    assert "q → jsonl:q.jsonl" in done.out
    assert "[RANGE 20 s SLIDE 10 s]" in done.out
    assert sorted(path.name for path in folder.iterdir()) == ["p.cql", "s.csv"]


def test_experiment_list_names_each_experiment_with_a_line_about_it(tmp_path: Path) -> None:
    done = sash("experiment", "list", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert re.search(r"^scan-limit +\S", done.out, re.MULTILINE)


def test_a_file_that_does_not_exist_is_the_users_error(tmp_path: Path) -> None:
    for command in ("run", "check", "explain"):
        done = sash(command, "none.cql", cwd=tmp_path)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("error[file]: there is no file 'none.cql'\n")


def test_a_dash_reads_the_program_from_standard_input_with_paths_from_here(folder: Path) -> None:
    done = sash("run", "-", "--runtime", "inline", cwd=folder, stdin=PROGRAM)
    assert (done.code, done.err) == (0, "")
    assert rows(folder / "q.jsonl") == [{"ts": 10, "op": "+", "src": "a", "total": 1}]


def test_results_on_the_console_stand_alone_on_standard_output(folder: Path) -> None:
    done = sash(
        "run", "-", "--runtime", "inline", cwd=folder, stdin=PROGRAM.replace("jsonl:q.jsonl", "console:")
    )
    assert done.code == 0
    assert "finished" not in done.out
    assert "finished" in done.err
    assert [line.split() for line in done.out.splitlines() if " a " in line] == [["10", "+", "a", "1"]]


# As if the Python that runs sash was not to be run by whoever starts workers.
PYTHON_OF_WORKERS = """
import sys
sys.executable = sys.argv.pop(1)
from sash.cli.main import main
main()
"""


def test_workers_whose_python_does_not_start_are_told_in_a_sentence_and_outputs_stay(folder: Path) -> None:
    python = folder / "python"
    python.write_text("#!/bin/sh\necho no such luck >&2\nexit 1\n")
    (folder / "q.jsonl").write_text("of the last run")
    found = {}
    for mode, options in ((0o755, ()), (0o644, ("--debug",))):
        python.chmod(mode)
        command = [sys.executable, "-c", PYTHON_OF_WORKERS, str(python), "run", "p.cql", "-q", *options]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
        assert (done.returncode, done.stdout) == (2, "")
        found[mode] = done.stderr
    told = f"error[executor-python]: Spark could not start the Python of its workers, '{python}'\n"
    assert found[0o755].startswith(told)
    assert "  got: no such luck\n" in found[0o755]
    assert "Traceback" not in found[0o755]
    assert told in found[0o644]
    assert "  got: Permission denied\n" in found[0o644]
    assert f'Cannot run program "{python}"' in found[0o644]
    assert "exception str() failed" not in found[0o644]
    assert (folder / "q.jsonl").read_text() == "of the last run"
