"""archive-rates: what fluctuating rates cost (002, section 4.4.4 and figure 4.8; 000, section 5.4 and
figure 13).

The same number of tuples comes at a constant rate, at one that varies by up to a factor of four, and, for the
randomised allocation of 002, section 4.3.3, at one that alternates, which is the worst case of round-robin.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sash_experiments.archive_data import ALTERNATING, CONSTANT, FLUCTUATING, SPEC, Feed
from sash_experiments.archive_measure import Entrant, Measured, Variant, drive_all
from sash_experiments.charts import draw_bars
from sash_experiments.result import Cell, Claim, Note, Result, silent

NAME = "archive-rates"
TITLE = "updates under fluctuating and alternating rates (002, figure 4.8 and section 4.3.3; 000, figure 13)"
SCALES = {
    "small": Feed(10_000, updates=18),
    "medium": Feed(500_000, updates=9),
    "paper": Feed(5_000_000, updates=6),
}

_DOUBLE, _WAVES = ("rebuild", "norebuild"), ("r-ins", "d-ins")
_VARIANTS = tuple(Variant(technique, (side, side)) for side in (2, 4) for technique in (*_DOUBLE, *_WAVES))
_ORDERS = (Variant("rebuild", (4, 4)), Variant("random-rebuild", (4, 4)))


def measure(scale: str, note: Note = silent) -> Result:
    return measure_at(SCALES[scale], scale, note)


def measure_at(feed: Feed, scale: str, note: Note = silent) -> Result:
    steady, varying, swinging = (
        replace(feed, rate=rate).batches for rate in (CONSTANT, FLUCTUATING, ALTERNATING)
    )
    parties = [
        [Entrant(variant, updates) for updates in (steady, varying)]
        for variant in sorted(_VARIANTS, key=lambda each: (each.n, not each.reclusters))
    ]
    parties.append([Entrant(variant, swinging) for variant in _ORDERS])
    seen = drive_all(parties, SPEC, feed.live, note, scans=False)
    calm = {variant.name: seen[Entrant(variant, steady)] for variant in _VARIANTS}
    wild = {variant.name: seen[Entrant(variant, varying)] for variant in _VARIANTS}
    orders = {variant.name: seen[Entrant(variant, swinging)] for variant in _ORDERS}
    table: list[dict[str, Cell]] = [
        {
            "index": name,
            "rate": FLUCTUATING,
            "constant ms": calm[name].update,
            "update ms": measured.update,
            "increase": measured.update / calm[name].update - 1,
            "constant MB": calm[name].megabytes,
            "MB moved": measured.megabytes,
            "balance": measured.balance,
        }
        for name, measured in wild.items()
    ]
    for name, measured in orders.items():
        row: dict[str, Cell] = {"index": name, "rate": ALTERNATING, "constant ms": None, "increase": None}
        row |= {"update ms": measured.update, "constant MB": None, "MB moved": measured.megabytes}
        table.append({column: {**row, "balance": measured.balance}[column] for column in table[0]})
    return Result(NAME, TITLE, scale, table, _claims(calm, wild, orders))


def _claims(calm: dict[str, Measured], wild: dict[str, Measured], orders: dict[str, Measured]) -> list[Claim]:
    def increase(technique: str, side: int) -> float:
        name = Variant(technique, (side, side)).name
        return 100 * (wild[name].update / calm[name].update - 1)

    def moved(technique: str, side: int) -> float:
        name = Variant(technique, (side, side)).name
        return 100 * (wild[name].megabytes / calm[name].megabytes - 1)

    def words(names: tuple[str, ...]) -> str:
        return ", ".join(
            f"{name} {increase(name, side):+.0f} % at {side * side}" for name in names for side in (2, 4)
        )

    double = [increase(name, side) for name in _DOUBLE for side in (2, 4)]
    waves = [increase(name, side) for name in _WAVES for side in (2, 4)]
    robin, chance = (orders[variant.name] for variant in _ORDERS)
    return [
        Claim(
            "waves-suffer",
            "fluctuating rates hurt wave indexes more than doubly partitioned ones",
            "more",
            f"{words(_WAVES)}; {words(_DOUBLE)}",
            # Updates that are faster on average are not hurt.
            sum(waves) / len(waves) > max(0.0, sum(double) / len(double)) + 2,
            "bytes moved by an update change by "
            + ", ".join(f"{moved(name, 4):+.0f} % ({name})" for name in (*_WAVES, *_DOUBLE))
            + " at 16: a wave index that re-clusters rewrites all of its rows, however they are spread",
        ),
        Claim(
            "random",
            "where the rate alternates, random allocation keeps sub-indices of more equal sizes",
            "smaller variance",
            f"largest to average {chance.balance:.2f} against {robin.balance:.2f}",
            chance.variance < robin.variance,
            f"variance of their rows {chance.variance:,.0f} against {robin.variance:,.0f}",
        ),
    ]


def draw(result: Result, path: Path) -> None:
    rows = [row for row in result.table if row["rate"] == FLUCTUATING]
    bars = {
        "constant": [float(row["constant ms"] or 0) for row in rows],
        "fluctuating": [float(row["update ms"] or 0) for row in rows],
    }
    names = [str(row["index"]) for row in rows]
    draw_bars(f"Updates at constant and fluctuating rates ({result.scale})", "ms", names, bars, path)
