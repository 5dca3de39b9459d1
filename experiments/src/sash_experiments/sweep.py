"""What the four queries of 002, section 3.6 have in common: strategies over windows of different lengths.

A case of a query is measured with its result stored and with its change log written, one window after the
other; the largest window also with other steps. Time is milliseconds per 1,000 input tuples after the windows
have filled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sash_experiments.charts import Panel, draw_lines
from sash_experiments.measure import Measured, Pace, Variant, compare
from sash_experiments.result import Cell, Claim, Note, Result
from sash_experiments.strategies import LOG, VIEW


@dataclass(frozen=True, slots=True)
class Sizes:
    """Windows and steps in time units; `other_steps` are also tried with the largest window.

    A round has at least `round_steps` steps, to be long enough to time.
    """

    windows: tuple[int, ...]
    step: int = 20
    other_steps: tuple[int, ...] = (100, 1000)
    rounds: int = 5
    round_steps: int = 50

    @property
    def smallest(self) -> int:
        return min(self.windows)

    @property
    def largest(self) -> int:
        return max(self.windows)

    @property
    def steps(self) -> tuple[int, ...]:
        return (self.step, *self.other_steps)

    def pace(self, window: int, step: int) -> Pace:
        # Two lazy expirations of a join, which come every 5 % of its window, are in a round.
        return Pace(window, step, max(window // 10, self.round_steps * self.step, 5 * step), self.rounds)


SMALL = Sizes((2_000, 10_000, 50_000), rounds=3)
PAPER = Sizes((2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000), rounds=3)
SCALES = {"small": SMALL, "paper": PAPER}


class Point(NamedTuple):
    """A case of a query, how its result ends, and with which window and step."""

    case: str
    top: str
    window: int
    step: int


Seen = dict[Point, dict[str, Measured]]
Variants = Callable[[Point, Pace], Mapping[str, Variant]]


def sweep(cases: Sequence[str], stepped: Iterable[str], sizes: Sizes, variants: Variants, note: Note) -> Seen:
    """All points; `stepped` are the cases that are tried with other steps."""
    points = [
        Point(case, top, window, sizes.step)
        for window in sizes.windows
        for case in cases
        for top in (VIEW, LOG)
    ]
    points.extend(Point(case, VIEW, sizes.largest, step) for case in stepped for step in sizes.other_steps)
    whole = sum(point.window for point in points)
    seen: Seen = {}
    done = 0
    for point in points:
        note(f"{point.case}, {point.top}, windows of {point.window:,}, steps of {point.step}", done / whole)
        pace = sizes.pace(point.window, point.step)
        seen[point] = compare(variants(point, pace), pace)
        done += point.window
    return seen


def table(seen: Seen, *left_out: str) -> list[dict[str, Cell]]:
    """A row for each strategy, window and step; counts are for one tuple, with the result stored."""
    rows: list[dict[str, Cell]] = []
    for point, strategies in seen.items():
        if point.top == LOG:
            continue
        logs = seen.get(point._replace(top=LOG), {})
        for name, measured in strategies.items():
            row: dict[str, Cell] = {
                "case": point.case,
                "window": point.window,
                "step": point.step,
                "strategy": name,
                "view ms": measured.time,
                "log ms": logs[name].time if name in logs else None,
                "results": measured.results,
                "moved": measured.moved / 1000,
                "negative": measured.negative / 1000,
                "looked at": measured.looked_at / 1000,
                "rows": measured.state_rows,
                "MB": measured.state_bytes / 1e6,
            }
            rows.append({column: value for column, value in row.items() if column not in left_out})
    return rows


def ratio(seen: Seen, point: Point, slow: str, fast: str) -> float:
    """How many times as long one strategy takes as another."""
    return seen[point][slow].time / seen[point][fast].time


def by_step(seen: Seen, point: Point, sizes: Sizes, slow: str, fast: str) -> str:
    """How a comparison depends on the step, in words."""
    parts = [
        f"{ratio(seen, point._replace(step=step), slow, fast):.2f} × with steps of {step:,}"
        for step in sorted(sizes.steps)
        if point._replace(step=step) in seen
    ]
    return f"{slow} takes, compared with {fast}, " + ", ".join(parts)


def same_results(seen: Seen) -> Claim:
    """That the strategies agree, as far as a count can tell."""
    differing = [
        point
        for point, strategies in seen.items()
        if point.top == VIEW and len({measured.results for measured in strategies.values()}) > 1
    ]
    return Claim(
        "same-results",
        "all strategies hold equally many results when a run ends",
        "yes",
        f"{len(differing)} differences",
        not differing,
    )


TIMES = (("view ms", "result stored", "ms per 1,000 tuples"), ("log ms", "change log", "ms per 1,000 tuples"))


def draw_sweep(
    title: str, result: Result, path: Path, columns: Sequence[tuple[str, str, str]] = TIMES
) -> None:
    """Panels over the windows by case and column; columns with what they are and their unit."""
    step = result.table[0]["step"]
    rows = [row for row in result.table if row["step"] == step]
    panels = []
    for case in dict.fromkeys(str(row.get("case", "")) for row in rows):
        for column, what, unit in columns:
            lines: dict[str, list[tuple[float, float]]] = {}
            for row in rows:
                value = row[column]
                if str(row.get("case", "")) == case and value is not None:
                    place = (float(row["window"] or 0), float(value))
                    lines.setdefault(str(row["strategy"]), []).append(place)
            panels.append(Panel(f"{case} {what}".strip(), "window (time units)", unit, lines))
    draw_lines(f"{title}, steps of {step} ({result.scale})", panels, path)
