"""archive-counts: results of windows of rows, whose expirations are guessed (000, section 5.7 and figure 17).

The rate varies by up to a factor of four. A result stores the position of its oldest part, and its
expiration is guessed from the rate at which tuples came when it was made. An update looks for what has
expired in the interval before, its own, and the one after.
"""

from __future__ import annotations

from pathlib import Path

from sash_experiments.archive_data import COUNT_SPEC, FLUCTUATING, Feed
from sash_experiments.archive_measure import (
    Entrant,
    Measured,
    Variant,
    drive_all,
    parties_of,
    same_rows,
    table_of,
)
from sash_experiments.charts import draw_bars
from sash_experiments.result import Claim, Note, Result, shown, silent

NAME = "archive-counts"
TITLE = "updates of results of windows of rows (000, figure 17)"
SCALES = {
    "small": Feed(15_000, FLUCTUATING, 18),
    "medium": Feed(500_000, FLUCTUATING, 9),
    "paper": Feed(5_000_000, FLUCTUATING, 6),
}
_GRIDS = ((2, 2), (4, 4), (8, 2), (2, 8))
# A technique that re-clusters comes with the same one that appends.
_VARIANTS = (
    *(Variant(name, grid) for grid in _GRIDS for name in ("countrebuild", "countnorebuild")),
    *(Variant(name, (side, side)) for side in (2, 4) for name in ("rebuild", "norebuild", "r-ins", "d-ins")),
)


def measure(scale: str, note: Note = silent) -> Result:
    return measure_at(SCALES[scale], scale, note)


def measure_at(feed: Feed, scale: str, note: Note = silent) -> Result:
    updates = feed.counted
    driven = drive_all(parties_of(_VARIANTS, updates), COUNT_SPEC, feed.live, note)
    seen = {variant.name: driven[Entrant(variant, updates)] for variant in _VARIANTS}
    return Result(NAME, TITLE, scale, table_of(seen), _claims(seen))


def _claims(seen: dict[str, Measured]) -> list[Claim]:
    def at(technique: str, *grid: int) -> Measured:
        return seen[Variant(technique, (grid[0], grid[1])).name]

    best = min(seen, key=lambda name: seen[name].update)
    re_clustering = [variant.name for variant in _VARIANTS if variant.reclusters]
    best_rebuild = min(re_clustering, key=lambda name: seen[name].update)
    gain = {side: at("rebuild", side, side).update / at("countrebuild", side, side).update for side in (2, 4)}
    return [
        Claim(
            "best",
            "CountRebuild and CountNoRebuild are updated fastest",
            "both",
            f"of those that re-cluster {best_rebuild}, of all {best}",
            best_rebuild.startswith("count") and best.startswith("count"),
            f"touched: countrebuild {at('countrebuild', 4, 4).touched:.1f}, rebuild "
            f"{at('rebuild', 4, 4).touched:.1f}, R-ins {at('r-ins', 4, 4).touched:.0f} of 16; moved "
            f"{shown(at('countrebuild', 4, 4).megabytes)}, {shown(at('rebuild', 4, 4).megabytes)} and "
            f"{shown(at('r-ins', 4, 4).megabytes)} MB",
        ),
        Claim(
            "square",
            "4x4 is updated faster than 8x2, and 2x8 is slower still",
            "4x4 < 8x2 < 2x8",
            ", ".join(
                f"{g}x{e} {shown(at('countrebuild', g, e).update)} ms" for g, e in ((4, 4), (8, 2), (2, 8))
            ),
            at("countrebuild", 4, 4).update
            < at("countrebuild", 8, 2).update
            < at("countrebuild", 2, 8).update,
            "they move "
            + ", ".join(shown(at("countrebuild", g, e).megabytes) for g, e in ((4, 4), (8, 2), (2, 8)))
            + " MB an update",
        ),
        Claim(
            "few",
            "chronological expiration helps 2x2 more than 4x4",
            "the gain over Rebuild diminishes",
            f"{gain[2]:.2f} × at 4, {gain[4]:.2f} × at 16",
            gain[2] > max(1.0, gain[4]),
            f"of four sub-indices Rebuild touches {at('rebuild', 2, 2).touched:.1f} and CountRebuild "
            f"{at('countrebuild', 2, 2).touched:.1f}, of sixteen {at('rebuild', 4, 4).touched:.1f} and "
            f"{at('countrebuild', 4, 4).touched:.1f}",
        ),
        same_rows(seen),
    ]


def draw(result: Result, path: Path) -> None:
    spent = {row["index"]: float(row["update ms"] or 0) for row in result.table}
    bars = {
        "re-clusters": [spent[variant.name] for variant in _VARIANTS if variant.reclusters],
        "appends": [spent[variant.name] for variant in _VARIANTS if not variant.reclusters],
    }
    pairs = {"countrebuild": "Count", "rebuild": "round-robin", "r-ins": "wave index"}
    groups = [
        f"{pairs[variant.technique]}\n{variant.grid[0]}x{variant.grid[1]}"
        if variant.technique != "r-ins"
        else f"{pairs[variant.technique]}\n{variant.n}"
        for variant in _VARIANTS
        if variant.reclusters
    ]
    draw_bars(f"Updates of results of windows of rows ({result.scale})", "ms", groups, bars, path)
