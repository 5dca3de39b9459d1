"""The engine: what it refuses before it starts, and what it tells while it runs."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import pytest

from sash.connectors.sources import Chunk
from sash.engine.batch_result import BatchResult
from sash.engine.engine import Engine
from sash.engine.ingest.feed import Entry
from sash.engine.ingest.first_stage import run_chunk
from sash.engine.options import Options
from sash.engine.run_chunks import Bars
from sash.engine.stopping import Abandoned
from sash.errors import SinkError, UserError
from sash.lang import bind_program
from sash.runtime.run import run_program
from sash.testing.scenario import Scenario, StopAfter
from sash.testing.streams import Clock, MadeRow, MadeStream

COUNT = "SELECT COUNT(*) AS c FROM s [RANGE 2 SEC SLIDE 2 SEC]"


def query(name: str, sink: str) -> str:
    return f"CREATE QUERY {name} INTO '{sink}' AS {COUNT};\n"


def stream(rows: int = 10, name: str = "s") -> MadeStream:
    return MadeStream(name, Clock.SECONDS, 0, "csv", tuple(MadeRow(i, n=i) for i in range(rows)))


def test_a_program_without_queries_is_refused(tmp_path):
    with pytest.raises(UserError, match="no query") as caught:
        run_program(bind_program(stream().declaration), base_dir=tmp_path, runtime="inline")
    assert caught.value.id == "no-query"


def test_two_queries_cannot_write_to_the_same_place(tmp_path):
    scenario = Scenario((stream(),), (query("a", "jsonl:out/x"), query("b", "csv:out/../out/x")))
    with pytest.raises(SinkError, match="queries a and b write to the same place"):
        scenario.run(tmp_path / "run")


def test_any_number_of_queries_may_write_nowhere(tmp_path):
    scenario = Scenario((stream(),), (query("a", "noop:"), query("b", "noop:")))
    assert scenario.run(tmp_path / "run").summary.answered == {"a": 3, "b": 3}


def test_a_stream_that_no_query_reads_is_not_opened(tmp_path):
    text = stream(name="missing").declaration + stream().declaration + query("a", "jsonl:a.jsonl")
    stream().write(tmp_path)
    summary = run_program(bind_program(text), base_dir=tmp_path, runtime="inline")
    assert set(summary.streams) == {"s"}


def test_reports_add_up_to_the_summary(tmp_path):
    scenario = Scenario((stream(25),), (query("a", "jsonl:a.jsonl"),))
    stream(25).write(tmp_path)
    monitor = StopAfter()
    run_program(
        bind_program(scenario.text), base_dir=tmp_path, runtime="inline", batch_rows=4, monitor=monitor
    )
    assert monitor.summary is not None
    assert [report.number for report in monitor.reports] == list(range(monitor.summary.batches))
    assert sum(report.rows for report in monitor.reports) == 25
    answers = sum(report.answers["a"].num_rows for report in monitor.reports if "a" in report.answers)
    assert answers == monitor.summary.answered["a"] == monitor.reports[-1].answered["a"]
    clocks = [report.clock for report in monitor.reports if report.clock is not None]
    assert clocks == sorted(clocks)
    assert clocks[-1] == monitor.summary.clock == 24_000_000
    assert monitor.reports[-1].progress == 1.0
    assert not monitor.summary.interrupted


def test_a_run_that_is_stopped_says_so_and_has_committed_whole_batches(tmp_path):
    scenario = Scenario((stream(25),), (query("a", "jsonl:a.jsonl"),))
    stream(25).write(tmp_path)
    monitor = StopAfter(2)
    summary = run_program(
        bind_program(scenario.text),
        base_dir=tmp_path,
        runtime="inline",
        batch_rows=4,
        monitor=monitor,
        stop=monitor.stop,
    )
    assert summary.interrupted
    assert summary.batches == 2
    assert summary.streams["s"].read == 8
    assert len((tmp_path / "a.jsonl").read_text().splitlines()) == summary.answered["a"]


def test_a_run_is_not_over_when_its_last_batch_was_abandoned_while_it_was_answered(tmp_path):
    """On Spark a batch is answered in a thread of its own, after its tasks; a restart does it again."""
    stream().write(tmp_path)
    program = bind_program(stream().declaration + query("a", "jsonl:a.jsonl"))

    def look() -> None:
        raise Abandoned

    def batch(entry: Entry, chunks: Sequence[Chunk], bars: Bars) -> BatchResult:
        return BatchResult([run_chunk(engine.plan, c, bars[c.stream, c.sequence]) for c in chunks])

    engine = Engine(program, Options(base_dir=tmp_path), "inline", 1, overlap=True, look=look)
    with contextlib.closing(engine):
        engine.load()
        engine.open_outputs()
        entry = engine.next_entry()
        assert entry is not None
        assert entry.is_last
        engine.take(entry, batch)
        with pytest.raises(Abandoned), engine.abandoning():
            engine.settle_archives()
        assert not engine.is_finished
        summary = engine.finish(interrupted=not engine.is_finished)
    assert summary.interrupted
    assert summary.abandoned
    assert summary.batches == 0
