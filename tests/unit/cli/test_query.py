"""`sash query`: a question to a checkpoint, through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sash.cli.main import app
from sash.lang import bind_program
from sash.runtime.run import run_program

PROGRAM = (
    "CREATE STREAM s (t BIGINT, k STRING) TIMESTAMP BY t RETAIN 10 SEC FROM 'csv:s.csv';\n"
    "CREATE QUERY q INTO 'noop:' AS SELECT k FROM s [NOW];\n"
)
COUNT = "SELECT k, COUNT(*) AS n FROM s [RANGE 4 SEC] GROUP BY k ORDER BY k"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "s.csv").write_text("t,k\n" + "".join(f"{t},{'ab'[t % 2]}\n" for t in range(30)))
    run_program(
        bind_program(PROGRAM),
        base_dir=tmp_path,
        runtime="inline",
        checkpoint=tmp_path / "state",
        batch_rows=5,
    )
    return tmp_path / "state"


def test_the_answer_goes_to_stdout_and_its_instant_to_stderr(runner, state):
    done = runner.invoke(app, ["query", "--checkpoint", str(state), COUNT])
    assert done.exit_code == 0
    assert [line.split() for line in done.stdout.splitlines()] == [["k", "n"], ["a", "2"], ["b", "2"]]
    assert done.stderr == "at 29 (lws)\n"


def test_the_isolation_is_an_option_of_the_text_and_of_the_command(runner, state):
    for arguments, told in (
        (["--isolation", "ws", COUNT], "ws"),
        ([f"{COUNT} WITH (isolation = 'ws')"], "ws"),
        (["--isolation", "lws", f"{COUNT} WITH (isolation = 'ws')"], "lws"),
    ):
        done = runner.invoke(app, ["query", "--checkpoint", str(state), *arguments])
        assert done.exit_code == 0, done.output
        assert done.stderr == f"at 29 ({told})\n"
    assert runner.invoke(app, ["query", "--checkpoint", str(state), "--isolation", "x", COUNT]).exit_code == 2


def test_a_run_records_a_history_that_can_be_verified(runner, state):
    program = state.parent / "program.cql"
    program.write_text(PROGRAM)
    history = state.parent / "history.jsonl"
    options = ["--runtime", "inline", "--batch-rows", "5", "--quiet", "--record-history", str(history)]
    done = runner.invoke(app, ["run", str(program), *options])
    assert done.exit_code == 0, done.output
    found = runner.invoke(app, ["verify-history", str(history)])
    assert found.exit_code == 0
    assert "6 movements of 1 rings; 0 committed queries" in found.stdout
    refused = runner.invoke(app, ["run", str(program), *options[:-1], str(program)])
    assert refused.exit_code == 2
    assert "holds no history" in refused.stderr
    assert program.read_text() == PROGRAM


def test_answers_for_programs(runner, state):
    lines = runner.invoke(app, ["query", "--checkpoint", str(state), "--format", "jsonl", COUNT]).stdout
    assert [json.loads(line) for line in lines.splitlines()] == [{"k": "a", "n": 2}, {"k": "b", "n": 2}]
    table = runner.invoke(app, ["query", "--checkpoint", str(state), "--format", "csv", COUNT]).stdout
    assert table.replace('"', "").split() == ["k,n", "a,2", "b,2"]


def test_an_answer_without_rows_says_so(runner, state):
    done = runner.invoke(app, ["query", "--checkpoint", str(state), "SELECT k FROM s [NOW] WHERE k = 'z'"])
    assert done.stdout.splitlines()[-1] == "(no rows)"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT k FROM s [RANGE 1 MIN]", "not-kept"),
        ("SELECT k FROM z [NOW]", "unknown-name"),
        ("SELECT k FROM s [NOW] WITH (isolation = 'best')", "bind"),
        ("SELECT k FROM s [NOW] WITH (strategy = 'upa')", "unknown-name"),
        ("DROP QUERY q", "not-a-question"),
        ("SELECT k FROM s [NOW]; SELECT k FROM s [NOW]", "not-a-question"),
    ],
)
def test_what_cannot_be_answered_is_the_users_error(runner, state, text, code):
    done = runner.invoke(app, ["query", "--checkpoint", str(state), text])
    assert done.exit_code == 2
    assert f"error[{code}]" in done.stderr


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    (tmp_path / "s.csv").write_text("t,k\n" + "".join(f"{t},{'ab'[t % 2]}\n" for t in range(30)))
    program = (
        "CREATE STREAM s (t BIGINT, k STRING) TIMESTAMP BY t FROM 'csv:s.csv';\n"
        "CREATE ARCHIVE kept KEY (k) USING REBUILD 2x2 EVERY 5 SEC INTO 'store' AS\n"
        "  SELECT k, t FROM s [RANGE 10 SEC];\n"
    )
    run_program(bind_program(program), base_dir=tmp_path, runtime="inline", batch_rows=5)
    return tmp_path / "store"


def test_an_archive_is_asked_without_a_pipeline(runner, archive):
    count = "SELECT COUNT(*) AS n FROM kept WHERE k = 'a'"
    done = runner.invoke(app, ["query", "--archive", str(archive), "--format", "csv", count])
    assert done.stdout.split() == ['"n"', "5"]
    assert done.stderr == "at 1970-01-01 00:00:25 UTC (ws)\n"


@pytest.mark.parametrize(
    ("options", "text", "code"),
    [
        ([], "SELECT k FROM kept", "not-a-question"),
        (["--archive", "store"], "SELECT k FROM other", "unknown-name"),
        (["--archive", "store", "--archive", "store"], "SELECT k FROM kept", "duplicate-name"),
        (["--archive", "nowhere"], "SELECT k FROM kept", "archive-missing"),
        (["--archive", "store"], "SELECT k FROM kept [RANGE 20 SEC]", "archive-window"),
        (["--archive", "store", "--version", "99"], "SELECT k FROM kept", "archive-version"),
        (["--checkpoint", "state", "--version", "1"], "SELECT k FROM kept", "not-a-question"),
    ],
)
def test_questions_to_archives_that_cannot_be_answered(runner, archive, monkeypatch, options, text, code):
    monkeypatch.chdir(archive.parent)
    done = runner.invoke(app, ["query", *options, text])
    assert done.exit_code == 2
    assert f"error[{code}]" in done.stderr


def test_a_damaged_version_is_told_and_the_one_before_can_be_asked(runner, archive):
    older, newest = sorted((archive / "versions").iterdir())
    newest.write_text(newest.read_text()[:50])
    options = ["query", "--archive", str(archive), "--format", "csv"]
    done = runner.invoke(app, [*options, "SELECT COUNT(*) AS n FROM kept"])
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error[archive-damaged]: the file '{newest}' of the archive is damaged\n")
    assert "read an earlier version (--version N)" in done.stderr
    options += ["--version", str(int(older.name))]
    assert runner.invoke(app, [*options, "SELECT COUNT(*) AS n FROM kept"]).stdout.split() == ['"n"', "10"]
    shown = runner.invoke(app, [*options, "SHOW ARCHIVES"])
    assert shown.exit_code == 0, shown.stderr
    assert shown.stderr == "at 1970-01-01 00:00:20 UTC (ws)\n"


def test_show_archives_in_a_program_tells_what_they_are_like_when_it_ends(runner, archive):
    program = (
        "CREATE STREAM s (t BIGINT, k STRING) TIMESTAMP BY t FROM 'csv:s.csv'; SHOW ARCHIVES;\n"
        "CREATE ARCHIVE kept KEY (k) USING REBUILD 2x2 EVERY 5 SEC INTO 'store' AS\n"
        "  SELECT k, t FROM s [RANGE 10 SEC];\n"
    )
    path = archive.parent / "program.cql"
    path.write_text(program)
    done = runner.invoke(app, ["run", str(path), "--runtime", "inline", "--quiet"])
    assert done.exit_code == 0, done.stderr
    told = [line.split() for line in done.stdout.splitlines()]
    assert told[0] == ["SHOW", "ARCHIVES:", "1"]
    assert {"rows", "bytes", "versions", "balance", "pace"} <= set(told[1])
    assert any(line[:4] == ["kept", "store", "rebuild", "2x2"] for line in told)
