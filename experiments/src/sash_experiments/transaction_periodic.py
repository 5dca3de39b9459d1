"""transaction-periodic: periodic queries while the window slides (002, figures 7.9 to 7.11).

How old answers are, how often a query is answered, and how many transactions there are a second, under
Serial, WS, LWS and TTU. Staleness counts from the instant at which a movement was due: under Serial it
happens later, and that is not to its credit.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sash_experiments.charts import Panel, draw_lines
from sash_experiments.result import Cell, Claim, Note, Result, silent
from sash_experiments.transaction_workload import (
    FREQUENT,
    RARE,
    SCALES,
    SCHEDULERS,
    Costs,
    Outcome,
    Seen,
    Sizes,
    mean,
    sweep,
)

NAME = "transaction-periodic"
TITLE = "periodic queries under Serial, WS, LWS and TTU (002, figures 7.9 to 7.11)"

MEASURES: dict[str, Callable[[Outcome], float]] = {
    "staleness s": lambda outcome: outcome.staleness(is_once=False),
    "between s": lambda outcome: outcome.between,
    "queries/s": lambda outcome: outcome.throughput,
    "aborts %": lambda outcome: 100 * outcome.aborted,
}


def measure(scale: str, note: Note = silent) -> Result:
    return measure_at(SCALES[scale], scale, note)


def measure_at(sizes: Sizes, scale: str, note: Note = silent) -> Result:
    seen = sweep((FREQUENT, RARE), sizes, note)
    rows: list[dict[str, Cell]] = [
        {
            "t s": seconds,
            "sub-windows": n,
            "scheduler": name,
            **{column: mean(outcomes, found) for column, found in MEASURES.items()},
        }
        for (seconds, n, name), outcomes in seen.items()
    ]
    return Result(NAME, TITLE, scale, rows, _claims(seen))


def _claims(seen: Seen) -> list[Claim]:
    points = list(dict.fromkeys((seconds, n) for seconds, n, _ in seen))
    figures = {
        (point, name, column): mean(seen[*point, name], found)
        for point in points
        for name in SCHEDULERS
        for column, found in MEASURES.items()
    }

    def ratios(column: str, name: str, other: str) -> list[float]:
        return [figures[point, name, column] / figures[point, other, column] for point in points]

    def span(values: list[float]) -> str:
        return f"{min(values):.2f} to {max(values):.2f} ×"

    least_stale = [min(SCHEDULERS, key=lambda name: figures[point, name, "staleness s"]) for point in points]
    ttu_stale, lws_stale = ratios("staleness s", "TTU", "WS"), ratios("staleness s", "LWS", "WS")
    serial_stale = ratios("staleness s", "Serial", "WS")
    gaps = {name: ratios("between s", name, "Serial") for name in SCHEDULERS}
    lost = [100 * (1 - ratio) for ratio in ratios("queries/s", "TTU", "Serial")]
    lws = ratios("queries/s", "LWS", "TTU")
    ttu = [outcome for (_, _, name), outcomes in seen.items() if name == "TTU" for outcome in outcomes]
    decision = 1e6 * sum(outcome.deciding for outcome in ttu) / sum(outcome.reads for outcome in ttu)
    few, many = points[0], points[-1]
    return [
        Claim(
            "ttu-staleness",
            "TTU has the lowest staleness in all scenarios",
            "yes",
            f"in {least_stale.count('TTU')} of {len(points)}; {span(ttu_stale)} that of WS",
            all(name == "TTU" for name in least_stale),
            f"seconds at {many[1]} sub-windows of {many[0]} s: "
            + ", ".join(f"{name} {figures[many, name, 'staleness s']:.1f}" for name in SCHEDULERS),
        ),
        Claim(
            "latest-staleness",
            "TTU and LWS have clearly fresher answers than WS and Serial",
            "yes",
            f"TTU {span(ttu_stale)}, LWS {span(lws_stale)} that of WS",
            max(ttu_stale) < 1 and max(lws_stale) < 1,
            "the gain grows with the share of queries that meet a movement",
        ),
        Claim(
            "serial-ws",
            "Serial is slightly better than WS in staleness",
            "slightly",
            f"{span(serial_stale)} that of WS",
            max(serial_stale) <= 1.005 and min(serial_stale) < 1,
            "both answer from the window before the query began; under WS movements happen during the query "
            "and make it longer, which costs a millisecond for a thousand packets here",
        ),
        Claim(
            "staleness-grows",
            "staleness grows with the length of sub-windows and, generally, with their number",
            "yes",
            f"TTU {figures[few, 'TTU', 'staleness s']:.2f} to {figures[many, 'TTU', 'staleness s']:.2f} s, "
            f"WS {figures[few, 'WS', 'staleness s']:.2f} to {figures[many, 'WS', 'staleness s']:.2f} s",
            all(
                figures[few, name, "staleness s"] < figures[many, name, "staleness s"] for name in SCHEDULERS
            ),
            "with their number for all but TTU, whose answers are half a slide old however long it reads",
        ),
        Claim(
            "between",
            "Serial answers a query most often, WS and TTU very closely behind, LWS does badly",
            "yes",
            ", ".join(f"{name} {span(gaps[name])}" for name in ("WS", "TTU", "LWS"))
            + " Serial's time between answers",
            max(gaps["TTU"] + gaps["WS"]) <= 1.04 and max(gaps["LWS"]) > 1.2,
        ),
        Claim(
            "throughput",
            "TTU has less than two, at most four percent less throughput than Serial",
            "< 2 %, ≤ 4 %",
            f"{max(lost):.1f} % at the most",
            max(lost) <= 4,
            f"a decision is taken to cost {Costs().decision:.0f} µs, a sub-window more than "
            f"{Costs().sub_window / 1000:.0f} ms",
        ),
        Claim(
            "decision",
            "a decision of our scheduler costs no more than was assumed",
            f"≤ {Costs().decision:.0f} µs (ours)",
            f"{decision:.0f} µs",
            decision <= Costs().decision,
            "processor time of the whole simulation for each read, so at the most",
        ),
        Claim(
            "lws-throughput",
            "LWS has less throughput in all cases",
            "yes",
            f"{span(lws)} that of TTU",
            max(lws) < 1,
        ),
    ]


def draw(result: Result, path: Path) -> None:
    panels = []
    for column, title in (
        ("staleness s", "staleness (s)"),
        ("between s", "time between answers (s)"),
        ("queries/s", "transactions a second"),
    ):
        for seconds in dict.fromkeys(row["t s"] for row in result.table):
            lines: dict[str, list[tuple[float, float]]] = {name: [] for name in SCHEDULERS}
            for row in result.table:
                if row["t s"] == seconds:
                    place = (float(row["sub-windows"] or 0), float(row[column] or 0))
                    lines[str(row["scheduler"])].append(place)
            is_log = column == "queries/s"
            panels.append(Panel(f"t = {seconds} s", "sub-windows", title, lines, is_log, is_log))
    draw_lines(f"Periodic queries while the window slides ({result.scale})", panels, path)
