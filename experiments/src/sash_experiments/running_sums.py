"""running-sums: does a running sum of doubles drift? (a promise, not a figure)

R-INT and a running sum in plain doubles take the same stream, one value a pane. Values are of very
different size, so that a plain sum loses the small ones in the large ones that have long gone. Now and then
the last 1 to 1,000 values are looked up and compared with a sum from scratch.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sash.lang.bound import Scalar
from sash.lang.types import Type
from sash.plan.measures import ROWS, Measure, MeasureKind, subtractable
from sash.synopses.r_int import RInt
from sash.synopses.rows import PaneRows
from sash_experiments.charts import Panel, draw_lines
from sash_experiments.result import Cell, Claim, Note, Result, silent

NAME = "running-sums"
TITLE = "running sums of doubles after many updates, against sums from scratch"

X = Scalar('"x"', Type.DOUBLE, ("x",), "x", "x")
WIDTHS = (1, 10, 100, 1000)


@dataclass(frozen=True, slots=True)
class Sizes:
    updates: int = 10_000_000
    batch: int = 100_000


SCALES = {"small": Sizes(), "paper": Sizes(updates=100_000_000)}


def measure(scale: str, note: Note = silent) -> Result:
    return measure_at(SCALES[scale], scale, note)


def measure_at(sizes: Sizes, scale: str, note: Note = silent) -> Result:
    rng = np.random.default_rng(16)
    store = RInt(subtractable((ROWS, Measure(MeasureKind.SUM, X))), max(WIDTHS))
    plain = np.zeros(max(WIDTHS) + 1)
    worst = {"R-INT": 0.0, "plain": 0.0}
    rows: list[dict[str, Cell]] = []
    spent, done = 0.0, 0
    slots, ones = np.zeros(sizes.batch, dtype=np.int64), np.ones((sizes.batch, 1), dtype=np.int64)
    while done < sizes.updates:
        note(f"{done:,} updates", done / sizes.updates)
        large = rng.random(sizes.batch) < 0.001
        values = np.where(large, 1e9, 1.0) * rng.lognormal(0, 2, sizes.batch)
        floats = np.stack([values, np.zeros(sizes.batch)], axis=1)
        panes = np.arange(done, done + sizes.batch)
        began = time.perf_counter()
        if store.begin is None:
            store.update(PaneRows(slots[:1], panes[:1], ones[:1], floats[:1]), 0)
            store._append(PaneRows(slots[1:], panes[1:], ones[1:], floats[1:]), 1, sizes.batch - 1)
        else:
            # Every value counts: none is passed over because it is too old by the end of the batch.
            store._append(PaneRows(slots, panes, ones, floats), done, done + sizes.batch - 1)
        spent += time.perf_counter() - began
        running = np.cumsum(np.concatenate([plain[-1:], values]))
        plain = running[-(max(WIDTHS) + 1) :]
        done += sizes.batch
        store.newest = done - 1
        for width in WIDTHS:
            exact = math.fsum(values[-width:])
            got = {
                "R-INT": float(store.lookup(done - 1 - width, done - 1).floats[0].sum()),
                "plain": float(plain[-1] - plain[-1 - width]),
            }
            for name, value in got.items():
                worst[name] = max(worst[name], abs(value - exact) / abs(exact))
        if (done // sizes.batch).bit_count() == 1 or done >= sizes.updates:
            rows.append({"updates": done, "R-INT error": worst["R-INT"], "plain error": worst["plain"]})
    claims = [
        Claim(
            "no-drift",
            f"after {sizes.updates:,} updates the error against recomputation is below 1e-9",
            "< 1e-9, relative",
            f"{worst['R-INT']:.1e}",
            worst["R-INT"] < 1e-9,
            f"{sizes.updates / spent / 1e6:.1f} M updates a second with {store.sums.shape[3]} limbs; a plain "
            f"running sum is off by {worst['plain']:.1e}",
        )
    ]
    return Result(NAME, TITLE, scale, rows, claims)


def draw(result: Result, path: Path) -> None:
    lines = {
        name: [
            (float(row["updates"] or 0), max(1e-17, float(row[f"{name} error"] or 0))) for row in result.table
        ]
        for name in ("R-INT", "plain")
    }
    panel = Panel("largest error so far", "updates", "relative error (10⁻¹⁷: none)", lines)
    draw_lines(f"Running sums of doubles ({result.scale})", [panel], path)
