"""Ctrl-C in the middle of a batch that takes far too long: answered soon, outputs end at the last commit."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
from tests.end_to_end.kit import Outcome, Started, committed, rows, wait_until

import sash as package

ROWS = 20_000
# Keys of the first batch join with nothing, those of the second one with all of it: 400 million pairs.
PROGRAM = """
CREATE STREAM s (ts BIGINT, k BIGINT, a BIGINT) TIMESTAMP BY ts FROM 'csv:s.csv' WITH (unit = 'ms');
CREATE QUERY plain INTO 'jsonl:plain.jsonl' AS Istream(SELECT a FROM s [UNBOUNDED]);
CREATE QUERY parts INTO 'parquet:parts' AS Istream(SELECT a FROM s [UNBOUNDED]);
CREATE QUERY pairs INTO 'jsonl:pairs.jsonl' AS
  Istream(SELECT x.a AS xa, y.a AS ya FROM s [RANGE 1 HOUR] x, s [RANGE 1 HOUR] y WHERE x.k = y.k);
"""


def prepared(folder: Path) -> None:
    first = "".join(f"{i},{i},{i}\n" for i in range(ROWS))
    second = "".join(f"{ROWS + i},-1,{i}\n" for i in range(ROWS))
    (folder / "s.csv").write_text("ts,k,a\n" + first + second)
    (folder / "p.cql").write_text(PROGRAM)


def written(folder: Path) -> int:
    path = folder / "pairs.jsonl"
    return path.stat().st_size if path.exists() else 0


def interrupted(folder: Path, *options: str, signals: int = 1, patience: float = 4) -> Outcome:
    """Run, and interrupt in the middle of the second batch."""
    with Started("run", "p.cql", "--batch-rows", str(ROWS), *options, cwd=folder) as run:
        log = folder / f"out-{run.mark}"
        run.until(lambda: "batch 0, " in log.read_text())
        time.sleep(1.5)
        begun = time.monotonic()
        for _ in range(signals):
            run.send(signal.SIGINT)
            run.until(lambda: "stopping after" in log.read_text())
        done = run.end(30)
        # Two seconds, and some more for a machine with other things to do.
        assert time.monotonic() - begun < patience
        wait_until(lambda: run.survivors() == [], 20)
    assert (done.code, done.err) == (130, "")
    return done


def assert_as_committed(folder: Path) -> None:
    """Outputs hold what the first batch gave: its last instant may be one that is not complete."""
    for name in ("plain", "pairs"):
        found = rows(folder / f"{name}.jsonl")
        assert [row["ts"] for row in found] == list(range(ROWS - 1)), name
    assert [path.name for path in (folder / "parts").iterdir()] == ["part-000000.parquet"]


@pytest.mark.parametrize("partitions", [(), ("--partitions", "3")])
@pytest.mark.parametrize("checkpoint", [(), ("--checkpoint", "ck")])
def test_inline(tmp_path: Path, partitions: tuple[str, ...], checkpoint: tuple[str, ...]) -> None:
    prepared(tmp_path)
    done = interrupted(tmp_path, "--runtime", "inline", *partitions, *checkpoint)
    assert_as_committed(tmp_path)
    # Unless the command had to leave without it, the run says how far it has come.
    if "interrupted after" in done.out:
        assert "interrupted after 1 batch, 20,000 rows" in done.out
        assert "without the batch under way" in done.out
        assert "query plain: 19,999 result rows" in done.out
    if checkpoint:
        manifest = json.loads((tmp_path / "ck" / "manifest.json").read_text())
        assert committed(tmp_path / "ck") == 0
        assert manifest["sinks"]["plain"]["size"] == (tmp_path / "plain.jsonl").stat().st_size


def test_inline_a_second_ctrl_c_leaves_at_once_and_outputs_end_at_the_last_commit(tmp_path: Path) -> None:
    prepared(tmp_path)
    interrupted(tmp_path, "--runtime", "inline", signals=2)
    assert_as_committed(tmp_path)


def test_spark(tmp_path: Path) -> None:
    prepared(tmp_path)
    interrupted(tmp_path, "--master", "local[2]", "--checkpoint", "ck", patience=8)
    assert_as_committed(tmp_path)


def test_a_session_that_is_stopped(tmp_path: Path) -> None:
    prepared(tmp_path)
    with package.connect(tmp_path, runtime="inline", batch_rows=ROWS) as session:
        session.sql(PROGRAM)
        session.start()
        wait_until(lambda: written(tmp_path) > 0 and len(list((tmp_path / "parts").glob("part*"))) == 1, 60)
        time.sleep(1.5)
        begun = time.monotonic()
        session.stop()
        assert time.monotonic() - begun < 5
        assert session.state == "stopped"
        assert session.summary is not None
        assert session.summary.batches == 1
        assert session.summary.abandoned
        assert session.summary.answered["plain"] == ROWS - 1
    assert_as_committed(tmp_path)
