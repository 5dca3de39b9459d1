"""What the README shows is what happens."""

from __future__ import annotations

import re
from pathlib import Path

from sash.lang import bind_program
from sash.runtime.run import run_program

README = (Path(__file__).parents[2] / "README.md").read_text()


def blocks(language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    return [text for name, text in found if name == language]


def test_every_program_of_the_readme_binds():
    for text in blocks("sql"):
        assert bind_program(text).queries


def test_the_first_query_of_your_own_gives_the_answer_shown(tmp_path):
    data = next(block for block in blocks("") if block.startswith("t,symbol"))
    shell = next(block for block in blocks("") if "cat volume.jsonl" in block)
    program = next(block for block in blocks("sql") if "trades" in block)
    (tmp_path / "trades.csv").write_text(data)
    run_program(bind_program(program), base_dir=tmp_path, runtime="inline")
    shown = [line for line in shell.splitlines() if line.startswith("{")]
    assert (tmp_path / "volume.jsonl").read_text().splitlines() == shown


def test_the_python_session_runs_as_it_stands(tmp_path, monkeypatch, capsys):
    data = next(block for block in blocks("") if block.startswith("t,symbol"))
    (tmp_path / "trades.csv").write_text(data)
    monkeypatch.chdir(tmp_path)
    (code,) = blocks("python")
    exec(compile(code, "README.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["5 2", "10 2", "  symbol  shares"]
    assert [line.split()[1:] for line in lines[3:]] == [["BAC", "500"], ["IBM", "150"]]
