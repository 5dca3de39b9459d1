"""EXPLAIN of sharing and refresh: `refresh/NAME.cql` gives `NAME.planned.txt`, after a run `NAME.run.txt`.

Plans are left out: `explain` has those.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sash.cli import calls
from sash.engine.engine import Engine
from sash.engine.observe.explaining import explained
from sash.lang import bind_program
from sash.runtime.run import run_program
from sash.testing.runs import StopAfter

HERE = Path(__file__).parent / "refresh"
PROGRAMS = sorted(HERE.glob("*.cql"))


def notes(text: str) -> str:
    """The names of queries and what is said of runs."""
    beginnings = ("reads ", "refreshed ", "groups ", "in the run", "on Spark")
    lines = [line for line in text.splitlines() if line.startswith(beginnings) or line.endswith("noop:")]
    return "\n".join(lines) + "\n"


def compare(text: str, path: Path, *, regenerate: bool) -> None:
    if regenerate:
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_explain_tells_groups_rules_and_refresh(path, regenerate):
    text = notes(explained(bind_program(path.read_text(encoding="utf-8"))))
    compare(text, path.with_suffix(".planned.txt"), regenerate=regenerate)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_explain_of_a_run_tells_periods_granted_and_lateness(path, regenerate, tmp_path, monkeypatch):
    # There is time for one execution after a batch; a batch brings 20 s.
    monkeypatch.setattr(Engine, "_seconds_left", lambda self, watch: 0.0)
    rows = "".join(f"{t},h{t % 3},{'TCP' if t % 2 else 'UDP'},{t % 7}\n" for t in range(200))
    (tmp_path / "packets.csv").write_text(f"ts,src,proto,length\n{rows}", encoding="utf-8")
    program = bind_program(path.read_text(encoding="utf-8"))
    monitor = StopAfter(7)
    run_program(
        program,
        base_dir=tmp_path,
        runtime="inline",
        checkpoint=tmp_path / "state",
        batch_rows=20,
        refresh="elastic",
        policy="edf",
        monitor=monitor,
        stop=monitor.stop,
    )
    text = notes(calls.explain(program, None, None, checkpoint=tmp_path / "state"))
    compare(text, path.with_suffix(".run.txt"), regenerate=regenerate)
