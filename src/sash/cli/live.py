"""The live view of a run on a terminal: figures, progress, and the newest answer of every query.

    ╭─ sash · spark ──────────────────────────────────────────────────╮
    │ 4,998 rows/s   batch 27   0.21 s   clock 10:00:05   late 12  …  │
    │ ━━━━━━━━━━━━━━━━━━━━━━━━━━━━╺━━━━━━━━━━━━━━━━━━━━━━━ 62 %   21 s │
    ╰────────────────────────── lag 2.00 s · state 51,204 rows, 8 MB ─╯
    ╭─ heavy → jsonl:heavy.jsonl ─────╮╭─ protocols → jsonl:… ────────╮
    │ src                       bytes ││ proto                packets │

Reports arrive in the runtime's thread and only replace values here; Rich's own thread draws four times a
second. What is drawn fits the terminal: two columns of queries where it is wide, fewer rows where it is
short, one line a query where it is very short.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Self

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.measure import Measurement
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from sash.cli import format as show
from sash.cli.answers import Answer, newest
from sash.cli.hints import Hints
from sash.cli.tally import Tally, verdict, where_dead_letters_are
from sash.engine.observe.report import BatchReport, Summary

REFRESHES_A_SECOND = 4
TWO_COLUMNS_FROM = 104
TWO_NARROW_COLUMNS_FROM = 76
FIGURES_FROM = 78
PANEL_FRAME = 3  # two borders and the names of the columns
MOST_PANEL_ROWS = 8
FEW_PANEL_ROWS = 3
ROOMY_PANEL_FROM = 50


class LiveView:
    """A Monitor that draws. Use it as a context manager around the run."""

    def __init__(
        self,
        console: Console,
        hints: Hints,
        *,
        runtime: str = "spark",
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console
        self._hints = hints
        self._runtime = runtime
        self._tally = Tally(now)
        self._answers: dict[str, Answer] = {}
        self._answered: dict[str, int] = {}
        self._is_stopping = False
        self._warnings: tuple[str, ...] = ()
        self._summary: Summary | None = None
        self._most_rows: dict[str, int] = {}
        self._spinner = Spinner("dots", style="cyan")
        self._live = Live(
            console=console,
            get_renderable=self.render,
            refresh_per_second=REFRESHES_A_SECOND,
            vertical_overflow="crop",
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()
        for text in self._warnings:
            self._console.print(Text(f"warning: {text}", style="yellow"))
        if self._summary is not None:
            self._console.print(summary_table(self._summary, self._tally, self._hints))

    def started(self, queries: Mapping[str, str], streams: Mapping[str, str]) -> None:
        self._tally.started(queries, streams)

    def watches(self, query: str) -> bool:
        """The newest answers are enough."""
        return False

    def batch(self, report: BatchReport) -> None:
        self._tally.batch(report)
        answers, answered = dict(self._answers), dict(self._answered)
        for name, table in report.answers.items():
            answer = newest(table, self._hints.rank.get(name))
            if answer is not None:
                answers[name] = answer
                # Panels grow and never shrink: a frame that jumps cannot be read.
                self._most_rows[name] = max(self._most_rows.get(name, 1), len(answer.rows))
            answered[name] = answered.get(name, 0) + table.num_rows
        answered.update(report.answered)
        self._answers, self._answered = answers, answered

    def warning(self, text: str) -> None:
        self._warnings = (*self._warnings, text)

    def finished(self, summary: Summary) -> None:
        self._summary = summary

    def stopping(self) -> None:
        self._is_stopping = True

    # ------------------------------------------------------------------------------------------ drawing

    def render(self) -> RenderableType:
        if not self._tally.is_started:
            if self._summary is not None:
                return Text("")
            what = "stopping" if self._is_stopping else f"starting {self._runtime}"
            line = Table.grid(padding=(0, 1))
            line.add_row(self._spinner, Text(f"{what} … {show.duration(self._tally.elapsed)}", style="dim"))
            return line
        return _Frame(self._header(), self._queries)

    def _header(self) -> RenderableType:
        state, style = "running", "cyan"
        if self._is_stopping:
            state, style = "stopping after this batch · Ctrl-C again to leave at once", "yellow"
        if self._summary is not None:
            state, style = ("interrupted", "yellow") if self._summary.interrupted else ("finished", "green")
        title = Text.assemble(("sash", "bold"), (f" · {self._runtime} · ", "dim"), (state, style))
        if self._console.width >= FIGURES_FROM:
            figures: RenderableType = self._figures()
        else:
            figures = self._figure_line()
        parts = [figures, self._progress()]
        if self._warnings:
            parts.append(Text(f"warning: {self._warnings[-1]}", style="yellow"))
        return Panel(
            Group(*parts),
            title=title,
            title_align="left",
            subtitle=self._held(),
            subtitle_align="right",
            border_style=style,
            box=box.ROUNDED,
        )

    def _figure_pairs(self) -> list[tuple[str, str, str]]:
        """(value, label, style) of each figure."""
        report, counts, speed = self._tally.last, self._tally.counts, self._tally.speed
        blank = show.NO_VALUE
        clock = blank
        if report is not None and report.clock is not None:
            clock = show.clock(report.clock, self._hints.unit)
        return [
            (blank if speed is None else f"{speed:,.0f}", "rows/s", "bold green"),
            (show.count(self._tally.rows), "rows", "bold"),
            (blank if report is None else show.count(report.number), "batch", "bold"),
            (blank if report is None else show.duration(report.seconds), "batch time", "bold"),
            (clock, "event clock", "bold"),
            (show.count(counts.late), "late", "bold yellow" if counts.late else "bold"),
            (show.count(counts.rejected), "rejected", "bold red" if counts.rejected else "bold"),
        ]

    def _held(self) -> Text | None:
        """How far the clock is behind the rows, and what is held for them."""
        report = self._tally.last
        parts = []
        if report is not None and report.lag is not None:
            parts.append(f"lag {show.duration(report.lag)}")
        if report is not None and report.state:
            held = report.held
            parts.append(f"state {show.counted(held.rows, 'row')}, {show.size(held.bytes)}")
        return Text(" · ".join(parts), style="dim") if parts else None

    def _figures(self) -> Table:
        grid = Table.grid(expand=True, padding=(0, 1))
        pairs = self._figure_pairs()
        for _ in pairs:
            grid.add_column(justify="left", no_wrap=True)
        grid.add_row(*(Text(value, style=style) for value, _, style in pairs))
        grid.add_row(*(Text(label, style="dim") for _, label, _ in pairs))
        return grid

    def _figure_line(self) -> Text:
        text = Text(overflow="fold")
        for value, label, style in self._figure_pairs():
            if label in ("rows", "batch time"):
                continue
            if text:
                text.append(" · ", style="dim")
            # Non-breaking spaces: a line breaks between figures, never inside one.
            number, name = value.replace(" ", "\xa0"), label.replace("event ", "")
            if name in ("batch", "clock", "late", "rejected"):
                text.append(f"{name}\xa0", style="dim")
                text.append(number, style=style)
            else:
                text.append(number, style=style)
                text.append(f"\xa0{name}", style="dim")
        return text

    def _progress(self) -> RenderableType:
        elapsed = Text(show.duration(self._tally.elapsed), style="dim")
        if self._summary is not None:
            elapsed = Text(show.duration(self._summary.seconds), style="dim")
        share = self._tally.last.progress if self._tally.last is not None else None
        grid = Table.grid(expand=True, padding=(0, 1))
        if share is None:
            if self._summary is not None:
                return elapsed
            words = "waiting for the first batch" if self._tally.last is None else "until you press Ctrl-C"
            if self._is_stopping:
                words = "stopping"
            grid.add_column(width=1)
            grid.add_column(ratio=1, no_wrap=True)
            grid.add_column(justify="right", no_wrap=True)
            grid.add_row(self._spinner, Text(words, style="dim"), elapsed)
            return grid
        grid.add_column(ratio=1)
        grid.add_column(justify="right", no_wrap=True)
        grid.add_column(justify="right", no_wrap=True)
        bar = ProgressBar(total=1.0, completed=min(max(share, 0.0), 1.0), complete_style="cyan")
        grid.add_row(bar, Text(show.percent(share), style="bold"), elapsed)
        return grid

    def _queries(self, width: int, lines: int) -> RenderableType:
        names = list(self._tally.sinks)
        if not names:
            return Text("no queries", style="dim italic")
        columns = 1
        if width >= TWO_COLUMNS_FROM or (
            width >= TWO_NARROW_COLUMNS_FROM and lines // len(names) < PANEL_FRAME + FEW_PANEL_ROWS
        ):
            columns = 2
        bands = [names[start : start + columns] for start in range(0, len(names), columns)]
        wanted = [max(min(self._most_rows.get(name, 1), MOST_PANEL_ROWS) for name in band) for band in bands]
        heights = share_out(lines - PANEL_FRAME * len(bands), wanted)
        if heights is None:
            return self._compact(names, lines)
        return Group(*(self._band(band, rows, width) for band, rows in zip(bands, heights, strict=True)))

    def _band(self, names: Sequence[str], rows: int, width: int) -> RenderableType:
        grid = Table.grid(expand=True)
        for _ in names:
            grid.add_column(ratio=1)
        grid.add_row(*(self._panel(name, rows, width // len(names)) for name in names))
        return grid

    def _panel(self, name: str, rows: int, width: int) -> Panel:
        answer = self._answers.get(name)
        title = Text.assemble((name, "bold"), (f" → {self._tally.sinks[name]}", "dim"))
        if answer is None:
            return Panel(
                Text("no answer yet", style="dim italic"),
                title=title,
                title_align="left",
                border_style="dim",
                height=rows + PANEL_FRAME,
                box=box.ROUNDED,
            )
        shown = answer.rows[:rows]
        about = f"{show.counted(answer.total, 'row')}{self._at(answer)}"
        if len(shown) < answer.total:
            about = f"{len(shown)} of {about}"
        if width >= ROOMY_PANEL_FROM:
            about += f" · {show.count(self._answered.get(name, 0))} in all"
        return Panel(
            self._answer_table(name, answer, shown),
            title=title,
            title_align="left",
            subtitle=Text(about, style="dim"),
            subtitle_align="right",
            border_style="blue",
            height=rows + PANEL_FRAME,
            box=box.ROUNDED,
        )

    def _at(self, answer: Answer) -> str:
        if answer.instant is None:
            return ""
        if isinstance(answer.instant, datetime):
            return f" at {show.value(answer.instant).split(' ')[-1]}"
        if isinstance(answer.instant, int):
            return f" at {show.value(answer.instant, separators=False)}"
        return f" at {show.value(answer.instant)}"

    def _answer_table(self, name: str, answer: Answer, rows: Sequence[tuple[object, ...]]) -> Table:
        keys = self._hints.keys.get(name, frozenset())
        table = Table(box=None, expand=True, padding=(0, 1), pad_edge=False, header_style="dim")
        for column, is_number in zip(answer.columns, answer.numeric, strict=True):
            justify = "right" if is_number and column not in keys else "left"
            table.add_column(Text(column), justify=justify, no_wrap=True, overflow="ellipsis")  # type: ignore[arg-type]
        for row in rows:
            table.add_row(
                *(
                    Text(show.value(item, separators=column not in keys), style="dim" if item is None else "")
                    for column, item in zip(answer.columns, row, strict=True)
                )
            )
        return table

    def _compact(self, names: Sequence[str], lines: int) -> RenderableType:
        table = Table(box=None, expand=True, padding=(0, 1), pad_edge=False, header_style="dim")
        table.add_column("query", no_wrap=True, overflow="ellipsis", max_width=24)
        table.add_column("rows", justify="right", no_wrap=True)
        table.add_column("newest answer", ratio=1, no_wrap=True, overflow="ellipsis")
        room = max(lines - 1, 1)
        listed = names if len(names) <= room else names[: max(room - 1, 1)]
        for name in listed:
            answer = self._answers.get(name)
            text = Text("no answer yet", style="dim italic")
            if answer is not None and answer.rows:
                text = Text(self._one_line(name, answer))
            table.add_row(Text(name, style="bold"), show.count(self._answered.get(name, 0)), text)
        if len(listed) < len(names):
            more = len(names) - len(listed)
            return Group(
                table, Text(f"… and {show.counted(more, 'more query', 'more queries')}", style="dim")
            )
        return table

    def _one_line(self, name: str, answer: Answer) -> str:
        keys = self._hints.keys.get(name, frozenset())
        pairs = zip(answer.columns, answer.rows[0], strict=True)
        return ", ".join(
            f"{column} {show.value(item, separators=column not in keys)}" for column, item in pairs
        )


def share_out(lines: int, wanted: Sequence[int]) -> list[int] | None:
    """Lines for each of `wanted`, at least one and at most what it wants, as even as can be.

    None where there is not a line for each.
    """
    if lines < len(wanted):
        return None
    shares = [1] * len(wanted)
    left = lines - len(wanted)
    while left > 0:
        hungry = [i for i, want in enumerate(wanted) if shares[i] < want]
        if not hungry:
            break
        for i in hungry[:left]:
            shares[i] += 1
        left -= len(hungry[:left])
    return shares


class _Frame:
    """The header, and the queries in the lines that it leaves."""

    def __init__(self, header: RenderableType, queries: Callable[[int, int], RenderableType]) -> None:
        self._header = header
        self._queries = queries

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        header = console.render_lines(self._header, options, pad=False)
        yield self._header
        height = options.height if options.height is not None else console.height
        lines = height - len(header) - 1
        if lines >= 1:
            yield self._queries(options.max_width, lines)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(options.max_width, options.max_width)


def summary_table(summary: Summary, tally: Tally, hints: Hints) -> RenderableType:
    """The end of a run: what was read, what was answered, how fast."""
    streams = Table(box=box.SIMPLE_HEAD, header_style="dim", pad_edge=False)
    streams.add_column("stream", no_wrap=True, overflow="ellipsis")
    for label in ("read", "accepted", "late", "rejected"):
        streams.add_column(label, justify="right", no_wrap=True)
    for name, counts in summary.streams.items():
        streams.add_row(
            Text(name, style="bold"),
            show.count(counts.read),
            show.count(counts.accepted),
            Text(show.count(counts.late), style="yellow" if counts.late else ""),
            Text(show.count(counts.rejected), style="red" if counts.rejected else ""),
        )
    queries = Table(box=box.SIMPLE_HEAD, header_style="dim", pad_edge=False)
    queries.add_column("query", no_wrap=True, overflow="ellipsis")
    queries.add_column("result rows", justify="right", no_wrap=True)
    queries.add_column("sink", overflow="fold")
    for name, rows in summary.answered.items():
        queries.add_row(Text(name, style="bold"), show.count(rows), Text(tally.sinks.get(name, "")))
    end = verdict(summary, tally.rows)
    line = Text(end.text, style="bold yellow" if end.interrupted else "bold green")
    if summary.clock is not None:
        line.append(f", clock {show.clock(summary.clock, hints.unit)}", style="not bold dim")
    dead_letters = where_dead_letters_are(summary, hints)
    parts: list[RenderableType] = [table for table in (streams, queries) if table.row_count]
    if dead_letters is not None:
        parts.append(Text(dead_letters, style="dim"))
    return Group(*parts, line)
