"""index-speed: indexes that AUTO chooses against reading the window again.

Two questions. A window of a million tuples is refreshed every sub-window: MEDIAN and COUNT(DISTINCT) from
the chosen index, and by NumPy over the window, which sorts it once for both. And ten million tuples are
asked for the rows of one value, by the chosen rings and by comparing all values. Times are of the
processor.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from sash.errors import InternalError
from sash.indexes.build import tuple_window, value_window
from sash.indexes.tuple_window import TupleWindow
from sash.indexes.value_window import ValueWindow
from sash.plan.cost.indexes import IndexLoad, Question, choose_index
from sash_experiments.charts import draw_bars
from sash_experiments.index_windows import (
    INT,
    UNIFORM,
    Ints,
    Setting,
    Unindexed,
    input_of,
    race,
    refresh_settings,
    repeats,
)
from sash_experiments.result import Cell, Claim, Note, Result, silent

NAME = "index-speed"
TITLE = "a refreshed MEDIAN and COUNT(DISTINCT), and a probe by key, against reading the window again"
REFRESHED = frozenset({Question.QUANTILE, Question.COUNT_DISTINCT})


@dataclass(frozen=True, slots=True)
class Sizes:
    """Windows that are refreshed, by values and sub-windows; tuples and values of the one that is probed."""

    tuples: int = 1_000_000
    values: tuple[int, ...] = (1_000, 10_000, 100_000)
    sub_windows: tuple[int, ...] = (100, 1_000)
    slides: int = 6
    rounds: int = 4
    probed: int = 10_000_000
    keys: int = 100_000
    probes: int = 200


SCALES = {"small": Sizes(), "paper": Sizes(slides=50, rounds=10, probes=2_000)}


def measure(scale: str, note: Note = silent) -> Result:
    return measure_at(SCALES[scale], scale, note)


def measure_at(sizes: Sizes, scale: str, note: Note = silent) -> Result:
    rows: list[dict[str, Cell]] = []
    cases = list(refresh_settings(sizes.tuples, sizes.values, sizes.sub_windows))
    for done, setting in enumerate(cases):
        note(f"{setting.values} values, {setting.basic_windows} sub-windows", done / (len(cases) + 2))
        rows.append(_refreshed(setting, sizes))
    note("probes", len(cases) / (len(cases) + 2))
    rows.append(_probed(sizes))
    return Result(NAME, TITLE, scale, rows, _claims(rows, sizes))


def _refreshed(setting: Setting, sizes: Sizes) -> dict[str, Cell]:
    each = setting.each / repeats(setting)
    load = IndexLoad(REFRESHED, setting.tuples, setting.values, setting.basic_windows, each)
    spec = choose_index(load).spec
    given = input_of(setting, sizes.slides * setting.each, sizes.rounds)
    window = value_window(spec, INT, setting.basic_windows)
    plain = Unindexed(given.fill)
    for values in given.fill:
        window.slide(values)
    times = race({"index": _asked(window), "rescan": _rescanned(plain)}, given)
    ms = {name: time_ * setting.each / 1000 for name, time_ in times.items()}
    return {
        "question": "median, distinct",
        "drawn": setting.distribution,
        "values": setting.values,
        "sub-windows": setting.basic_windows,
        "index": str(spec),
        "index ms": ms["index"],
        "rescan ms": ms["rescan"],
        "ratio": ms["rescan"] / ms["index"],
        "MB": window.nbytes / 1e6,
    }


def _asked(window: ValueWindow) -> Callable[[pa.Array], object]:
    def slide(values: pa.Array) -> object:
        window.slide(values)
        return window.median(), window.count_distinct()

    return slide


def _rescanned(window: Unindexed) -> Callable[[pa.Array], object]:
    def slide(values: pa.Array) -> object:
        window.slide(values)
        return window.median_and_distinct()

    return slide


def _probed(sizes: Sizes) -> dict[str, Cell]:
    setting = Setting(UNIFORM, sizes.keys, 100, sizes.probed)
    questions = frozenset({Question.EQUALITY})
    spec = choose_index(IndexLoad(questions, setting.tuples, setting.values, setting.basic_windows)).spec
    given = input_of(setting, 2 * setting.each, 0)
    window = tuple_window(spec, INT, setting.basic_windows)
    for values in given.fill:
        window.slide(values)
    held = np.concatenate([values.to_numpy() for values in given.fill])
    keys = np.random.Generator(np.random.Philox(key=5)).integers(0, sizes.keys, sizes.probes)
    probe = _times(lambda key: window.probe(pa.scalar(int(key))), keys)
    scan = _times(lambda key: np.flatnonzero(held == key), keys[: max(3, sizes.probes // 20)])
    _check(window, held, int(keys[0]))
    return {
        "question": "probe by key",
        "drawn": setting.distribution,
        "values": setting.values,
        "sub-windows": setting.basic_windows,
        "index": str(spec),
        "index ms": probe,
        "rescan ms": scan,
        "ratio": scan / probe,
        "MB": window.nbytes / 1e6,
    }


def _check(window: TupleWindow, held: Ints, key: int) -> None:
    if not np.array_equal(window.probe(pa.scalar(key)) - window.first, np.flatnonzero(held == key)):
        raise InternalError("a probe finds other tuples than a scan")


def _times(ask: Callable[[int], object], keys: Ints) -> float:
    """Milliseconds a question, without the first, which loads what is compiled."""
    ask(keys[0])
    began = time.process_time()
    for key in keys:
        ask(key)
    return 1000 * (time.process_time() - began) / len(keys)


def _claims(rows: list[dict[str, Cell]], sizes: Sizes) -> list[Claim]:
    most = max(sizes.sub_windows)
    refreshed = {
        count: [float(row["ratio"] or 0) for row in rows[:-1] if row["sub-windows"] == count]
        for count in sizes.sub_windows
    }
    probed = float(rows[-1]["ratio"] or 0)
    return [
        Claim(
            "refresh",
            f"MEDIAN and COUNT(DISTINCT) over {sizes.tuples:,} tuples, refreshed every sub-window, are 20 "
            "times as fast from the chosen index as by reading the window again",
            "≥ 20 ×",
            ", ".join(
                f"{min(ratios):.0f} to {max(ratios):.0f} × with {count:,} sub-windows"
                for count, ratios in refreshed.items()
            ),
            min(refreshed[most]) >= 20,
            f"the claim is about {most:,} sub-windows; an index pays for the tuples that come and go, a scan "
            "for all, so with fewer sub-windows they come nearer to each other; NumPy sorts once for both "
            "questions",
        ),
        Claim(
            "probe",
            f"a probe by key over {sizes.probed:,} tuples is 50 times as fast as a scan",
            "≥ 50 ×",
            f"{probed:,.0f} ×",
            probed >= 50,
            f"about {sizes.probed // sizes.keys} tuples have the key",
        ),
    ]


def draw(result: Result, path: Path) -> None:
    rows = result.table
    groups = [f"{row['question']}\n{row['drawn']} {row['values']:,}\nn {row['sub-windows']}" for row in rows]
    bars = {name: [float(row[name] or 0) for row in rows] for name in ("index ms", "rescan ms")}
    draw_bars(
        f"Chosen indexes against rescans ({result.scale})", "ms a question", groups, bars, path, is_log=True
    )
