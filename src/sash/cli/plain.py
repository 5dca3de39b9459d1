"""The log of a run where nobody sees a terminal: a line now and then, and the summary as lines.

At most one line a second, however short the batches are. When whoever reads the lines goes away nothing is
written any more; whether the run goes on is decided elsewhere (`attended.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Self, TextIO

from sash.cli import format as show
from sash.cli.hints import Hints
from sash.cli.tally import Tally, verdict, where_dead_letters_are
from sash.engine.observe.report import BatchReport, Summary

LINE_SECONDS = 1.0


class PlainView:
    """A Monitor that writes lines to `out`."""

    def __init__(
        self, out: TextIO, hints: Hints, *, runtime: str = "", now: Callable[[], float] = time.monotonic
    ) -> None:
        self._out = out
        self._hints = hints
        self._runtime = runtime
        self._tally = Tally(now)
        self._printed: float | None = None
        self._is_read = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def started(self, queries: Mapping[str, str], streams: Mapping[str, str]) -> None:
        self._tally.started(queries, streams)
        self._write(
            f"started: {show.counted(len(streams), 'stream')}, "
            f"{show.counted(len(queries), 'query', 'queries')}"
            + (", waiting for Spark" if self._runtime == "spark" else "")
        )

    def watches(self, query: str) -> bool:
        """The newest answers are enough."""
        return False

    def batch(self, report: BatchReport) -> None:
        self._tally.batch(report)
        moment = self._tally.now()
        if self._printed is None or moment - self._printed >= LINE_SECONDS:
            self._printed = moment
            self._write(batch_line(self._tally, report, self._hints.unit))

    def warning(self, text: str) -> None:
        self._write(f"warning: {text}")

    def finished(self, summary: Summary) -> None:
        for line in summary_lines(summary, self._tally, self._hints):
            self._write(line)

    def stopping(self) -> None:
        self._write("stopping after this batch (Ctrl-C again to leave at once)")

    def _write(self, line: str) -> None:
        if not self._is_read:
            return
        try:
            self._out.write(line + "\n")
            self._out.flush()
        except OSError:
            self._is_read = False


def batch_line(tally: Tally, report: BatchReport, unit: int | None) -> str:
    counts = tally.counts
    parts = [
        f"batch {report.number}",
        show.counted(tally.rows, "row"),
        f"{tally.speed:,.0f} rows/s" if tally.speed is not None else f"{show.NO_VALUE} rows/s",
        show.duration(report.seconds),
    ]
    if report.clock is not None:
        parts.append(f"clock {show.clock(report.clock, unit)}")
    if report.lag is not None:
        parts.append(f"lag {show.duration(report.lag)}")
    if report.state:
        parts.append(f"state {show.size(report.held.bytes)}")
    parts += [f"late {show.count(counts.late)}", f"rejected {show.count(counts.rejected)}"]
    if report.progress is not None:
        parts.append(show.percent(report.progress))
    return ", ".join(parts)


def summary_lines(summary: Summary, tally: Tally, hints: Hints) -> Iterator[str]:
    for name, counts in summary.streams.items():
        yield (
            f"stream {name}: read {show.count(counts.read)}, accepted {show.count(counts.accepted)}, "
            f"late {show.count(counts.late)}, rejected {show.count(counts.rejected)}"
        )
    for name, rows in summary.answered.items():
        sink = tally.sinks.get(name)
        yield f"query {name}: {show.counted(rows, 'result row')}" + (f" to {sink}" if sink else "")
    dead_letters = where_dead_letters_are(summary, hints)
    if dead_letters is not None:
        yield dead_letters
    clock = f", clock {show.clock(summary.clock, hints.unit)}" if summary.clock is not None else ""
    yield verdict(summary, tally.rows).text + clock
