"""The command line is tested without binder and runtime: `fakes` takes their place."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.cli.fakes import Fakes
from typer.testing import CliRunner

from sash.cli import calls


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> Fakes:
    fakes = Fakes()

    def bind(text: str) -> Any:
        fakes.texts.append(text)
        if fakes.bind_error is not None:
            raise fakes.bind_error
        return fakes.program

    def run(program: Any, base_dir: Any, options: Any, monitor: Any, stop: Any) -> Any:
        given = {
            "program": program,
            "base_dir": base_dir,
            "options": options,
            "monitor": monitor,
            "stop": stop,
        }
        fakes.runs.append(given)
        return fakes.work(**given)

    monkeypatch.setattr(calls, "bind", bind)
    monkeypatch.setattr(calls, "check", lambda *_: None)
    monkeypatch.setattr(calls, "run", run)
    return fakes


@pytest.fixture
def runner() -> CliRunner:
    return CliRunner()
