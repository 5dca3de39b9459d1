"""index-maintenance: what it costs to keep value indexes up to date (003, section 7.2.1, figures 7 and 8).

Windows of 100,000 tuples slide by basic windows; nothing is asked. H and UH have 100 buckets and HASH has
five, as published; "H+" and "HASH+" have as many buckets as values or tuples, and "T+" has a hash directory
beside its tree, as windows of Sash have them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from sash.indexes.aggr_storage import AggrStorage
from sash.indexes.g_index import GIndex
from sash.indexes.group_storage import GroupStorage
from sash.indexes.h_index import HIndex
from sash.indexes.hash_storage import HashStorage
from sash.indexes.l_index import LIndex
from sash.indexes.list_storage import ListStorage
from sash.indexes.storage import BasicWindowStorage
from sash.indexes.t_index import TIndex
from sash.indexes.uh_index import UHIndex
from sash.indexes.value_index import ValueIndex
from sash_experiments.charts import draw_bars
from sash_experiments.index_windows import (
    INT,
    POWER_LAW,
    UNIFORM,
    Input,
    Setting,
    Slide,
    Unindexed,
    filled,
    input_of,
    race,
    repeats,
)
from sash_experiments.result import Cell, Claim, Note, Result, silent

NAME = "index-maintenance"
TITLE = "maintenance of value indexes over LIST, AGGR, HASH and GROUP (003, figures 7 and 8)"
BUCKETS, LOCAL_BUCKETS = 100, 5
GROWN = "H+"

STORAGES: Mapping[str, Callable[[], BasicWindowStorage]] = {
    "LIST": ListStorage,
    "AGGR": AggrStorage,
    "HASH": lambda: HashStorage(LOCAL_BUCKETS),
    "HASH+": HashStorage,
}
INDEXES: Mapping[str, Callable[[], ValueIndex]] = {
    "L": lambda: LIndex(INT),
    "T": lambda: TIndex(INT, has_directory=False),
    "H": lambda: HIndex(INT, buckets=BUCKETS),
    "UH": lambda: UHIndex(INT, buckets=BUCKETS),
    "T+": lambda: TIndex(INT),
    GROWN: lambda: HIndex(INT),
}
Times = dict[Setting, dict[str, float]]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Tuples of a window, those of a round, rounds."""

    tuples: int = 100_000
    round_tuples: int = 6_000
    rounds: int = 3
    basic_windows: tuple[int, ...] = (50, 100, 500)
    values: tuple[int, ...] = (1_000, 10_000)


SCALES = {"small": Sizes(), "paper": Sizes(round_tuples=100_000, rounds=1)}


def measure(scale: str, note: Note = silent) -> Result:
    return measure_at(SCALES[scale], scale, note)


def measure_at(sizes: Sizes, scale: str, note: Note = silent) -> Result:
    settings = [
        Setting(distribution, values, count, sizes.tuples)
        for distribution, values, count in itertools.product(
            (UNIFORM, POWER_LAW), sizes.values, sizes.basic_windows
        )
    ]
    times: Times = {}
    for done, setting in enumerate(settings):
        note(f"{setting.distribution}, {setting.values} values", done / len(settings))
        given = input_of(setting, sizes.round_tuples, sizes.rounds)
        times[setting] = race(_variants(setting, given), given)
    return Result(NAME, TITLE, scale, _table(times), _claims(times))


def _variants(setting: Setting, given: Input) -> dict[str, Slide]:
    variants: dict[str, Slide] = {"none": Unindexed(given.fill).slide}
    for storage, index in itertools.product(STORAGES, INDEXES):
        variants[f"{index}/{storage}"] = filled(
            setting, INDEXES[index](), STORAGES[storage](), given.fill
        ).slide
    for groups in (10, 50):
        variants[f"G({groups})/GROUP"] = filled(
            setting, ranges(setting, groups), GroupStorage(), given.fill
        ).slide
    return variants


def ranges(setting: Setting, groups: int, *, sides: int = 1) -> GIndex:
    """Ranges of equal width."""
    bounds = np.linspace(0, setting.values, groups + 1)[1:-1].astype(np.int64)
    return GIndex(INT, groups=groups, bounds=pa.array(bounds), sides=sides)


def _table(times: Times) -> list[dict[str, Cell]]:
    rows: list[dict[str, Cell]] = []
    others = {"none": "none", "G(10)": "G(10)/GROUP", "G(50)": "G(50)/GROUP"}
    for setting, found in times.items():
        for storage in STORAGES:
            row: dict[str, Cell] = {
                "drawn": setting.distribution,
                "D": setting.values,
                "n": setting.basic_windows,
                "b/d": repeats(setting),
                "storage": storage,
            }
            row |= {index: found[f"{index}/{storage}"] for index in INDEXES}
            row |= {name: found[key] if storage == "LIST" else None for name, key in others.items()}
            rows.append(row)
    return rows


def mean(ratios: list[float]) -> float:
    """The geometric one."""
    return math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))


