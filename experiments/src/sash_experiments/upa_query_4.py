"""upa-query-4: a negation and a join, in the two plans of figure 3.5 (002, section 3.6.5, figure 3.15).

Packets of link 1 whose source is not on link 2, joined with ftp packets of the same source on link 3. With
the negation above the join (up), UPA's join has inputs that expire as foreseen and only the result deals with
negative tuples; with the negation below (join up), the join has fewer rows to join and takes negative tuples
as well.

| plan            | negative tuples                             |
|-----------------|---------------------------------------------|
| NT(negation up) | from the windows on, through join, negation |
| NT(join up)     | from the windows on, through negation, join |
| UPA(negation up)| from the negation on                        |
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from sash.plan.rules.move_negation import pull_up_negation, push_down_negation
from sash_experiments.measure import Pace, Variant
from sash_experiments.result import Claim, Note, Result, silent
from sash_experiments.strategies import VIEW, query_text, variant
from sash_experiments.sweep import SCALES, Point, Seen, Sizes, draw_sweep, ratio, same_results, sweep, table
from sash_experiments.traffic import PROTOCOLS, Link, packets

NAME = "upa-query-4"
TITLE = "negation and join in both orders by UPA and NT (002, figure 3.15)"

NT_UP, NT_DOWN, UPA_UP = "NT(negation up)", "NT(join up)", "UPA(negation up)"
CASE = "both"
_SHARED = 0.85
# Sources of links 1 and 3 for a window of one: each packet of link 1 meets 1.4 ftp packets on link 3.
_SOURCES = 1 / 20


def select(window: int) -> str:
    return (
        "SELECT link1.src, link1.dst, link1.length, link3.dst AS other_dst "
        f"FROM link1 [RANGE {window} SEC], link3 [RANGE {window} SEC] "
        "WHERE link1.src = link3.src AND link3.proto = 'ftp' AND NOT EXISTS "
        f"(SELECT * FROM link2 [RANGE {window} SEC] WHERE link2.src = link1.src)"
    )


def links(window: int, units: int) -> dict[str, pa.Table]:
    """Link 2 has as many sources as a window has packets; 85 % of those of link 1 are among them."""
    sources = max(20, round(_SOURCES * window))
    own = Link(sources=sources, skew=0.0)
    other = Link(sources=window, first=round((1 - _SHARED) * sources), skew=0.0)
    return {
        "link1": packets(own, units, 1),
        "link2": packets(other, units, 2),
        "link3": packets(own, units, 3),
    }


def variants(point: Point, pace: Pace) -> dict[str, Variant]:
    streams = links(point.window, pace.units)
    statistics = f"rate = 1, distinct_src = {point.window}, selectivity_proto = {PROTOCOLS['ftp']}"

    def query(strategy: str) -> str:
        return query_text(streams, select(point.window), strategy, statistics)

    return {
        NT_UP: variant("NT", query, streams, point.top, shape=pull_up_negation),
        NT_DOWN: variant("NT", query, streams, point.top, shape=push_down_negation),
        UPA_UP: variant("UPA", query, streams, point.top, is_strict=True, shape=pull_up_negation),
    }


def measure(scale: str, note: Note = silent) -> Result:
    return measure_at(SCALES[scale], scale, note)


def measure_at(sizes: Sizes, scale: str, note: Note = silent) -> Result:
    seen = sweep((CASE,), (CASE,), sizes, variants, note)
    return Result(NAME, TITLE, scale, table(seen, "case", "looked at"), _claims(seen, sizes))


def _claims(seen: Seen, sizes: Sizes) -> list[Claim]:
    small = Point(CASE, VIEW, sizes.smallest, sizes.step)
    large = small._replace(window=sizes.largest)
    up, down, upa = (seen[large][name] for name in (NT_UP, NT_DOWN, UPA_UP))
    order = ratio(seen, large, NT_UP, NT_DOWN)
    best = min(up.time, down.time) / upa.time
    best_small = ratio(seen, small, UPA_UP, NT_DOWN)
    return [
        Claim(
            "join-up",
            "among the plans of NT the one with the join up is faster: negation keeps less than the join "
            "makes",
            "yes",
            f"NT(negation up) takes {order:.2f} × as long",
            order > 1,
            f"for 1,000 tuples NT(negation up) passes {up.moved:,.0f} rows between operators, NT(join up) "
            f"{down.moved:,.0f}",
        ),
        Claim(
            "upa-large",
            "in large windows UPA with the negation up is the fastest",
            "yes",
            f"the better of NT takes {best:.2f} × as long",
            best > 1,
            f"UPA has {upa.negative:,.0f} negative tuples for 1,000 tuples, NT(join up) "
            f"{down.negative:,.0f}; it "
            f"passes {upa.moved:,.0f} rows, NT(join up) {down.moved:,.0f}",
        ),
        Claim(
            "nt-small",
            "in small windows NT with the join up is the fastest",
            "yes",
            f"UPA takes {best_small:.2f} × as long as NT(join up) at {sizes.smallest:,}",
            best_small > 1,
            f"a step calls {len(_operators(NT_DOWN, small))} operators of NT(join up) and "
            f"{len(_operators(UPA_UP, small))} of UPA; for 1,000 tuples NT(join up) passes "
            f"{seen[small][NT_DOWN].moved:,.0f} rows between them and UPA {seen[small][UPA_UP].moved:,.0f}",
        ),
        same_results(seen),
    ]


def _operators(name: str, point: Point) -> list[str]:
    """The operators of a plan."""
    pace = Pace(point.window, point.step, point.step, rounds=1)
    flow = variants(point, pace)[name].flow
    return [type(vertex.operator).__name__ for vertex in flow.vertices if vertex.operator is not None]


def draw(result: Result, path: Path) -> None:
    draw_sweep("Query 4: negation and join", result, path)
