"""index-queries: windowed histograms and intersections with and without value indexes (003, 7.2.2 and 7.2.3,
figures 9 and 10).

At every slide a histogram in order of values is asked of one window, or the values that two windows have in
common. Times are per tuple, of maintenance and questions together.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from sash.indexes.g_index import GIndex
from sash.indexes.group_storage import GroupStorage
from sash.indexes.h_index import HIndex
from sash.indexes.list_storage import ListStorage
from sash.indexes.t_index import TIndex
from sash.indexes.value_index import ValueIndex
from sash.indexes.value_window import ValueWindow
from sash_experiments.charts import Panel, draw_lines
from sash_experiments.index_maintenance import INDEXES, STORAGES, Sizes, mean, ranges
from sash_experiments.index_windows import (
    INT,
    UNIFORM,
    Input,
    Setting,
    Slide,
    Unindexed,
    UnindexedAggr,
    filled,
    input_of,
    race,
)
from sash_experiments.result import Cell, Claim, Note, Result, silent

NAME = "index-queries"
TITLE = "windowed histograms and intersections with value indexes (003, figures 9 and 10)"
ASKED = ("L", "T", "H", "T+", "H+")
SCALES = {"small": Sizes(round_tuples=4_000), "paper": Sizes(round_tuples=100_000, rounds=1)}
Times = dict[Setting, dict[str, float]]


def measure(scale: str, note: Note = silent) -> Result:
    return measure_at(SCALES[scale], scale, note)


def measure_at(sizes: Sizes, scale: str, note: Note = silent) -> Result:
    settings = [
        Setting(UNIFORM, values, count, sizes.tuples)
        for values, count in itertools.product(sizes.values, sizes.basic_windows)
    ]
    histograms: Times = {}
    intersections: Times = {}
    for done, setting in enumerate(settings):
        note(f"{setting.values} values, {setting.basic_windows} basic windows", done / len(settings))
        given = input_of(setting, sizes.round_tuples, sizes.rounds)
        histograms[setting] = race(_histograms(setting, given), given)
        intersections[setting] = race(_intersections(setting, given), given)
    table = _table(histograms, intersections)
    return Result(NAME, TITLE, scale, table, [*_claims(histograms), *_more_claims(intersections)])


def _histograms(setting: Setting, given: Input) -> dict[str, Slide]:
    plain, merged = Unindexed(given.fill), UnindexedAggr(given.fill)
    variants: dict[str, Slide] = {
        "none/LIST": _then(plain.slide, plain.histogram),
        "none/AGGR": _then(merged.slide, merged.histogram),
    }
    for index, storage in itertools.product(ASKED, STORAGES):
        window = filled(setting, INDEXES[index](), STORAGES[storage](), given.fill)
        variants[f"{index}/{storage}"] = _then(window.slide, window.histogram)
    groups = filled(setting, ranges(setting, 50), GroupStorage(), given.fill)
    variants["G(50)/GROUP"] = _then(groups.slide, groups.histogram)
    return variants


def _then(slide: Slide, ask: Callable[[], object]) -> Slide:
    def both(values: pa.Array) -> object:
        slide(values)
        return ask()

    return both


def _intersections(setting: Setting, given: Input) -> dict[str, Slide]:
    """Both windows slide by the same tuples in turn; the second one's values are shifted by half of all."""
    indexes: dict[str, ValueIndex] = {
        "T+/LIST": TIndex(INT, sides=2),
        "H+/LIST": HIndex(INT, sides=2),
        "G(10)/GROUP": ranges(setting, 10, sides=2),
        "G(50)/GROUP": ranges(setting, 50, sides=2),
    }
    variants: dict[str, Slide] = {}
    for name, index in indexes.items():
        storage = GroupStorage() if isinstance(index, GIndex) else ListStorage()
        left = filled(setting, index, storage, given.fill, side=0)
        right = filled(setting, index, storage, [_shifted(each, setting) for each in given.fill], side=1)
        variants[name] = _both(left, right, setting)
    first, second = Unindexed(given.fill), Unindexed([_shifted(each, setting) for each in given.fill])

    def rescan(values: pa.Array) -> object:
        first.slide(values)
        second.slide(_shifted(values, setting))
        return np.intersect1d(first.window(), second.window())

    variants["none/LIST"] = rescan
    return variants


def _both(left: ValueWindow, right: ValueWindow, setting: Setting) -> Slide:
    def slide(values: pa.Array) -> object:
        left.slide(values)
        right.slide(_shifted(values, setting))
        return left.intersect(right)

    return slide


