"""transaction-one-time: one-time beside periodic queries while the window slides (002, figures 7.12 to 7.14).

A hundred periodic queries, sub-windows of five seconds, and a one-time query a second on average, which has
the higher priority. Response time counts from its arrival.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sash_experiments.charts import Panel, draw_lines
from sash_experiments.result import Cell, Claim, Note, Result, silent
from sash_experiments.transaction_workload import RARE, SCALES, SCHEDULERS, Outcome, Seen, Sizes, mean, sweep

NAME = "transaction-one-time"
TITLE = "one-time queries under Serial, WS, LWS and TTU (002, figures 7.12 to 7.14)"

MEASURES: dict[str, Callable[[Outcome], float]] = {
    "response s": lambda outcome: outcome.response,
    "staleness s": lambda outcome: outcome.staleness(is_once=True),
    "periodic staleness s": lambda outcome: outcome.staleness(is_once=False),
    "aborts %": lambda outcome: 100 * outcome.aborted,
}


def measure(scale: str, note: Note = silent) -> Result:
    return measure_at(SCALES[scale], scale, note)


def measure_at(sizes: Sizes, scale: str, note: Note = silent) -> Result:
    seen = sweep((RARE,), sizes, note, one_time=1.0)
    rows: list[dict[str, Cell]] = [
        {
            "sub-windows": n,
            "scheduler": name,
            **{column: mean(outcomes, found) for column, found in MEASURES.items()},
        }
        for (_, n, name), outcomes in seen.items()
    ]
    return Result(NAME, TITLE, scale, rows, _claims(seen))


def _claims(seen: Seen) -> list[Claim]:
    numbers = list(dict.fromkeys(n for _, n, _ in seen))
    figures = {
        (n, name, column): mean(outcomes, found)
        for (_, n, name), outcomes in seen.items()
        for column, found in MEASURES.items()
    }

    def ratios(column: str, name: str, other: str) -> list[float]:
        return [figures[n, name, column] / figures[n, other, column] for n in numbers]

    def span(values: list[float]) -> str:
        return f"{min(values):.3f} to {max(values):.3f} ×"

    def shown(column: str) -> str:
        return ", ".join(f"{name} {figures[numbers[-1], name, column]:.3g}" for name in SCHEDULERS)

    most = numbers[-1]
    equal = ratios("response s", "TTU", "WS")
    lws, serial = ratios("response s", "LWS", "TTU"), ratios("response s", "Serial", "TTU")
    once = {name: ratios("staleness s", name, "TTU") for name in SCHEDULERS}
    periodic = {name: ratios("periodic staleness s", name, "TTU") for name in SCHEDULERS}
    others = [name for name in SCHEDULERS if name != "TTU"]
    return [
        Claim(
            "response-ws",
            "TTU and WS have nearly identical response times",
            "equal",
            f"TTU {span(equal)} that of WS",
            all(abs(ratio - 1) <= 0.05 for ratio in equal),
            f"seconds at {most} sub-windows: {shown('response s')}",
        ),
        Claim(
            "response-lws",
            "LWS is noticeably slower to respond, as it aborts some one-time queries",
            "longer",
            f"{span(lws)} that of TTU",
            lws[-1] > 1.02,
            f"over {most} sub-windows a one-time query reads for about "
            f"{figures[most, 'TTU', 'response s']:.2f} s of a slide of 5 s: few meet a movement, and of "
            "those half are aborted",
        ),
        Claim(
            "response-serial",
            "Serial is the slowest to respond: it cannot suspend a periodic query",
            "worst",
            f"{span(serial)} that of TTU",
            all(ratio > max(1.0, other) for ratio, other in zip(serial, lws, strict=True)),
        ),
        Claim(
            "response-grows",
            "response times grow with the number of sub-windows under every scheduler",
            "yes",
            f"TTU {figures[numbers[0], 'TTU', 'response s']:.3f} to {figures[most, 'TTU', 'response s']:.3f}",
            all(
                figures[numbers[0], name, "response s"] < figures[most, name, "response s"]
                for name in SCHEDULERS
            ),
        ),
        Claim(
            "staleness",
            "TTU has the lowest staleness of one-time queries, then LWS, then WS and Serial",
            "lowest",
            f"at {most} sub-windows {shown('staleness s')} s",
            all(min(once[name]) >= 1 for name in others),
            f"over all numbers of sub-windows LWS is {span(once['LWS'])}, WS {span(once['WS'])}, Serial "
            f"{span(once['Serial'])} that of TTU; a one-time query that LWS aborts starts again at once and "
            "answers from the newest window, too",
        ),
        Claim(
            "periodic-staleness",
            "TTU has the lowest staleness of periodic queries here, too",
            "lowest",
            ", ".join(f"{name} {span(periodic[name])}" for name in others) + " that of TTU",
            all(min(periodic[name]) >= 1 for name in others),
        ),
    ]


def draw(result: Result, path: Path) -> None:
    panels = []
    for column, title in (
        ("response s", "response time (s)"),
        ("staleness s", "staleness of one-time queries (s)"),
        ("periodic staleness s", "staleness of periodic queries (s)"),
    ):
        lines = {
            name: [
                (float(row["sub-windows"] or 0), float(row[column] or 0))
                for row in result.table
                if row["scheduler"] == name
            ]
            for name in SCHEDULERS
        }
        panels.append(Panel(title, "sub-windows", "seconds", lines, is_log_x=False, is_log_y=False))
    draw_lines(f"One-time queries while the window slides ({result.scale})", panels, path)
