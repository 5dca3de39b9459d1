"""`sash verify-history`: what it prints, and its exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sash.cli.main import app
from sash.transactions.events import Isolation
from sash.transactions.json_lines import write_history_file
from sash.transactions.notation import parse_history

LATEST = "w2[0] c2 rQ1[0] rQ1[1] cQ1"
OLDER = "rQ1[0] rQ1[1] w2[0] c2 cQ1"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.jsonl"


def test_a_history_that_keeps_its_promises_is_summed_up(runner: CliRunner, path: Path):
    write_history_file(path, parse_history(LATEST, 2))
    result = runner.invoke(app, ["verify-history", str(path)])
    assert result.exit_code == 0, result.output
    assert "1 committed queries (1 lws)" in result.output
    assert "every query got the isolation that it was promised" in result.output


def test_a_broken_promise_is_explained_and_exits_with_one(runner: CliRunner, path: Path):
    write_history_file(path, parse_history(OLDER, 2))
    result = runner.invoke(app, ["verify-history", str(path)])
    assert result.exit_code == 1
    assert "not kept: query 'Q1'" in result.output
    assert "movement 2 came before its commit" in result.output


def test_a_file_that_is_no_history_exits_with_two(runner: CliRunner, path: Path):
    path.write_text("hello\n")
    result = runner.invoke(app, ["verify-history", str(path)])
    assert result.exit_code == 2
    assert "error[history]: line 1" in result.output
    assert runner.invoke(app, ["verify-history", str(path) + "x"]).exit_code == 2


def test_events_that_cannot_have_happened_exit_with_two(runner: CliRunner, path: Path):
    write_history_file(path, parse_history(LATEST, 2, isolation=Isolation.WS))
    path.write_text(path.read_text().replace('["m",2', '["m",1'))
    result = runner.invoke(app, ["verify-history", str(path)])
    assert result.exit_code == 2
    assert "cannot have happened" in result.output


def test_help_has_an_example(runner: CliRunner):
    assert "sash verify-history history.jsonl" in runner.invoke(app, ["verify-history", "--help"]).output
