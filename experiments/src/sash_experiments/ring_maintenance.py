"""ring-maintenance: rings that find tuples, maintained and read (003, section 7.3, figure 11).

Windows of 100,000 tuples of two attributes; RING, AUX, BW and DB on an L-INDEX, as published, and on a
T-INDEX. The query sorts the window by the first attribute and gives the second. Deletion is timed by
itself, as well.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from sash.indexes.aux_ring import AuxRing
from sash.indexes.backward_ring import BackwardRing
from sash.indexes.dirty_ring import DirtyRing
from sash.indexes.h_index import HIndex
from sash.indexes.l_index import LIndex
from sash.indexes.purging import Purging
from sash.indexes.ring import Ring
from sash.indexes.rings import Rings
from sash.indexes.t_index import TIndex
from sash.indexes.tuple_window import TupleWindow
from sash.indexes.value_index import ValueIndex
from sash.indexes.value_window import Upkeep
from sash_experiments.charts import draw_bars
from sash_experiments.index_maintenance import mean
from sash_experiments.index_windows import INT, UNIFORM, Input, Ints, Setting, Slide, input_of, race
from sash_experiments.result import Cell, Claim, Note, Result, silent

NAME = "ring-maintenance"
TITLE = "ring indexes: deletion, maintenance, and a sorted window (003, figure 11)"
RINGS: Mapping[str, Callable[[], Rings]] = {"RING": Ring, "AUX": AuxRing, "BW": BackwardRing, "DB": DirtyRing}
INDEXES: Mapping[str, Callable[[], ValueIndex]] = {
    "L": lambda: LIndex(INT),
    "T": lambda: TIndex(INT, has_directory=False),
}
PARTS = ("deletion", "maintenance", "with query")


@dataclass(frozen=True, slots=True)
class Sizes:
    """Tuples of a window, those of a round, rounds."""

    tuples: int = 100_000
    round_tuples: int = 4_000
    rounds: int = 3
    basic_windows: tuple[int, ...] = (50, 100, 500)
    values: tuple[int, ...] = (1_000, 10_000)


SCALES = {"small": Sizes(), "paper": Sizes(round_tuples=100_000, rounds=1)}
Times = dict[Setting, dict[tuple[str, str, str], float]]
"""By setting; then by part, rings and index: microseconds per tuple."""


def measure(scale: str, note: Note = silent) -> Result:
    return measure_at(SCALES[scale], scale, note)


def measure_at(sizes: Sizes, scale: str, note: Note = silent) -> Result:
    settings = [
        Setting(UNIFORM, values, count, sizes.tuples)
        for values, count in itertools.product(sizes.values, sizes.basic_windows)
    ]
    times: Times = {}
    for done, setting in enumerate(settings):
        note(f"{setting.values} values, {setting.basic_windows} basic windows", done / len(settings))
        given = input_of(setting, sizes.round_tuples, sizes.rounds)
        times[setting] = _measured(setting, given)
    return Result(NAME, TITLE, scale, _table(times), _claims(times))


def _measured(setting: Setting, given: Input) -> dict[tuple[str, str, str], float]:
    variants: dict[str, Slide] = {}
    windows: dict[tuple[str, str], TupleWindow] = {}
    for rings, index in itertools.product(RINGS, INDEXES):
        window = windows[rings, index] = _filled(setting, RINGS[rings](), INDEXES[index](), given)
        variants[f"maintenance/{rings}/{index}"] = window.slide
        asked = _filled(setting, RINGS[rings](), INDEXES[index](), given)
        variants[f"with query/{rings}/{index}"] = _sorting(asked, setting, given)
    raced = race(variants, given)
    found = {
        (part, rings, index): time_
        for name, time_ in raced.items()
        for part, rings, index in [name.split("/")]
    }
    for (rings, index), window in windows.items():
        found["deletion", rings, index] = _deletion(window, given)
    return found


def _filled(setting: Setting, rings: Rings, index: ValueIndex, given: Input) -> TupleWindow:
    """A full window. It is filled in one go, by a state of another one."""
    quick = TupleWindow(HIndex(INT), DirtyRing(), setting.basic_windows)
    for values in given.fill:
        quick.slide(values)
    upkeep = Upkeep(index, Purging(tuples=max(1, setting.tuples // 5)))
    window = TupleWindow(index, rings, setting.basic_windows, upkeep=upkeep)
    window.restore(quick.snapshot())
    return window


def _sorting(window: TupleWindow, setting: Setting, given: Input) -> Slide:
    """After each slide the second attribute of all tuples, in order of the first."""
    tuples = setting.tuples + sum(len(values) for slides in given.rounds for values in slides)
    second: Ints = np.random.Generator(np.random.Philox(key=7)).integers(0, 1000, tuples)

    def slide(values: pa.Array) -> object:
        window.slide(values)
        return second[window.sorted_positions()]

    return slide


def _deletion(window: TupleWindow, given: Input) -> float:
    """Basic windows leave and nothing comes, until a few are gone."""
    count = max(2, len(given.rounds[0]))
    before = len(window)
    began = time.process_time()
    for _ in range(count):
        window.expire()
    spent = time.process_time() - began
    return 1e6 * spent / (before - len(window))


def _table(times: Times) -> list[dict[str, Cell]]:
    rows: list[dict[str, Cell]] = []
    for (setting, found), index, part in itertools.product(times.items(), INDEXES, PARTS):
        row: dict[str, Cell] = {
            "D": setting.values,
            "n": setting.basic_windows,
            "index": index,
            "part": part,
        }
        row |= {rings: found[part, rings, index] for rings in RINGS}
        rows.append(row)
    return rows


def _claims(times: Times) -> list[Claim]:
    def ratios(part: str, index: str, slower: str, faster: str) -> list[float]:
        return [found[part, slower, index] / found[part, faster, index] for found in times.values()]

    orders = {
        index: [mean(ratios("maintenance", index, rings, "DB")) for rings in ("BW", "AUX", "RING")]
        for index in INDEXES
    }
    few = min(setting.values for setting in times)
    deleted = {
        rings: mean(
            [
                f["deletion", rings, "T"] / f["deletion", "DB", "T"]
                for s, f in times.items()
                if s.values == few
            ]
        )
        for rings in ("BW", "AUX", "RING")
    }
    ring = mean(ratios("maintenance", "T", "RING", "AUX"))
    by_values = {
        values: mean(
            [
                found["maintenance", "RING", "T"] / found["maintenance", "AUX", "T"]
                for setting, found in times.items()
                if setting.values == values
            ]
        )
        for values in sorted({setting.values for setting in times})
    }
    total = mean(ratios("with query", "T", "BW", "DB"))
    return [
        *(
            Claim(
                f"order-on-{index}",
                f"maintenance on a {index}-INDEX: DB is cheaper than BW, BW than AUX, AUX than RING",
                "yes" if index == "L" else "the same factors as on L",
                f"BW {bw:.2f} ×, AUX {aux:.2f} ×, RING {plain:.2f} × DB",
                1 < bw < aux < plain,
                "finding values hides the rings, as published"
                if index == "L"
                else "RING takes "
                + ", ".join(
                    f"{ratio:.2f} × AUX with {values:,} values" for values, ratio in by_values.items()
                )
                + ": where rings are short, the auxiliary index costs as much as following them",
            )
            for index, (bw, aux, plain) in orders.items()
        ),
        Claim(
            "deletion",
            f"deleting tuples: DB first, then BW, then AUX, above all with {few:,} values",
            "yes",
            ", ".join(f"{rings} {ratio:.1f} ×" for rings, ratio in deleted.items()) + " DB (on T)",
            1 < deleted["BW"] < deleted["AUX"],
        ),
        Claim(
            "ring-worst",
            "the ring index is at least an order of magnitude dearer to maintain than the others",
            "yes",
            f"{ring:.1f} × AUX on T",
            ring >= 10,
            "it follows a ring of N/D tuples for each tuple that comes and each that goes; AUX does for each "
            "that goes, too, and for each value of a basic window",
        ),
        Claim(
            "with-query",
            "with the sorting query DB is faster than BW by a small margin",
            "yes",
            f"BW takes {total:.2f} × as long on T",
            1 < total < 1.5,
        ),
    ]


def draw(result: Result, path: Path) -> None:
    rows = [row for row in result.table if row["index"] == "T"]
    groups = [f"{row['part']}\nD {row['D']:,}\nn {row['n']}" for row in rows]
    bars = {rings: [float(row[rings] or 0) for row in rows] for rings in RINGS}
    draw_bars(f"Rings on a T-INDEX ({result.scale})", "µs per tuple", groups, bars, path, is_log=True)
