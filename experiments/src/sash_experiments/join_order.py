"""join-order: four orders of a join of four streams, by eight algorithms (002, section 5.4.2, figure 5.2).

The orders are the best, two that the heuristic of 5.3.2 considers, and the worst. Times are normalised to the
best order, next to the cost that `plan/cost` predicts. Windows hold what `four_streams.py` says.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sash.plan.cost import join_cost, order_windows
from sash_experiments.charts import draw_bars
from sash_experiments.four_streams import LENGTH, Algorithm, FourStreams, join_variant
from sash_experiments.measure import Measured, compare
from sash_experiments.result import Cell, Claim, Note, Result, silent

NAME = "join-order"
TITLE = "four orders of a four-way join by eight algorithms, against the predicted cost (002, figure 5.2)"

Order = tuple[int, ...]
BEST: Order = (1, 0, 2, 3)
_DELTA = 10
Seen = dict[tuple[int, bool, Algorithm], dict[Order, Measured]]
"""By the factor of the rates, whether hashed, and algorithm."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """`times` are the factors of rates and values that are tried; a round has `units` time units."""

    times: tuple[int, ...]
    rounds: int
    units: int = 10


SCALES = {"small": Sizes((1, 10), 5), "paper": Sizes((1, 10, 30), 5)}


def orders() -> tuple[Order, ...]:
    """The best, the fast stream on top, by selectivity alone, and the worst."""
    windows = FourStreams(1, 0).windows()
    worst = max(itertools.permutations(range(4)), key=lambda order: join_cost(windows, order))
    return (BEST, (0, 1, 2, 3), (1, 2, 3, 0), worst)


def named(order: Order) -> str:
    return " ".join(f"S{i + 1}" for i in order)


def predicted(order: Order, *, is_hashed: bool) -> float:
    """The cost of an order, that of the best being one."""
    windows = FourStreams(1, 0).windows()
    return join_cost(windows, order, is_hashed=is_hashed) / join_cost(windows, BEST, is_hashed=is_hashed)


def measure(scale: str, note: Note = silent) -> Result:
    return measure_at(SCALES[scale], scale, note)


def measure_at(sizes: Sizes, scale: str, note: Note = silent) -> Result:
    cases = list(itertools.product(sizes.times, (False, True), Algorithm))
    seen: Seen = {}
    for done, (times, is_hashed, algorithm) in enumerate(cases):
        note(f"{_title(is_hashed, algorithm)}, rates × {times}", done / len(cases))
        streams = FourStreams(times, LENGTH + (sizes.rounds + 2) * sizes.units)
        tables = streams.tables()
        variants = {
            order: join_variant(streams, tables, order, algorithm, _DELTA, is_hashed=is_hashed)
            for order in orders()
        }
        found = compare({named(o): v for o, v in variants.items()}, streams.pace(sizes.units, sizes.rounds))
        seen[times, is_hashed, algorithm] = {order: found[named(order)] for order in variants}
    return Result(NAME, TITLE, scale, _table(seen), _claims(seen, sizes))


def _title(is_hashed: bool, algorithm: Algorithm) -> str:
    return f"{algorithm.value}{' hashed' if is_hashed else ''}"


def _table(seen: Seen) -> list[dict[str, Cell]]:
    rows: list[dict[str, Cell]] = []
    for is_hashed in (False, True):
        rows.append(
            {
                "algorithm": f"predicted{' hashed' if is_hashed else ''}",
                "times": None,
                **{named(order): predicted(order, is_hashed=is_hashed) for order in orders()},
                "best ms": None,
                "results": None,
            }
        )
    for (times, is_hashed, algorithm), found in seen.items():
        rows.append(
            {
                "algorithm": _title(is_hashed, algorithm),
                "times": times,
                **{named(order): each.time / found[BEST].time for order, each in found.items()},
                "best ms": found[BEST].time,
                "results": round(found[BEST].given),
            }
        )
    return rows


def _claims(seen: Seen, sizes: Sizes) -> list[Claim]:
    largest = max(sizes.times)
    windows = FourStreams(1, 0).windows()
    chosen = order_windows(windows).order
    worst = orders()[-1]
    eager = seen[largest, False, Algorithm.EAGER]
    ranks = {_title(False, algorithm): _ranked(seen[largest, False, algorithm]) for algorithm in Algorithm}
    in_order = [name for name, ranked in ranks.items() if ranked == list(orders())]
    spread = {
        (is_hashed, algorithm): _spread(seen[largest, is_hashed, algorithm], worst)
        for is_hashed in (False, True)
        for algorithm in Algorithm
    }
    below = all(value < predicted(worst, is_hashed=False) for value in spread.values())
    closest = max(Algorithm, key=lambda algorithm: spread[False, algorithm])
    flat = max(spread[True, algorithm] for algorithm in Algorithm)
    steep = min(spread[False, algorithm] for algorithm in Algorithm)
    first = _spread(seen[min(sizes.times), False, Algorithm.EAGER], worst)
    counts = {round(m.given) for m in eager.values()}
    return [
        Claim(
            "heuristic",
            "the heuristic chooses the best order",
            named(BEST),
            named(chosen),
            chosen == BEST and _ranked(eager)[0] == BEST,
            f"of the four orders {named(_ranked(eager)[0])} is the fastest with eager nested loops",
        ),
        Claim(
            "ranking",
            "with nested loops the four orders rank as predicted for every algorithm",
            "yes",
            f"for {len(in_order)} of {len(ranks)} algorithms",
            len(in_order) == len(ranks),
        ),
        Claim(
            "smaller-differences",
            "the orders differ less than predicted, because insertion and expiration cost the same in all",
            f"less than {predicted(worst, is_hashed=False):.1f} ×",
            f"eager nested loops: {spread[False, Algorithm.EAGER]:.1f} × with rates × {largest}, "
            f"{first:.1f} × with rates × {min(sizes.times)}",
            below,
            "a call costs the same in every order, and so do the results, "
            f"{eager[BEST].given:,.0f} for 1,000 tuples",
        ),
        Claim(
            "closest",
            "eager evaluation with lazy expiration comes closest to the prediction",
            Algorithm.EAGER_LAZY_EXPIRATION.value,
            f"{closest.value}: {spread[False, closest]:.1f} ×",
            closest is Algorithm.EAGER_LAZY_EXPIRATION,
            ", ".join(f"{a.value} {spread[False, a]:.1f} ×" for a in Algorithm),
        ),
        Claim(
            "hashed-flat",
            "hashed joins differ less between the orders",
            "yes",
            f"at most {flat:.1f} × hashed, at least {steep:.1f} × with nested loops",
            flat < steep,
            f"predicted with a bucket for each value: {predicted(worst, is_hashed=True):.1f} ×",
        ),
        Claim(
            "same-results",
            "all orders give equally many results",
            "yes",
            f"{len(counts)} different count{'s' if len(counts) > 1 else ''}",
            len(counts) == 1,
        ),
    ]


def _ranked(found: Mapping[Order, Measured]) -> list[Order]:
    return sorted(found, key=lambda order: found[order].time)


def _spread(found: Mapping[Order, Measured], worst: Order) -> float:
    return found[worst].time / found[BEST].time


def draw(result: Result, path: Path) -> None:
    largest = max(int(row["times"] or 0) for row in result.table)
    rows = [row for row in result.table if row["times"] in (None, largest)]
    groups = [str(row["algorithm"]).replace(", ", ",\n").replace(" hashed", "\nhashed") for row in rows]
    bars = {named(order): [float(row[named(order)] or 0) for row in rows] for order in orders()}
    title = f"Join orders, rates × {largest} ({result.scale})"
    draw_bars(title, "time, best order = 1", groups, bars, path)
