"""archive-grid: how to divide a number of sub-indices (002, figure 4.4; 000, figure 9).

With 16 sub-indices an update touches G + E − 1: seven of 4x4, nine of 2x8 and of 8x2.
"""

from __future__ import annotations

from pathlib import Path

from sash_experiments.archive_data import SPEC, Feed
from sash_experiments.archive_measure import Entrant, Measured, Variant, drive_all, less, same_rows, table_of
from sash_experiments.charts import draw_bars
from sash_experiments.result import Claim, Note, Result, shown, silent

NAME = "archive-grid"
TITLE = "updates, probes and scans of Rebuild 4x4, 2x8 and 8x2 (002, figure 4.4; 000, figure 9)"
SCALES = {
    "small": Feed(50_000, updates=18),
    "medium": Feed(500_000, updates=9),
    "paper": Feed(5_000_000, updates=9),
}

_VARIANTS = tuple(Variant("rebuild", grid) for grid in ((4, 4), (2, 8), (8, 2)))


def measure(scale: str, note: Note = silent) -> Result:
    return measure_at(SCALES[scale], scale, note)


def measure_at(feed: Feed, scale: str, note: Note = silent) -> Result:
    updates = feed.batches
    driven = drive_all([[Entrant(variant, updates) for variant in _VARIANTS]], SPEC, feed.live, note)
    seen = {entrant.variant.name: measured for entrant, measured in driven.items()}
    return Result(NAME, TITLE, scale, table_of(seen), _claims(seen))


def _claims(seen: dict[str, Measured]) -> list[Claim]:
    square, wide, tall = (seen[variant.name] for variant in _VARIANTS)
    other = min(wide.update, tall.update)
    probes, scans = ([getattr(each, what) for each in (square, wide, tall)] for what in ("probe", "scan"))
    moved = (
        f"it moves {shown(square.megabytes)} MB an update against {shown(wide.megabytes)} and "
        f"{shown(tall.megabytes)}"
    )
    return [
        Claim(
            "square",
            "4x4 is updated about a fifth faster than 2x8 and 8x2",
            "≈ 20 %",
            f"{less(wide.update, square.update)} than 2x8, {less(tall.update, square.update)} than 8x2",
            square.update < 0.9 * other,
            f"{moved}, touches {square.touched:.0f} sub-indices against {wide.touched:.0f}",
        ),
        Claim(
            "tall",
            "8x2 is updated faster than 2x8: insertion into buckets ordered by expiration costs most",
            "8x2 < 2x8",
            f"{shown(tall.update)} ms against {shown(wide.update)} ms",
            tall.update < wide.update,
            f"they move {shown(tall.megabytes)} and {shown(wide.megabytes)} MB, and a sub-index is sorted as "
            "a whole, whatever is inserted: no difference is to be expected",
        ),
        Claim(
            "access",
            "probes and scans hardly differ",
            "negligible",
            f"probes {', '.join(map(shown, probes))} ms; scans {', '.join(map(shown, scans))} ms",
            max(probes) < 1.2 * min(probes) and max(scans) < 1.2 * min(scans),
            f"all have 16 sub-indices and {shown(square.stored)}, {shown(wide.stored)} and "
            f"{shown(tall.stored)} MB to read",
        ),
        same_rows(seen),
    ]


def draw(result: Result, path: Path) -> None:
    columns = ("update ms", "probe ms", "scan ms")
    best = {column: min(float(row[column] or 0) for row in result.table) for column in columns}
    bars = {
        str(row["index"]): [float(row[column] or 0) / best[column] for column in columns]
        for row in result.table
    }
    draw_bars(
        f"Sixteen sub-indices ({result.scale})", "times the least", ["update", "probe", "scan"], bars, path
    )
