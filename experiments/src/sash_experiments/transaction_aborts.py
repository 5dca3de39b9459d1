"""transaction-aborts: queries that a sliding window aborts, under Algorithms 7 and 8 (002, figure 7.8).

Beside the published workloads, all costs of reading are halved and doubled: the share of aborts follows how
long a scan takes compared with a slide, which the publication does not state.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from sash.transactions.schedulers import LWS, TTU
from sash_experiments.charts import Panel, draw_lines
from sash_experiments.result import Cell, Claim, Note, Result, silent
from sash_experiments.transaction_workload import (
    FREQUENT,
    RARE,
    SCALES,
    Costs,
    Load,
    Outcome,
    Sizes,
    check,
    mean,
    simulate,
)

NAME = "transaction-aborts"
TITLE = "queries aborted while the window slides, by LWS and TTU (002, figure 7.8)"

FACTORS = (0.5, 1.0, 2.0, 4.0)
_POLICIES = {"LWS": LWS, "TTU": TTU}

Point = tuple[str, int, float, float]
"""The case, the number of sub-windows, the factor of all costs of reading, one-time queries a second."""


def measure(scale: str, note: Note = silent) -> Result:
    return measure_at(SCALES[scale], scale, note)


def measure_at(sizes: Sizes, scale: str, note: Note = silent) -> Result:
    cases = {"t = 1 s": FREQUENT, "t = 5 s": RARE}
    points: list[Point] = [(case, n, 1.0, 0.0) for case in cases for n in sizes.sub_windows]
    most = max(sizes.sub_windows)
    points.extend(("t = 1 s", most, factor, 0.0) for factor in FACTORS if factor != 1.0)
    points.append(("t = 5 s", most, 1.0, 1.0))
    seen: dict[Point, dict[str, list[Outcome]]] = {}
    for place, point in enumerate(points):
        case, n, factor, one_time = point
        note(f"{case}, {n} sub-windows, costs × {factor:g}", place / len(points))
        costs = Costs()
        costs = replace(costs, sub_window=factor * costs.sub_window, tuple=factor * costs.tuple)
        load = Load(n, *cases[case], one_time, sizes.windows, costs)
        seen[point] = {}
        for name, policy in _POLICIES.items():
            seen[point][name] = [simulate(load, policy(), seed) for seed in range(sizes.trials)]
            for outcome in seen[point][name]:
                check(outcome, name)
    return Result(
        NAME, TITLE, scale, [_row(point, found) for point, found in seen.items()], _claims(seen, most)
    )


def _row(point: Point, found: dict[str, list[Outcome]]) -> dict[str, Cell]:
    case, n, factor, one_time = point
    load = found["TTU"][0].load
    # The longest of five lengths has 5/6 of the sub-windows on average.
    scan = 5 / 6 * n * (load.costs.sub_window + load.costs.tuple * 1_000 * load.seconds) / 1e6
    return {
        "case": case,
        "queries": load.periodic,
        "sub-windows": n,
        "costs ×": factor,
        "one-time /s": one_time,
        "scan / slide": scan / load.seconds,
        "LWS aborts %": 100 * mean(found["LWS"], lambda outcome: outcome.aborted),
        "TTU aborts %": 100 * mean(found["TTU"], lambda outcome: outcome.aborted),
    }


def _claims(seen: dict[Point, dict[str, list[Outcome]]], most: int) -> list[Claim]:
    share = {
        (point, name): 100 * mean(outcomes, lambda outcome: outcome.aborted)
        for point, found in seen.items()
        for name, outcomes in found.items()
    }
    plain = [point for point in seen if point[2:] == (1.0, 0.0)]
    ttu = max(share[point, "TTU"] for point in plain)
    frequent = [share[point, "LWS"] for point in plain if point[0] == "t = 1 s"]
    rare = [share[point, "LWS"] for point in plain if point[0] == "t = 5 s"]
    once = ("t = 5 s", most, 1.0, 1.0)
    by_factor = ", ".join(
        f"{share[('t = 1 s', most, factor, 0.0), 'LWS']:.0f} % with costs × {factor:g}" for factor in FACTORS
    )
    slow = ("t = 1 s", most, FACTORS[-1], 0.0)
    return [
        Claim(
            "ttu-none",
            "TTU aborts no query",
            "0 %",
            f"{ttu:.1f} % at the most",
            ttu == 0,
            "a query meets few movements, and has not read the oldest sub-windows by then; "
            f"{share[slow, 'TTU']:.1f} % also if reading costs {FACTORS[-1]:g} times as much",
        ),
        Claim(
            "lws-half",
            f"LWS aborts more than half of the queries over {most} sub-windows of 1 s",
            "> 50 %",
            f"{frequent[-1]:.0f} %",
            frequent[-1] > 50,
            f"it depends on how long a scan takes: {by_factor}",
        ),
        Claim(
            "lws-frequent",
            "LWS aborts more where the window slides more often",
            "yes",
            f"{frequent[-1]:.0f} % at 1 s, {rare[-1]:.0f} % at 5 s",
            all(often > seldom for often, seldom in zip(frequent, rare, strict=True)),
        ),
        Claim(
            "lws-longer",
            "LWS aborts more, the more sub-windows there are",
            "yes",
            f"{frequent[0]:.0f} to {frequent[-1]:.0f} % and {rare[0]:.0f} to {rare[-1]:.0f} %",
            all(a <= b for shares in (frequent, rare) for a, b in pairwise(shares)),
            "percent from the fewest to the most: "
            + "; ".join(", ".join(f"{share:.1f}" for share in shares) for shares in (frequent, rare))
            + " (each number of sub-windows has queries of its own)",
        ),
        Claim(
            "ttu-one-time",
            "TTU aborts none beside one-time queries, either",
            "0 %",
            f"{share[once, 'TTU']:.1f} %",
            share[once, "TTU"] == 0,
            f"LWS aborts {share[once, 'LWS']:.0f} % of all queries then",
        ),
    ]


def draw(result: Result, path: Path) -> None:
    rows = [row for row in result.table if row["costs ×"] == 1.0 and not row["one-time /s"]]
    panels = []
    for case in dict.fromkeys(str(row["case"]) for row in rows):
        lines = {
            name: [
                (float(row["sub-windows"] or 0), float(row[f"{name} aborts %"] or 0))
                for row in rows
                if row["case"] == case
            ]
            for name in _POLICIES
        }
        panels.append(Panel(case, "sub-windows", "aborted (%)", lines, is_log_x=False, is_log_y=False))
    draw_lines(f"Queries aborted while the window slides ({result.scale})", panels, path)
