from __future__ import annotations

import io
from dataclasses import replace

from sash.cli.hints import Hints
from sash.cli.plain import PlainView
from sash.engine.observe.report import BatchReport, Held, StreamCounts, Summary

T0 = 1_790_000_000_000_000


def report(number: int, progress: float | None = 0.5) -> BatchReport:
    return BatchReport(number, 1000, 0.2, T0, progress, {"s": StreamCounts(1000 * number, 12, 3)})


class Log:
    def __init__(self) -> None:
        self.time = 0.0
        self.out = io.StringIO()
        self.view = PlainView(self.out, Hints(), now=lambda: self.time)
        self.view.started({"heavy": "jsonl:heavy.jsonl"}, {"s": "csv:s.csv"})

    @property
    def lines(self) -> list[str]:
        return self.out.getvalue().splitlines()


def test_at_most_one_line_a_second():
    log = Log()
    for number in range(1, 25):
        log.time += 0.125
        log.view.batch(report(number))
    assert log.lines[0] == "started: 1 stream, 1 query"
    assert [line.split(",")[0] for line in log.lines[1:]] == ["batch 1", "batch 9", "batch 17"]


def test_a_line_has_rows_speed_clock_and_counts():
    log = Log()
    log.time = 0.5
    log.view.batch(report(1))
    assert log.lines[-1] == (
        "batch 1, 1,000 rows, 5,000 rows/s, 0.20 s, clock 2026-09-21 14:13:20 UTC, late 12, rejected 3, 50 %"
    )


def test_a_line_has_lag_and_state_where_they_are_known():
    log = Log()
    log.time = 0.5
    known = replace(report(1), newest={"s": T0 + 2_500_000, "r": None}, state={-1: Held(9, 1_234_567)})
    log.view.batch(known)
    assert ", clock 2026-09-21 14:13:20 UTC, lag 2.50 s, state 1.23 MB, late 12," in log.lines[-1]


def test_a_warning_is_a_line():
    log = Log()
    log.view.warning("nearly full")
    assert log.lines[-1] == "warning: nearly full"


def test_unbounded_input_has_no_share():
    log = Log()
    log.time = 1.0
    log.view.batch(report(1, progress=None))
    assert not log.lines[-1].endswith("%")


def test_the_summary_is_lines():
    log = Log()
    log.time = 1.0
    log.view.batch(report(1))
    log.view.finished(Summary(1, 2.0, T0, {"s": StreamCounts(985, 12, 3)}, {"heavy": 1}, interrupted=True))
    assert log.lines[-3:] == [
        "stream s: read 1,000, accepted 985, late 12, rejected 3",
        "query heavy: 1 result row to jsonl:heavy.jsonl",
        "interrupted after 1 batch, 1,000 rows in 2.00 s (500 rows/s), clock 2026-09-21 14:13:20 UTC",
    ]


def test_stopping_is_said():
    log = Log()
    log.view.stopping()
    assert log.lines[-1].startswith("stopping after this batch")


def test_the_run_goes_on_when_nobody_reads_the_log():
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    view = PlainView(Closed(), Hints())
    view.started({}, {})
    view.batch(report(1))
    view.finished(Summary(1, 1.0, None, {}, {}))
