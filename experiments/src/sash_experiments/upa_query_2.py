"""upa-query-2: duplicate elimination on a link (002, section 3.6.3, figures 3.10 to 3.13).

The different source addresses of a window (about 2,000) and the different pairs of source and destination
(ten times as many). UPA uses δ*, which keeps output; NT and DIRECT keep the window and count, so here they
differ in nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sash_experiments.measure import Measured, Pace, Variant
from sash_experiments.result import Claim, Note, Result, silent
from sash_experiments.strategies import VIEW, query_text, variant
from sash_experiments.sweep import (
    SCALES,
    Point,
    Seen,
    Sizes,
    by_step,
    draw_sweep,
    ratio,
    same_results,
    sweep,
    table,
)
from sash_experiments.traffic import Link, packets

NAME = "upa-query-2"
TITLE = "different sources, and pairs, on a link by UPA, NT and DIRECT (002, figures 3.10 to 3.13)"

STRATEGIES = ("UPA", "NT", "DIRECT")
SOURCES, PAIRS = "sources", "pairs"
_COLUMNS = {SOURCES: "src", PAIRS: "src, dst"}


def select(window: int, case: str) -> str:
    return f"SELECT DISTINCT {_COLUMNS[case]} FROM link1 [RANGE {window} SEC]"


def variants(point: Point, pace: Pace) -> dict[str, Variant]:
    streams = {"link1": packets(Link(), pace.units, 1)}
    chosen = select(point.window, point.case)
    return {
        name: variant(name, lambda strategy: query_text(streams, chosen, strategy), streams, point.top)
        for name in STRATEGIES
    }


def measure(scale: str, note: Note = silent) -> Result:
    return measure_at(SCALES[scale], scale, note)


def measure_at(sizes: Sizes, scale: str, note: Note = silent) -> Result:
    seen = sweep((SOURCES, PAIRS), (SOURCES, PAIRS), sizes, variants, note)
    return Result(NAME, TITLE, scale, table(seen, "negative", "looked at"), _claims(seen, sizes))


def _claims(seen: Seen, sizes: Sizes) -> list[Claim]:
    few = Point(SOURCES, VIEW, sizes.largest, sizes.step)
    many = few._replace(case=PAIRS)
    sources, pairs = seen[few], seen[many]
    over_nt, over_direct = ratio(seen, few, "NT", "UPA"), ratio(seen, few, "DIRECT", "UPA")
    pairs_nt, pairs_direct = ratio(seen, many, "NT", "UPA"), ratio(seen, many, "DIRECT", "NT")
    rows = {case: _rows(each) for case, each in ((SOURCES, sources), (PAIRS, pairs))}
    fewer = {case: each["NT"] / each["UPA"] for case, each in rows.items()}
    smaller = {
        case: (each["NT"].state_bytes - each["NT"].result_bytes)
        / (each["UPA"].state_bytes - each["UPA"].result_bytes)
        for case, each in ((SOURCES, sources), (PAIRS, pairs))
    }
    return [
        Claim(
            "sources-upa",
            "few results: UPA is an order of magnitude faster than NT and DIRECT",
            "≈ 10 ×",
            f"NT {over_nt:.2f} ×, DIRECT {over_direct:.2f} ×",
            min(over_nt, over_direct) >= 5,
            f"NT passes {sources['NT'].moved / sources['UPA'].moved:.1f} × as many rows between operators, "
            "but no "
            f"strategy searches: a value is found by a hash; {by_step(seen, few, sizes, 'NT', 'UPA')}",
        ),
        Claim(
            "pairs-upa",
            "many results: UPA is about twice as fast as NT",
            "≈ 2 ×",
            f"{pairs_nt:.2f} ×",
            pairs_nt >= 1.5,
            f"NT passes {pairs['NT'].moved / pairs['UPA'].moved:.1f} × as many rows between operators; "
            + by_step(seen, many, sizes, "NT", "UPA"),
        ),
        Claim(
            "pairs-direct",
            "many results: DIRECT is slow",
            "slower than NT",
            f"DIRECT takes {pairs_direct:.2f} × as long as NT",
            pairs_direct >= 1.5,
            f"both run the same operators here, which count and never scan the result: DIRECT looks at "
            f"{pairs['DIRECT'].looked_at:,.0f} rows of it",
        ),
        Claim(
            "sources-space",
            "few results: UPA needs up to two orders of magnitude less space",
            "up to 100 ×",
            f"{fewer[SOURCES]:.0f} × fewer rows, {smaller[SOURCES]:.0f} × fewer bytes",
            fewer[SOURCES] >= 30,
            f"for {sources['UPA'].results:,} results of a window of {sizes.largest:,} time units δ* holds "
            f"{rows[SOURCES]['UPA']:,} rows and NT {rows[SOURCES]['NT']:,}: the ratio is that of the window "
            "to "
            "the result and grows with the window",
        ),
        Claim(
            "pairs-space",
            "many results: UPA still needs far less space",
            "significantly less",
            f"{fewer[PAIRS]:.1f} × fewer rows, {smaller[PAIRS]:.1f} × fewer bytes",
            min(fewer[PAIRS], smaller[PAIRS]) >= 2,
            f"for {pairs['UPA'].results:,} results δ* holds {rows[PAIRS]['UPA']:,} rows and NT "
            f"{rows[PAIRS]['NT']:,}",
        ),
        same_results(seen),
    ]


def _rows(strategies: Mapping[str, Measured]) -> dict[str, int]:
    """What the operators hold, without the stored result, which is the same for all."""
    return {name: measured.state_rows - measured.results for name, measured in strategies.items()}


def draw(result: Result, path: Path) -> None:
    columns = (("view ms", "time", "ms per 1,000 tuples"), ("rows", "space", "rows held"))
    draw_sweep("Query 2: duplicate elimination", result, path, columns)
