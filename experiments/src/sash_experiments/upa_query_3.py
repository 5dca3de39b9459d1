"""upa-query-3: negation of two links (002, section 3.6.4, figure 3.14).

Packets of one link whose source has sent nothing on the other. A result leaves with its window, as foreseen,
or before its time when its source appears on the other link; sources are spread so that about 40 % do the
latter. Three ways to keep the result:

- `UPA`: a calendar queue finds what leaves as foreseen, and negative tuples take back only what leaves
  before;
- `UPA, all negative`: negation announces everything, as the planner decides above some share of premature
  ones;
- `NT`: negative tuples from the windows on.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from sash.operators.anti_join import AntiJoin
from sash.operators.build import build
from sash_experiments.drive import Feed, planned
from sash_experiments.measure import Measured, Pace, Variant
from sash_experiments.reshape import with_stored_view, without_announcer
from sash_experiments.result import Claim, Note, Result, silent
from sash_experiments.stored_view import CountingCalendarQueue
from sash_experiments.strategies import VIEW, query_text, variant
from sash_experiments.sweep import SCALES, Point, Seen, Sizes, draw_sweep, ratio, same_results, sweep, table
from sash_experiments.traffic import Link, packets

NAME = "upa-query-3"
TITLE = "a negation of two links by UPA and NT (002, figure 3.14)"

UPA, ALL_NEGATIVE, NT = "UPA", "UPA, all negative", "NT"
NEGATION = "negation"
# With as many sources as a window has packets, this share in common gives about 40 % premature expirations.
SHARED = 0.85


def select(window: int) -> str:
    return (
        f"SELECT link1.src, link1.dst, link1.length FROM link1 [RANGE {window} SEC] WHERE NOT EXISTS "
        f"(SELECT * FROM link2 [RANGE {window} SEC] WHERE link2.src = link1.src)"
    )


def links(window: int, units: int) -> dict[str, pa.Table]:
    own = Link(sources=window, skew=0.0)
    other = Link(sources=window, first=round((1 - SHARED) * window), skew=0.0)
    return {"link1": packets(own, units, 1), "link2": packets(other, units, 2)}


def variants(point: Point, pace: Pace) -> dict[str, Variant]:
    streams = links(point.window, pace.units)
    # What the planner must know to see that many expirations are premature.
    statistics = f"rate = 1, distinct_src = {point.window}"

    def query(strategy: str) -> str:
        return query_text(streams, select(point.window), strategy, statistics)

    found = {NT: variant("NT", query, streams, point.top)}
    if point.top == VIEW:
        found[ALL_NEGATIVE] = variant("UPA", query, streams, point.top)
        found[UPA] = _foreseen(query("upa"), streams)
    else:
        found[UPA] = variant("UPA", query, streams, point.top)
    return found


def _foreseen(text: str, streams: Mapping[str, pa.Table]) -> Variant:
    """Negative tuples only for what leaves before its time."""
    plan = planned(text)
    flow = without_announcer(build(plan), AntiJoin)
    buffer = CountingCalendarQueue()
    return Variant(with_stored_view(flow, buffer, may_be_negative=True), Feed(plan, streams), [buffer])


def measure(scale: str, note: Note = silent) -> Result:
    return measure_at(SCALES[scale], scale, note)


def measure_at(sizes: Sizes, scale: str, note: Note = silent) -> Result:
    seen = sweep((NEGATION,), (NEGATION,), sizes, variants, note)
    rows = table(seen, "case", "looked at", "MB")
    for row in rows:
        point = Point(NEGATION, VIEW, int(row["window"] or 0), int(row["step"] or 0))
        row["premature"] = premature_share(seen[point])
    return Result(NAME, TITLE, scale, rows, _claims(seen, sizes))


def premature_share(strategies: Mapping[str, Measured]) -> float:
    """UPA has a negative tuple for each premature expiration, NT for each expiration."""
    return strategies[UPA].negative_of["AntiJoin"] / strategies[NT].negative_of["AntiJoin"]


def _claims(seen: Seen, sizes: Sizes) -> list[Claim]:
    points = [Point(NEGATION, VIEW, window, sizes.step) for window in sizes.windows]
    shares = [premature_share(seen[point]) for point in points]
    over = {point.window: ratio(seen, point, NT, UPA) for point in points}
    large = seen[points[-1]]
    trend = ", ".join(f"{value:.2f} × at {window:,}" for window, value in over.items())
    announced = ratio(seen, points[-1], ALL_NEGATIVE, UPA)
    return [
        Claim(
            "premature",
            "about 40 % of the expirations are premature",
            "≈ 40 %",
            f"{min(shares):.0%} to {max(shares):.0%}",
            all(0.35 <= share <= 0.45 for share in shares),
        ),
        Claim(
            "small-windows",
            "in small windows UPA is slightly faster than NT",
            "slightly",
            f"NT takes {over[sizes.smallest]:.2f} × as long at {sizes.smallest:,}",
            over[sizes.smallest] > 1,
        ),
        Claim(
            "large-windows",
            "in large windows UPA is slower than NT",
            "slower",
            f"NT takes {over[sizes.largest]:.2f} × as long at {sizes.largest:,}",
            over[sizes.largest] < 1,
            "a negative tuple finds its row by an index by value here, where the published one searches the "
            f"calendar queue; UPA passes {large[UPA].moved:,.0f} rows for 1,000 tuples and NT "
            f"{large[NT].moved:,.0f}; the result has {large[UPA].results:,} rows; NT takes {trend}",
        ),
        Claim(
            "announce",
            "negation that announces every departure is faster than the calendar queue at this share",
            "yes, above some share",
            f"it takes {announced:.2f} × as long",
            announced < 1,
            f"it passes {large[ALL_NEGATIVE].moved:,.0f} rows for 1,000 tuples instead of "
            f"{large[UPA].moved:,.0f} "
            f"and holds {large[ALL_NEGATIVE].state_rows:,} rows instead of {large[UPA].state_rows:,}: the "
            "operator "
            "that announces keeps the result once more",
        ),
        same_results(seen),
    ]


def draw(result: Result, path: Path) -> None:
    draw_sweep("Query 3: negation of two links", result, path)
