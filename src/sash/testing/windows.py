"""Hypothesis strategies for windows, and what the windows of one level of a query have in common.

The windows of a level have the same SLIDE or none, and are INTERNAL all or none. Results that are kept for
ever (INTERNAL, or under Wstream) go with no operator that takes results back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from sash.lang.intervals import write as write_interval
from sash.testing.expressions import pick


@dataclass(frozen=True, slots=True)
class Level:
    """`slide` is in ticks, or in rows with `in_rows`; `is_windowed`: the results are windowed again."""

    slide: int | None = None
    in_rows: bool = False
    is_internal: bool = False
    is_windowed: bool = False

    @property
    def is_periodic(self) -> bool:
        return self.slide is not None

    @property
    def in_time(self) -> bool:
        return self.slide is not None and not self.in_rows

    @property
    def keeps_results(self) -> bool:
        return self.is_internal or self.is_windowed


@dataclass(frozen=True, slots=True)
class MadeWindow:
    """The text of a window. Rows of a `strict` one go when others come, those of an unbounded one never."""

    text: str
    is_strict: bool = False
    is_unbounded: bool = False


def level(draw: st.DrawFn, *, may_be_internal: bool = True, must_be_internal: bool = False) -> Level:
    """A level whose results are a relation, or are kept for ever."""
    kind = pick(draw, ("none", "none", "time", "time", "rows"))
    internal = must_be_internal or (may_be_internal and draw(st.integers(0, 5)) == 5)
    if kind == "none":
        return Level(is_internal=internal, is_windowed=must_be_internal)
    slide = pick(draw, (2, 1, 3, 5))
    return Level(slide, kind == "rows", internal, must_be_internal)


def window(draw: st.DrawFn, at: Level, tick: int, columns: Sequence[str]) -> MadeWindow:
    """A window of the level over rows with the given columns; `tick` is the grain of time in microseconds."""
    clauses = " INTERNAL" if at.is_internal else ""
    if at.in_rows:
        return _rows(draw, f" SLIDE {at.slide}{clauses}", columns)
    kind = pick(draw, ("range", "range", "range", "range", "rows", "rows", "now", "unbounded"))
    if at.slide is not None:
        clauses = f" SLIDE {write_interval(at.slide * tick)}{clauses}"
    elif kind == "rows":
        return _rows(draw, clauses, columns)
    match kind:
        case "now":
            return MadeWindow(f"[NOW{clauses}]")
        case "unbounded":
            return MadeWindow(f"[UNBOUNDED{clauses}]", is_unbounded=True)
    # In halves of a tick: rows may expire between two instants.
    halves = pick(draw, (8, 4, 12, 3, 13, 20, 40))
    offset = pick(draw, (0, 0, 0, 1, 2))
    if 0 < offset < halves:
        clauses = f" OFFSET {write_interval(offset * tick // 2)}{clauses}"
    return MadeWindow(f"[RANGE {write_interval(halves * tick // 2)}{clauses}]")


def _rows(draw: st.DrawFn, clauses: str, columns: Sequence[str]) -> MadeWindow:
    count = pick(draw, (2, 1, 3, 5))
    by = pick(draw, ("", "", *columns))
    partition = f"PARTITION BY {by} " if by else ""
    return MadeWindow(f"[{partition}ROWS {count}{clauses}]", is_strict=True)


def output_window(draw: st.DrawFn, tick: int) -> str:
    """What Wstream takes."""
    if draw(st.booleans()):
        return f"[RANGE {write_interval(pick(draw, (4, 2, 7)) * tick)}]"
    return f"[ROWS {pick(draw, (2, 1, 4))}]"
