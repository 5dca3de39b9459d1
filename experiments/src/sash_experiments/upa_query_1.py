"""upa-query-1: the join of two links under the strategies of chapter 3 (002, section 3.6.2, figures 3.8 and
3.9).

Two links are joined on the source address, of ftp packets (few results) and of telnet packets (ten times as
many). Results of a join leave in another order than they come (WK): the experiment is about the buffer that
finds them.
"""

from __future__ import annotations

from pathlib import Path

from sash_experiments.measure import Pace, Variant
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

NAME = "upa-query-1"
TITLE = "a join of two links by UPA, NT and DIRECT (002, figures 3.8 and 3.9)"

STRATEGIES = ("UPA", "UPA(10)", "UPA(50)", "NT", "DIRECT")
FTP, TELNET = "ftp", "telnet"
_LINKS = ("link1", "link2")


def select(window: int, predicate: str) -> str:
    return (
        "SELECT link1.src, link1.dst, link1.length, link2.dst AS other_dst, link2.length AS other_length "
        f"FROM link1 [RANGE {window} SEC], link2 [RANGE {window} SEC] "
        f"WHERE link1.src = link2.src AND link1.proto = '{predicate}' AND link2.proto = '{predicate}'"
    )


def variants(point: Point, pace: Pace) -> dict[str, Variant]:
    streams = {name: packets(Link(), pace.units, seed) for seed, name in enumerate(_LINKS, 1)}
    chosen = select(point.window, point.case)
    return {
        name: variant(name, lambda strategy: query_text(_LINKS, chosen, strategy), streams, point.top)
        for name in STRATEGIES
    }


def measure(scale: str, note: Note = silent) -> Result:
    return measure_at(SCALES[scale], scale, note)


def measure_at(sizes: Sizes, scale: str, note: Note = silent) -> Result:
    seen = sweep((FTP, TELNET), (TELNET,), sizes, variants, note)
    return Result(NAME, TITLE, scale, table(seen, "rows"), _claims(seen, sizes))


def _claims(seen: Seen, sizes: Sizes) -> list[Claim]:
    few = Point(FTP, VIEW, sizes.largest, sizes.step)
    many = few._replace(case=TELNET)
    ftp, telnet = seen[few], seen[many]
    over_nt, over_direct = ratio(seen, few, "NT", "UPA"), ratio(seen, few, "DIRECT", "UPA")
    slowest = max((name for name in STRATEGIES if name != "DIRECT"), key=lambda name: telnet[name].time)
    worst = ratio(seen, many, "DIRECT", slowest)
    tens = ratio(seen, many, "UPA(10)", "UPA(50)")
    tens_small = ratio(seen, many._replace(window=sizes.smallest), "UPA(10)", "UPA(50)")
    order = ratio(seen, many, "NT", "UPA(50)")
    following = telnet["UPA"].time / min(telnet["UPA(10)"].time, telnet["UPA(50)"].time)
    return [
        Claim(
            "ftp-upa",
            "few results: UPA is nearly twice as fast as NT and as DIRECT where windows are large",
            "≈ 2 ×",
            f"NT {over_nt:.2f} ×, DIRECT {over_direct:.2f} ×",
            min(over_nt, over_direct) >= 1.5,
            f"for 1,000 tuples NT passes {ftp['NT'].moved:,.0f} rows between operators and UPA "
            f"{ftp['UPA'].moved:,.0f}; DIRECT looks at {ftp['DIRECT'].looked_at:,.0f} rows of the result to "
            "find "
            f"what has expired and UPA at {ftp['UPA'].looked_at:,.0f}, but DIRECT reads an array from end "
            "to end, "
            f"and once in {sizes.step} time units instead of once a tuple",
        ),
        Claim(
            "ftp-direct-nt",
            "few results: DIRECT is faster than NT",
            "yes",
            f"NT takes {ratio(seen, few, 'NT', 'DIRECT'):.2f} × as long",
            ratio(seen, few, "NT", "DIRECT") > 1,
            f"scanning {ftp['DIRECT'].results:,} results against {ftp['NT'].negative:,.0f} negative tuples "
            "for 1,000 tuples",
        ),
        Claim(
            "telnet-direct",
            "many results: DIRECT is by far the slowest",
            "slowest",
            f"{worst:.2f} × the slowest other, {slowest}",
            worst > 1,
            f"for 1,000 tuples it looks at {telnet['DIRECT'].looked_at:,.0f} rows, where NT passes "
            f"{telnet['NT'].moved:,.0f} between operators; {by_step(seen, many, sizes, 'DIRECT', slowest)}",
        ),
        Claim(
            "telnet-ten-pages",
            "many results: ten pages do well in small windows and become slow in large ones",
            "very slow",
            f"UPA(10) takes {tens_small:.2f} × as long as UPA(50) at {sizes.smallest:,} "
            f"and {tens:.2f} × at {sizes.largest:,}",
            tens >= 1.5 and tens > tens_small,
            f"of {telnet['UPA'].results:,} results UPA(10) looks at {telnet['UPA(10)'].looked_at:,.0f} for "
            "1,000 "
            f"tuples, UPA(50) at {telnet['UPA(50)'].looked_at:,.0f}, UPA at {telnet['UPA'].looked_at:,.0f}; "
            + by_step(seen, many, sizes, "UPA(10)", "UPA(50)"),
        ),
        Claim(
            "telnet-fifty-pages",
            "many results: UPA(50) is up to an order of magnitude faster than NT",
            "up to 10 ×",
            f"{order:.2f} ×; UPA {ratio(seen, many, 'NT', 'UPA'):.2f} ×",
            order >= 5,
            f"NT passes {telnet['NT'].moved / telnet['UPA(50)'].moved:.1f} × as many rows, and its negative "
            "tuples "
            f"find their rows by an index instead of a search; {by_step(seen, many, sizes, 'NT', 'UPA(50)')}",
        ),
        Claim(
            "pages-follow",
            "many results: pages that follow the number of rows do as well as the better of ten and fifty",
            "≤ 1.1 × (ours)",
            f"{following:.2f} ×",
            following <= 1.1,
        ),
        same_results(seen),
    ]


def draw(result: Result, path: Path) -> None:
    draw_sweep("Query 1: join of two links", result, path)
