"""The speed of a run, with a clock that is moved by hand.

started 0 s ........ 20 s: first batch begins .. 21 s: it ends .. 22 s .. 23 s
"""

from __future__ import annotations

from pathlib import Path

from sash.cli.hints import Hints
from sash.cli.tally import Tally, where_dead_letters_are
from sash.engine.observe.report import BatchReport, StreamCounts, Summary


class Run:
    def __init__(self) -> None:
        self.time = 0.0
        self.tally = Tally(lambda: self.time)
        self.tally.started({}, {})

    def batch(self, at: float, rows: int, seconds: float = 1.0) -> None:
        self.time = at
        self.tally.batch(BatchReport(1, rows, seconds, None, None, {}))


def test_there_is_no_speed_before_the_first_batch():
    assert Run().tally.speed is None


def test_the_start_of_the_runtime_does_not_count():
    run = Run()
    run.batch(21.0, 1000)
    assert run.tally.speed == 1000.0


def test_only_the_last_seconds_count():
    run = Run()
    for second in range(1, 101):
        run.batch(float(second), 1000 if second <= 90 else 5000)
    assert run.tally.speed == 5000.0
    assert run.tally.rows == 90 * 1000 + 10 * 5000


def test_a_long_batch_is_spread_over_its_time():
    run = Run()
    run.batch(1.0, 100)
    run.batch(101.0, 10_000, seconds=100.0)
    assert run.tally.speed == 100.0


def test_the_points_kept_stay_few():
    run = Run()
    for second in range(1, 1001):
        run.batch(float(second), 1)
    assert len(run.tally._recent) <= 7


def test_rows_that_are_kept_aside_are_named_only_while_they_are_there():
    counts = {"s": StreamCounts(accepted=5, late=1)}
    summary = Summary(1, 1.0, None, counts, {}, dead_letters=Path("/tmp/made/dead-letters"))
    assert where_dead_letters_are(summary, Hints()) == "late and rejected rows are in /tmp/made/dead-letters"
    gone = where_dead_letters_are(summary, Hints(is_kept=False))
    assert gone == "late and rejected rows are gone with the folder of the run: --keep DIR keeps them"
