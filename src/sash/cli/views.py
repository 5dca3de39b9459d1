"""Which view a run gets.

--quiet                          none but for warnings, on stderr
stdout is a terminal             live, unless results are printed there too (a console: sink)
otherwise                        plain lines, on stderr where stdout carries results
"""

from __future__ import annotations

import sys
from contextlib import suppress
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console

from sash.cli.hints import Hints
from sash.cli.live import LiveView
from sash.cli.plain import PlainView
from sash.engine.observe.report import Monitor, Silent


class View(Monitor, Protocol):
    """A Monitor that is open while the run goes on and hears that the user wants to stop."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def stopping(self) -> None: ...


class QuietView(Silent):
    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def warning(self, text: str) -> None:
        with suppress(OSError):
            print(f"warning: {text}", file=sys.stderr, flush=True)

    def stopping(self) -> None:
        pass


def choose(hints: Hints, *, runtime: str, quiet: bool, prints_results: bool) -> View:
    if quiet:
        return QuietView()
    if prints_results:
        return PlainView(sys.stderr, hints, runtime=runtime)
    console = Console()
    if console.is_terminal and not console.is_dumb_terminal:
        return LiveView(console, hints, runtime=runtime)
    return PlainView(sys.stdout, hints, runtime=runtime)
