"""Live streams that fall silent: with a heartbeat, queries over the others go on, also after a restart."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from sash.engine.observe.report import BatchReport, Silent
from sash.errors import SourceError
from sash.lang import bind_program
from sash.runtime.run import run_program

STREAMS = """
CREATE STREAM a (t BIGINT, n BIGINT) TIMESTAMP BY t FROM 'csv:a' WITH (watch = true{a});
CREATE STREAM b (t BIGINT, n BIGINT) TIMESTAMP BY t FROM 'csv:b' WITH (watch = true{b});
"""
QUERY = (
    "CREATE QUERY q INTO 'jsonl:q.jsonl' AS SELECT n FROM a [RANGE 5 SEC] UNION ALL SELECT n FROM b [NOW];\n"
)


class Until(Silent):
    """Stops the run when the clock has come to an instant, or after a while."""

    def __init__(self, clock: int) -> None:
        self.stop = threading.Event()
        self.clock = clock
        self.seen: int | None = None
        timer = threading.Timer(20, self.stop.set)
        timer.daemon = True
        timer.start()

    def batch(self, report: BatchReport) -> None:
        self.seen = report.clock
        if report.clock is not None and report.clock >= self.clock:
            self.stop.set()


def run(folder: Path, until: int, **options: str) -> Until:
    watch = Until(until)
    text = STREAMS.format(a=options.get("a", ""), b=options.get("b", ""))
    run_program(
        bind_program(text + QUERY),
        base_dir=folder,
        runtime="inline",
        checkpoint=folder / "state",
        partitions=2,
        monitor=watch,
        stop=watch.stop,
    )
    return watch


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in "ab":
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "1.csv").write_text("t,n\n" + "".join(f"{t},{t}\n" for t in range(1, 11)))
    return tmp_path


def test_queries_go_on_without_a_silent_stream_and_late_rows_of_it_are_told(folder):
    watch = run(folder, 8_999_999, b=", heartbeat = 0.2")
    assert watch.seen is not None
    assert watch.seen >= 8_999_999, "a alone would be complete up to here"
    logged = [json.loads(line) for line in (folder / "q.jsonl").read_text().splitlines()]
    assert {row["n"] for row in logged} >= set(range(1, 9))
    # What comes now is older than b is taken to be. The run goes on from the checkpoint.
    (folder / "b" / "1.csv").write_text("t,n\n3,300\n")
    (folder / "a" / "2.csv").write_text("t,n\n" + "".join(f"{t},{t}\n" for t in range(11, 21)))
    run(folder, 18_999_999, b=", heartbeat = 0.2")
    assert "300" not in (folder / "q.jsonl").read_text()
    (late,) = (folder / "state" / "dead-letters" / "b.late.jsonl").read_text().splitlines()
    assert json.loads(late)["row"] == 1


def test_windows_empty_where_everybody_is_silent(folder):
    watch = run(folder, 15_500_000, a=", heartbeat = 0.3", b=", heartbeat = 0.3")
    assert watch.seen is not None
    assert watch.seen >= 15_000_000
    balance: dict[int, int] = {}
    for line in (folder / "q.jsonl").read_text().splitlines():
        row = json.loads(line)
        balance[row["n"]] = balance.get(row["n"], 0) + (1 if row["op"] == "+" else -1)
    assert set(balance.values()) == {0}


def test_a_heartbeat_that_is_no_number_is_refused(folder):
    with pytest.raises(SourceError, match="option 'heartbeat' has a wrong value"):
        run(folder, 1, b=", heartbeat = 'often'")
