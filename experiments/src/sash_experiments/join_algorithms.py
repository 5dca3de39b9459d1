"""join-algorithms: eager and lazy joins as Δ grows (002, section 5.4.3, figures 5.3 and 5.4).

The four streams of table 5.5 in their best order, with nested loops and hashed. Δ is how often expired tuples
are removed for eager joins (0: at every call), and how often lazy joins are evaluated, in time units; windows
have 100. Published hash tables have two or five buckets; here every value has its own chain.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

from sash_experiments.charts import Panel, draw_lines
from sash_experiments.four_streams import LENGTH, Algorithm, FourStreams, join_variant
from sash_experiments.join_order import BEST
from sash_experiments.measure import Measured, compare
from sash_experiments.result import Cell, Claim, Note, Result, silent

NAME = "join-algorithms"
TITLE = "eager and lazy joins as Δ grows, nested loops and hashed (002, figures 5.3 and 5.4)"

EAGER, LAZY, LAZY_RESTORE = "eager", "lazy", "lazyR"
Seen = dict[bool, dict[tuple[str, int], Measured]]
"""By whether hashed; then by algorithm and Δ."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """`times` multiplies rates and values; a round has as many time units as the greatest Δ."""

    times: int
    deltas: tuple[int, ...]
    rounds: int


SCALES = {
    "small": Sizes(10, (1, 2, 5, 10, 20), 5),
    "paper": Sizes(30, (1, 2, 5, 10, 20), 5),
}


def measure(scale: str, note: Note = silent) -> Result:
    return measure_at(SCALES[scale], scale, note)


def measure_at(sizes: Sizes, scale: str, note: Note = silent) -> Result:
    units = max(sizes.deltas)
    streams = FourStreams(sizes.times, LENGTH + (sizes.rounds + 2) * units)
    tables = streams.tables()
    cases: list[tuple[str, int, Algorithm]] = [(EAGER, 0, Algorithm.EAGER)]
    for delta in sizes.deltas:
        cases.append((EAGER, delta, Algorithm.EAGER_LAZY_EXPIRATION))
        cases.append((LAZY, delta, Algorithm.LAZY))
        cases.append((LAZY_RESTORE, delta, Algorithm.LAZY_RESTORE))
    seen: Seen = {}
    for done, is_hashed in enumerate((False, True)):
        note("hashed" if is_hashed else "nested loops", done / 2)
        variants = {
            f"{name} {delta}": join_variant(streams, tables, BEST, algorithm, delta, is_hashed=is_hashed)
            for name, delta, algorithm in cases
        }
        found = compare(variants, streams.pace(units, sizes.rounds))
        seen[is_hashed] = {(name, delta): found[f"{name} {delta}"] for name, delta, _ in cases}
    return Result(NAME, TITLE, scale, _table(seen), _claims(seen, sizes))


def _table(seen: Seen) -> list[dict[str, Cell]]:
    rows: list[dict[str, Cell]] = []
    deltas = sorted({delta for found in seen.values() for _, delta in found})
    for is_hashed, delta in itertools.product(seen, deltas):
        found = seen[is_hashed]
        row: dict[str, Cell] = {"join": "hashed" if is_hashed else "nested loops", "Δ": delta}
        for name in (EAGER, LAZY, LAZY_RESTORE):
            row[f"{name} ms"] = found[name, delta].time if (name, delta) in found else None
        row["lost by lazy"] = lost(seen[is_hashed], delta) if delta else None
        rows.append(row)
    return rows


def lost(found: dict[tuple[str, int], Measured], delta: int) -> float:
    """The share of results that lazy evaluation without restore does not give."""
    return 1 - found[LAZY, delta].given / found[LAZY_RESTORE, delta].given


def _claims(seen: Seen, sizes: Sizes) -> list[Claim]:
    loops, hashed = seen[False], seen[True]
    least, most = min(sizes.deltas), max(sizes.deltas)
    middle = sizes.deltas[len(sizes.deltas) // 2]
    lazy_gain = {d: loops[EAGER, d].time / loops[LAZY, d].time for d in sizes.deltas}
    penalty = {d: loops[LAZY_RESTORE, d].time / loops[LAZY, d].time for d in sizes.deltas}
    eager_growth = loops[EAGER, most].time / loops[EAGER, 0].time
    lazy_fall = {name: loops[name, least].time / loops[name, most].time for name in (LAZY, LAZY_RESTORE)}
    hash_gain = {
        name: loops[name, middle].time / hashed[name, middle].time for name in (EAGER, LAZY, LAZY_RESTORE)
    }
    restored = max(hashed[LAZY_RESTORE, d].time / hashed[EAGER, d].time for d in sizes.deltas)
    return [
        Claim(
            "lazy-faster",
            "nested loops: lazy evaluation is faster than eager evaluation",
            "yes",
            _by_delta(lazy_gain, "eager takes"),
            min(lazy_gain.values()) > 1,
            f"with Δ = {most} it is called {most} times less often and gives {lost(loops, most):.0%} fewer "
            "results",
        ),
        Claim(
            "restore-costs",
            "nested loops: restoring what was born and died between evaluations costs noticeably",
            "yes",
            _by_delta(penalty, "lazyR takes"),
            min(penalty.values()) > 1.05,
            f"both compare times in the same kernel; at Δ = {middle} lazyR gives "
            f"{loops[LAZY_RESTORE, middle].given / loops[LAZY, middle].given - 1:.0%} more results",
        ),
        Claim(
            "eager-grows",
            "nested loops: eager evaluation becomes slower as expiration becomes rarer",
            "slower",
            f"{eager_growth:.2f} × from Δ = 0 to {most}",
            eager_growth > 1,
            f"expired tuples stay up to {most} of {LENGTH} time units longer and are looked at all that "
            "time; times "
            "are compared at every Δ here",
        ),
        Claim(
            "lazy-falls",
            "nested loops: both lazy algorithms become faster as Δ grows",
            "faster",
            ", ".join(f"{name} {value:.2f} ×" for name, value in lazy_fall.items())
            + f" from Δ = {least} to {most}",
            min(lazy_fall.values()) > 1,
            "each new tuple probes for itself here, also where others of its value are in the batch; with "
            f"Δ = {most} there are {most // least} times fewer calls",
        ),
        Claim(
            "hashed-faster",
            "hashing reduces the cost of every algorithm",
            "yes",
            ", ".join(f"{name} {value:.1f} ×" for name, value in hash_gain.items()) + f" at Δ = {middle}",
            min(hash_gain.values()) > 1,
        ),
        Claim(
            "restore-beats-eager",
            "hashed: lazy evaluation with restore is still faster than eager evaluation",
            "yes",
            f"it takes at most {restored:.2f} × as long",
            restored < 1,
        ),
    ]


def _by_delta(values: dict[int, float], what: str) -> str:
    return f"{what} " + ", ".join(f"{value:.2f} × at Δ = {delta}" for delta, value in values.items())


def draw(result: Result, path: Path) -> None:
    panels = []
    for join in ("nested loops", "hashed"):
        lines: dict[str, list[tuple[float, float]]] = {}
        for name in (EAGER, LAZY, LAZY_RESTORE):
            lines[name] = [
                (float(row["Δ"] or 0), float(row[f"{name} ms"] or 0))
                for row in result.table
                if row["join"] == join and row[f"{name} ms"] is not None
            ]
        panels.append(
            Panel(join, "Δ (time units)", "ms per 1,000 tuples", lines, is_log_x=False, is_log_y=False)
        )
    draw_lines(f"Join algorithms ({result.scale})", panels, path)