def _shifted(values: pa.Array, setting: Setting) -> pa.Array:
    return pa.array(values.to_numpy() + setting.values // 2)


def _table(histograms: Times, intersections: Times) -> list[dict[str, Cell]]:
    rows: list[dict[str, Cell]] = []
    for query, times in (("histogram", histograms), ("intersection", intersections)):
        for setting, found in times.items():
            for storage in dict.fromkeys(name.split("/")[1] for name in found):
                row: dict[str, Cell] = {
                    "query": query,
                    "D": setting.values,
                    "n": setting.basic_windows,
                    "storage": storage,
                }
                for index in (*ASKED, "G(10)", "G(50)", "none"):
                    row[index] = found.get(f"{index}/{storage}")
                rows.append(row)
    return rows


def _claims(times: Times) -> list[Claim]:
    many = max(setting.values for setting in times)
    over_t = {
        index: mean([found[f"{index}/{s}"] / found[f"T/{s}"] for found in times.values() for s in STORAGES])
        for index in ASKED
    }
    rescans = {
        index: [found["none/LIST"] / found[f"{index}/LIST"] for found in times.values()]
        for index in ("T+", "H+")
    }
    grouped = [found["none/LIST"] / found["G(50)/GROUP"] for found in times.values()]
    few = min(setting.basic_windows for setting in times)
    (case,) = (found for s, found in times.items() if (s.values, s.basic_windows) == (many, few))
    merged = {index: case[f"{index}/AGGR"] / case["none/AGGR"] for index in ("L", "T", "H")}
    return [
        Claim(
            "tree-wins",
            "histograms: the T-INDEX wins, closely followed by H; L is the slowest with many values",
            "yes",
            ", ".join(f"{index} {ratio:.2f} ×" for index, ratio in over_t.items()) + " the time of T",
            over_t["L"] > 1 and over_t["H"] > 1,
            "H has to sort its values for an answer in order",
        ),
        Claim(
            "rescan",
            "any index is orders of magnitude better than sorting the window again",
            "several orders",
            ", ".join(
                f"{index}: {min(ratios):.1f} to {max(ratios):.0f} ×" for index, ratios in rescans.items()
            ),
            min(min(ratios) for ratios in rescans.values()) >= 10,
            "NumPy sorts 100,000 integers in a millisecond or two, and here a histogram of D values is "
            "written out at every slide (published: a pointer to its first element)",
        ),
        Claim(
            "groups-than-none",
            "with a question a slide, a G-INDEX of 50 groups is cheaper than no index",
            "yes",
            f"no index takes {min(grouped):.0f} to {max(grouped):.0f} × as long",
            min(grouped) > 1,
        ),
        Claim(
            "merge-beats-list",
            f"merging AGGR without an index beats an L-INDEX with {many:,} values and few basic windows, and "
            "neither T nor H",
            "L takes 1.4 × as long",
            f"L takes {merged['L']:.1f} ×, T {merged['T']:.2f} ×, H {merged['H']:.2f} × as long",
            merged["L"] > 1 > max(merged["T"], merged["H"]),
        ),
    ]


def _more_claims(times: Times) -> list[Claim]:
    gains = [min(found["T+/LIST"], found["H+/LIST"]) / found["G(50)/GROUP"] for found in times.values()]
    rescans = [found["none/LIST"] / min(found["T+/LIST"], found["H+/LIST"]) for found in times.values()]
    counts = sorted({setting.basic_windows for setting in times})
    few, often = (
        mean([found["G(50)/GROUP"] for setting, found in times.items() if setting.basic_windows == count])
        for count in (counts[0], counts[-1])
    )
    return [
        Claim(
            "groups-intersect",
            "intersections: ranges that occur in both windows come dramatically cheaper than values",
            "yes",
            f"the better of T and H takes {min(gains):.1f} to {max(gains):.0f} × as long as 50 groups",
            min(gains) > 1.5,
            f"an intersection by values writes out up to {max(s.values for s in times) // 2:,} of them",
        ),
        Claim(
            "intersect-rescan",
            "intersections from an index are cheaper than reading both windows again",
            "yes",
            f"{min(rescans):.1f} to {max(rescans):.0f} ×",
            min(rescans) > 1,
        ),
        Claim(
            "groups-grow",
            "with G the cost grows with the number of basic windows",
            "yes",
            f"{few:.3f} µs a tuple with {counts[0]} basic windows, {often:.3f} with {counts[-1]}",
            often > few,
        ),
    ]


def draw(result: Result, path: Path) -> None:
    panels = []
    sizes = list(dict.fromkeys(row["D"] for row in result.table))
    for query, values in itertools.product(("histogram", "intersection"), sizes):
        lines: dict[str, list[tuple[float, float]]] = {}
        for row in result.table:
            if (row["query"], row["D"]) == (query, values) and row["storage"] in ("LIST", "GROUP"):
                for name in (*ASKED, "G(10)", "G(50)", "none"):
                    value = row[name]
                    if value is not None:
                        place = (float(row["n"] or 0), float(value))
                        lines.setdefault(f"{name}/{row['storage']}", []).append(place)
        panels.append(Panel(f"{query}, {values} values", "basic windows", "µs per tuple", lines))
    draw_lines(f"Questions to value indexes ({result.scale})", panels, path)
