"""A run that was stopped and goes on from its checkpoint gives what a run without a stop gives."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.spark.kit import Watching, run, stopping_after, texts, written

from sash.engine.durability.checkpoint import Checkpoint
from sash.engine.durability.feed_log import FeedLog
from sash.engine.durability.pane_files import PaneFolder
from sash.errors import CheckpointError

PROGRAM = """
CREATE STREAM packets (ts TIMESTAMP, src STRING, port BIGINT, length BIGINT)
  TIMESTAMP BY ts SLACK 1 SEC FROM 'generator:packets'
  WITH (rate = 20, rows = 1600, hosts = 12, disorder = 0.8, late_share = 0.01, bad_share = 0.01);
CREATE QUERY heavy INTO 'jsonl:{out}/heavy.jsonl' AS
  SELECT src, SUM(length) AS bytes FROM packets [RANGE 30 SEC SLIDE 5 SEC]
  GROUP BY src HAVING COUNT(*) > {least};
CREATE QUERY gone INTO 'csv:{out}/gone.csv' AS
  Dstream(SELECT port, COUNT(*) AS n FROM packets [RANGE 10 SEC SLIDE 2 SEC] GROUP BY port);
CREATE QUERY mean INTO 'parquet:{out}/mean' AS
  Rstream(SELECT AVG(length) AS mean FROM packets [RANGE 3 SEC SLIDE 3 SEC]);
"""


def test_stopped_twice_and_gone_on_the_output_is_that_of_an_undisturbed_run(tmp_path: Path) -> None:
    undisturbed = run(
        tmp_path, PROGRAM.format(out="whole", least=3), "inline", dead_letters=tmp_path / "whole-aside"
    )
    program = PROGRAM.format(out="out", least=3)
    checkpoint = tmp_path / "checkpoint"
    batches = 0
    for pause in (2, 3):
        stop = threading.Event()
        watching = stopping_after(pause, stop)
        summary = run(tmp_path, program, batch_rows=200, checkpoint=checkpoint, monitor=watching, stop=stop)
        assert summary.interrupted
        # At most the batch under way and the one behind it are still completed.
        assert pause <= len(watching.reports) <= pause + 2
        batches += len(watching.reports)
        assert summary.batches == batches
        assert written(tmp_path / "out") != written(tmp_path / "whole")
    watching = Watching()
    summary = run(tmp_path, program, batch_rows=200, checkpoint=checkpoint, monitor=watching)
    assert not summary.interrupted
    assert watching.reports[0].number == batches
    assert written(tmp_path / "out") == written(tmp_path / "whole")
    assert texts(checkpoint / "dead-letters") == texts(tmp_path / "whole-aside")
    assert summary.streams == undisturbed.streams
    assert summary.answered == undisturbed.answered

    # Once more: everything is done, and it stays as it is.
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    watching = Watching()
    again = run(tmp_path, program, batch_rows=200, checkpoint=checkpoint, monitor=watching)
    assert watching.reports == []
    assert (again.batches, again.streams, again.answered) == (
        summary.batches,
        summary.streams,
        summary.answered,
    )
    assert {path: path.read_bytes() for path in before} == before

    # The same directory under another program or runtime is refused, and stays usable for its own.
    with pytest.raises(CheckpointError, match="another program"):
        run(tmp_path, PROGRAM.format(out="out", least=4), batch_rows=200, checkpoint=checkpoint)
    with pytest.raises(CheckpointError, match="another runtime"):
        run(tmp_path, program, "inline", checkpoint=checkpoint)
    assert written(tmp_path / "out") == written(tmp_path / "whole")
    assert not run(tmp_path, program, checkpoint=checkpoint).interrupted


class Crash(Exception):
    """Stands for a power cut: nothing after it happens, nothing before it is undone."""


def crash(monkeypatch: pytest.MonkeyPatch, owner: type, step: str, batch: int, *, after: bool) -> None:
    """Crash before or after a step of one batch."""
    original: Callable[..., Any] = getattr(owner, step)

    def crashing(self: object, what: Any, *rest: Any) -> Any:
        is_due = (what if isinstance(what, int) else what.batch) == batch
        if is_due and not after:
            raise Crash
        result = original(self, what, *rest)
        if is_due:
            raise Crash
        return result

    monkeypatch.setattr(owner, step, crashing)


def test_a_crash_at_each_step_of_the_commit_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path, PROGRAM.format(out="whole", least=3), "inline", dead_letters=tmp_path / "whole-aside")
    program = PROGRAM.format(out="out", least=3)
    checkpoint = tmp_path / "checkpoint"
    for owner, step, batch, after in (
        # The next batch is written down, and Spark has not heard of it.
        (FeedLog, "publish", 1, True),
        # The rows are in the sinks, the partials are not saved.
        (PaneFolder, "save", 3, False),
        # The partials are saved, the manifest does not name them.
        (Checkpoint, "commit", 4, False),
        # The manifest is replaced, nobody has been told.
        (Checkpoint, "commit", 6, True),
    ):
        with monkeypatch.context() as patched:
            crash(patched, owner, step, batch, after=after)
            with pytest.raises(Crash):
                run(tmp_path, program, batch_rows=200, checkpoint=checkpoint)
    summary = run(tmp_path, program, batch_rows=200, checkpoint=checkpoint)
    assert not summary.interrupted
    assert summary.batches == 8
    assert written(tmp_path / "out") == written(tmp_path / "whole")
    assert texts(checkpoint / "dead-letters") == texts(tmp_path / "whole-aside")
