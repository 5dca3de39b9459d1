"""archive-techniques: all techniques over the number of sub-indices (002, figures 4.5 to 4.7 and 4.9 to
4.11; 000,
figures 10 to 12 and 14 to 16).

The published experiments have two sizes, 500 MB and 5 GB: here they are the scales medium and paper.
"""

from __future__ import annotations

from pathlib import Path

from sash_experiments.archive_data import SPEC, Feed
from sash_experiments.archive_measure import (
    Entrant,
    Measured,
    Variant,
    draw_over_n,
    drive_all,
    less,
    parties_of,
    same_rows,
)
from sash_experiments.result import Claim, Note, Result, shown, silent

NAME = "archive-techniques"
TITLE = "techniques by the number of sub-indices (002, figures 4.5–4.7, 4.9–4.11; 000, figures 10–12, 14–16)"
SCALES = {
    "small": Feed(10_000, updates=18),
    "medium": Feed(500_000, updates=9),
    "paper": Feed(5_000_000, updates=9),
}

_SIDES = (2, 3, 4, 5)
_DOUBLE = ("rebuild", "norebuild", "lazyrebuild", "lazynorebuild", "chr-rebuild", "chr-norebuild")
_WAVES = ("r-ins", "d-ins", "wata")

Seen = dict[Variant, Measured]


def variants() -> list[Variant]:
    """All of them, but for lazy ones of 2x2, which may be twice as large as the others."""
    return [
        Variant(technique, (side, side))
        for side in _SIDES
        for technique in (*_DOUBLE, *_WAVES)
        if side > 2 or not technique.startswith("lazy")
    ]


def measure(scale: str, note: Note = silent) -> Result:
    return measure_at(SCALES[scale], variants(), scale, note)


def measure_at(feed: Feed, chosen: list[Variant], scale: str, note: Note = silent) -> Result:
    updates = feed.batches
    driven = drive_all(parties_of(chosen, updates), SPEC, feed.live, note)
    seen = {variant: driven[Entrant(variant, updates)] for variant in chosen}
    table = [
        {"n": variant.n, "technique": variant.technique, **measured.cells()}
        for variant, measured in seen.items()
    ]
    return Result(NAME, TITLE, scale, table, _claims(seen))


def _claims(seen: Seen) -> list[Claim]:
    sides = sorted({variant.grid[0] for variant in seen})
    most, four = sides[-1], 4 if 4 in sides else sides[-1]

    def at(technique: str, side: int) -> Measured:
        return seen[Variant(technique, (side, side))]

    def ratios(slow: str, fast: str, what: str = "update") -> dict[int, float]:
        return {side: getattr(at(slow, side), what) / getattr(at(fast, side), what) for side in sides}

    def listed(values: dict[int, float]) -> str:
        return ", ".join(f"{value:.2f} at {side * side}" for side, value in values.items())

    rebuild, no_rebuild = ratios("r-ins", "rebuild"), ratios("d-ins", "norebuild")
    chronological = ratios("r-ins", "chr-rebuild")
    robin = {side: 1 - 1 / value for side, value in ratios("chr-rebuild", "rebuild").items()}
    robin_appending = {side: 1 - 1 / value for side, value in ratios("chr-norebuild", "norebuild").items()}
    scans = ratios("rebuild", "rebuild", "scan")
    probing = {side: at("rebuild", side).scan / at("rebuild", side).probe for side in scans}
    updates = {name: at(name, four).update for name in (*_DOUBLE[:4], *_WAVES)}
    probes = {name: at(name, four).probe for name in _DOUBLE[:4]}
    order = sorted(updates, key=lambda name: updates[name])
    moved = {name: shown(at(name, most).megabytes) for name in ("r-ins", "rebuild", "d-ins", "norebuild")}

    def moves(one: str, other: str) -> str:
        """How many bytes one moves compared with the other."""
        return listed(ratios(one, other, "megabytes"))

    waves = (f"R-ins moves {moved['r-ins']} MB an update, Rebuild {moved['rebuild']}; D-ins "
             f"{moved['d-ins']}, NoRebuild {moved['norebuild']}, at n = {most * most}")  # fmt: skip
    return [
        Claim(
            "waves",
            "as n grows, doubly partitioned indexes are updated at least twice as fast as wave indexes",
            "≥ 2 × (500 MB), ≤ 3 × (5 GB)",
            f"Rebuild: {listed(rebuild)}; NoRebuild: {listed(no_rebuild)}",
            rebuild[most] >= 2 and no_rebuild[most] >= 2,
            f"{waves}. Those that append write new rows and leave what has died to readers and later "
            "merges, so the number of sub-indices in which rows die hardly matters to them",
        ),
        Claim(
            "chronological",
            "even chronological ones beat wave indexes by a factor of two as n grows",
            "2 ×",
            listed(chronological),
            chronological[most] >= 2,
        ),
        Claim(
            "round-robin",
            "round-robin updates are 10 to 20 % faster than chronological ones",
            "10–20 %",
            "Rebuild " + ", ".join(f"{100 * v:.0f} % at {s * s}" for s, v in robin.items()),
            all(value >= 0.08 for value in robin.values()),
            f"bytes moved, chronological ÷ round-robin: {moves('chr-rebuild', 'rebuild')}. NoRebuild "
            + ", ".join(f"{100 * v:.0f} % at {s * s}" for s, v in robin_appending.items())
            + f"; its bytes {moves('chr-norebuild', 'norebuild')}",
        ),
        Claim(
            "probes",
            "probes are two orders of magnitude faster than scans",
            "100 ×",
            ", ".join(f"{value:.0f} × at {side * side}" for side, value in probing.items()),
            max(probing.values()) >= 100,
            "a probe reads a hundredth of the rows, from every sub-index: "
            f"{at('rebuild', four).probe / (four * four):.2g} ms each at {four * four}",
        ),
        Claim(
            "lazy-updates",
            "lazy techniques are updated fastest",
            "LazyNoRebuild < LazyRebuild < NoRebuild < Rebuild",
            " < ".join(f"{name} {shown(updates[name])} ms" for name in order),
            order.index("lazynorebuild") == 0 and updates["lazyrebuild"] < updates["norebuild"],
            "files are not changed in place, so appending saves more than leaving a sub-index alone; "
            + ", ".join(f"{name} moves {shown(at(name, four).megabytes)} MB" for name in _DOUBLE[:4]),
        ),
        Claim(
            "lazy-probes",
            "lazy techniques are probed slowest",
            "Rebuild < NoRebuild < LazyRebuild < LazyNoRebuild",
            " < ".join(
                f"{name} {probes[name]:.3g} ms" for name in sorted(probes, key=lambda name: probes[name])
            ),
            max(probes, key=lambda name: probes[name]) == "lazynorebuild",
            "segments of a sub-index are looked into one by one",
        ),
        Claim(
            "no-rebuild",
            "NoRebuild is updated faster than Rebuild by up to 9 %, and probed slower by up to 3 %",
            "5–9 %, 2–3 %",
            f"{less(updates['rebuild'], updates['norebuild'])} faster, probes take "
            f"{probes['norebuild'] / probes['rebuild']:.2f} × as long",
            0.85 * updates["rebuild"] < updates["norebuild"] < updates["rebuild"]
            and probes["rebuild"] < probes["norebuild"] < 1.1 * probes["rebuild"],
            "the directions are those published, the differences are larger: files are not changed in place",
        ),
        same_rows({variant.name: measured for variant, measured in seen.items()}),
    ]


def draw(result: Result, path: Path) -> None:
    draw_over_n("Archives", result, path)
