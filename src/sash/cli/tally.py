"""What the views know of a run so far: the newest report, the rows of this run, the present speed.

`now` is passed in, so that a test says how time goes by. Reports come from the runtime's thread while a view
draws from another: every change replaces a whole value, so a reader sees the old one or the new one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sash.cli import format as show
from sash.cli.hints import Hints
from sash.engine.observe.report import BatchReport, StreamCounts, Summary

SPEED_SECONDS = 5.0


class Tally:
    """Adds up the reports of one run."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self.begun = now()
        self.sinks: Mapping[str, str] = {}
        self.sources: Mapping[str, str] = {}
        self.is_started = False
        self.last: BatchReport | None = None
        self.rows = 0
        self._recent: tuple[tuple[float, int], ...] = ()

    def started(self, queries: Mapping[str, str], streams: Mapping[str, str]) -> None:
        self.sinks, self.sources = dict(queries), dict(streams)
        self.is_started = True

    def batch(self, report: BatchReport) -> None:
        moment = self.now()
        # Counted from where the first batch began: what came before is the start of the runtime.
        kept = self._recent or ((moment - report.seconds, self.rows),)
        self.rows += report.rows
        # The newest point that is older than the stretch stays: it is where the stretch begins.
        while len(kept) > 1 and kept[1][0] <= moment - SPEED_SECONDS:
            kept = kept[1:]
        self._recent = (*kept, (moment, self.rows))
        self.last = report

    @property
    def elapsed(self) -> float:
        return self.now() - self.begun

    @property
    def speed(self) -> float | None:
        """Rows a second over the last seconds; None before the first batch."""
        recent = self._recent
        if len(recent) < 2 or recent[-1][0] <= recent[0][0]:
            return None
        return (recent[-1][1] - recent[0][1]) / (recent[-1][0] - recent[0][0])

    @property
    def counts(self) -> StreamCounts:
        return total(self.last.streams) if self.last is not None else StreamCounts()


def total(streams: Mapping[str, StreamCounts]) -> StreamCounts:
    return sum(streams.values(), StreamCounts())


@dataclass(frozen=True, slots=True)
class Verdict:
    """The sentence that ends a run."""

    text: str
    interrupted: bool


def where_dead_letters_are(summary: Summary, hints: Hints) -> str | None:
    """Where the rows are that took part in no answer, if there are any."""
    counts = total(summary.streams)
    if summary.dead_letters is None or counts.late + counts.rejected == 0:
        return None
    if not hints.is_kept:
        return "late and rejected rows are gone with the folder of the run: --keep DIR keeps them"
    return f"late and rejected rows are in {summary.dead_letters}"


def verdict(summary: Summary, rows: int) -> Verdict:
    head = "interrupted after" if summary.interrupted else "finished:"
    text = (
        f"{head} {show.counted(summary.batches, 'batch', 'batches')}, {show.counted(rows, 'row')} "
        f"in {show.duration(summary.seconds)} ({show.rate(rows, summary.seconds)})"
    )
    if summary.abandoned:
        text += ", without the batch under way"
    return Verdict(text, summary.interrupted)