def _claims(times: Times) -> list[Claim]:
    over_t = {
        index: [found[f"{index}/{s}"] / found[f"T/{s}"] for found in times.values() for s in STORAGES]
        for index in INDEXES
    }
    many = max(setting.values for setting in times)
    slow = [found["L/LIST"] / found["T/LIST"] for setting, found in times.items() if setting.values == many]
    return [
        Claim(
            "list-slowest",
            "the L-INDEX is by far the slowest",
            "yes",
            f"{min(slow):.0f} to {max(slow):.0f} × T over LIST with {many:,} values; "
            f"{mean(over_t['L']):.0f} × over all",
            min(slow) > 2 and mean(over_t["L"]) > 2 * max(mean(over_t[index]) for index in ("T", "H", "UH")),
            "a list is passed to its middle for each tuple, or each value of a basic window",
        ),
        Claim(
            "tree-best",
            "the T-INDEX is the best overall, the H-INDEX close",
            "yes",
            f"H takes {mean(over_t['H']):.2f} ×, UH {mean(over_t['UH']):.2f} ×, with grown buckets H+ "
            f"{mean(over_t[GROWN]):.2f} ×, with a directory T+ {mean(over_t['T+']):.2f} × the time of T",
            min(mean(over_t["H"]), mean(over_t["UH"])) > 1,
            f"with {BUCKETS} buckets a value stands among {many // BUCKETS} others if there are {many:,}; "
            "where buckets grow with the values hashing finds one at once, and the tree does not",
        ),
        _repetition(times),
        _unsorted(times, many),
        *_grouped(times),
    ]


def _repetition(times: Times) -> Claim:
    """How much faster than LIST storages are, by whether values repeat within a basic window."""
    rare = [found for setting, found in times.items() if repeats(setting) < 1.3]
    often = [found for setting, found in times.items() if repeats(setting) >= 2]

    def gain(storage: str, cases: list[dict[str, float]]) -> float:
        return mean([case[f"{i}/LIST"] / case[f"{i}/{storage}"] for case in cases for i in ("T", "H", GROWN)])

    gains = {
        storage: (gain(storage, often), gain(storage, rare)) for storage in STORAGES if storage != "LIST"
    }
    return Claim(
        "repetition",
        "AGGR and HASH pay only where values repeat within a basic window",
        "yes",
        "; ".join(
            f"{storage} is {more:.2f} × as fast as LIST with b/d of 2 or more, {less:.2f} × below 1.3"
            for storage, (more, less) in gains.items()
        ),
        all(more > 1 > less for more, less in gains.values()),
        "AGGR sorts a basic window at once here, and meets the nodes of the index in order; HASH with five "
        "buckets passes a tenth of the values of its basic window for each tuple, with grown ones (HASH+) "
        "one or two",
    )


def _unsorted(times: Times, many: int) -> Claim:
    ratios = {
        values: mean(
            [
                found["UH/LIST"] / found["H/LIST"]
                for setting, found in times.items()
                if setting.values == values and setting.distribution == UNIFORM
            ]
        )
        for values in sorted({setting.values for setting in times})
    }
    return Claim(
        "unsorted-buckets",
        f"UH is slow with {many:,} values, and like H with fewer",
        "yes",
        ", ".join(f"{ratio:.2f} × H with {values:,} values" for values, ratio in ratios.items()),
        ratios[many] > 1.2 and abs(ratios[min(ratios)] - 1) < 0.3,
        "a value that is in the index is found halfway, in order or not; only one that is new passes the "
        "whole bucket, and few are",
    )


def _grouped(times: Times) -> list[Claim]:
    over_none = [found["G(50)/GROUP"] / found["none"] for found in times.values()]
    under_tree = [found["T/LIST"] / found["G(50)/GROUP"] for found in times.values()]
    nothing = mean([found["none"] for found in times.values()])
    return [
        Claim(
            "groups-than-tree",
            "a G-INDEX of 50 groups is cheaper to maintain than a T-INDEX",
            "yes",
            f"T takes {mean(under_tree):.1f} × as long ({min(under_tree):.1f} to {max(under_tree):.1f})",
            min(under_tree) > 1,
            "the smaller a basic window, the more weighs what a slide costs anyway",
        ),
        Claim(
            "groups-than-none",
            "a G-INDEX of 50 groups is cheaper to maintain than a window without an index",
            "yes",
            f"it takes {mean(over_none):.1f} × as long",
            max(over_none) < 1,
            f"a basic window without an index is one copy of an array here ({nothing:.3f} µs a tuple), not "
            "an object a tuple; index-queries asks these windows something",
        ),
    ]


def draw(result: Result, path: Path) -> None:
    rows = [row for row in result.table if row["drawn"] == UNIFORM and row["n"] in (50, 500)]
    groups = [f"{row['storage']}\nD {row['D']:,}\nn {row['n']}" for row in rows]
    bars = {index: [float(row[index] or 0) for row in rows] for index in INDEXES}
    title = f"Maintenance of value indexes, uniform values ({result.scale})"
    draw_bars(title, "µs per tuple", groups, bars, path, is_log=True)
