"""asw-rates: updates and look-ups a second of R-INT, B-INT and B-INT-QNT (004, figures 10 and 11).

R-INT has a SUM, B-INT a MAX, B-INT-QNT quantiles. Updates come one tuple at a time, with windows that reach
back N tuples at the most; look-ups are of windows of one width W that begin anywhere in the last N tuples.
Everything is compiled: a rate is that of a loop over the kernels, as in the publication.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sash.state.jit import kernel
from sash.state.kernels import copy
from sash.synopses import b_int, r_int
from sash.synopses.b_int import BInt, most_rows
from sash.synopses.b_int_qnt import BIntQnt, ValueRows, enter_runs, select
from sash.synopses.cells import gather
from sash.synopses.r_int import RInt
from sash.synopses.rows import PaneRows
from sash_experiments.charts import Panel, draw_lines
from sash_experiments.mixed_inputs import MAX, SUM, element_rows
from sash_experiments.result import Cell, Claim, Note, Result, silent

NAME = "asw-rates"
TITLE = "updates and look-ups a second of R-INT, B-INT and B-INT-QNT (004, figures 10 and 11)"

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
METHODS = ("R-INT", "B-INT", "B-INT-QNT")


@dataclass(frozen=True, slots=True)
class Sizes:
    """Updates are measured at each of `reaches`, look-ups at the last one for each of `widths`."""

    reaches: tuple[int, ...] = (100, 1_000, 10_000, 100_000)
    widths: tuple[int, ...] = (10, 100, 1_000, 10_000, 80_000)
    updates: int = 200_000
    lookups: int = 50_000
    rounds: int = 3


SCALES = {"small": Sizes(), "paper": Sizes(updates=2_000_000, lookups=500_000, rounds=5)}


def measure(scale: str, note: Note = silent) -> Result:
    return measure_at(SCALES[scale], scale, note)


def measure_at(sizes: Sizes, scale: str, note: Note = silent) -> Result:
    updates: dict[str, dict[int, float]] = {name: {} for name in METHODS}
    lookups: dict[str, dict[int, float]] = {name: {} for name in METHODS}
    steps = len(sizes.reaches) + 1
    for done, reach in enumerate(sizes.reaches):
        note(f"updates, N = {reach:,}", done / steps)
        for name in METHODS:
            updates[name][reach] = _update_rate(name, reach, sizes)
    note("look-ups", (steps - 1) / steps)
    for name in METHODS:
        look = _filled(name, sizes)
        for width in sizes.widths:
            lookups[name][width] = _lookup_rate(look, width, sizes)
    return Result(NAME, TITLE, scale, _table(updates, lookups), _claims(updates, lookups, sizes))


def _values(count: int) -> Ints:
    return np.random.default_rng(10).integers(0, 1 << 30, count)


def _maxima(values: Ints, first: int) -> PaneRows:
    ints = np.zeros((len(values), 3), dtype=np.int64)
    ints[:, 0], ints[:, 2] = 1, values
    panes = np.arange(first, first + len(values))
    return PaneRows(np.zeros(len(values), dtype=np.int64), panes, ints, np.zeros((len(values), 0)))


def _tallied(values: Ints, first: int) -> ValueRows:
    zeros, ones = np.zeros(len(values), dtype=np.int64), np.ones(len(values), dtype=np.int64)
    return ValueRows(zeros, np.arange(first, first + len(values)), values, ones)


# Windows begin and end anywhere, not on the borders of wide base intervals.
_FIRST = 777


def _store_of(name: str, reach: int) -> RInt | BInt | BIntQnt:
    match name:
        case "R-INT":
            return RInt(SUM, reach)
        case "B-INT":
            return BInt(MAX, reach)
        case _:
            return BIntQnt(reach)


def _take(store: RInt | BInt | BIntQnt, values: Ints, first: int) -> None:
    """Values as elements from some position on."""
    through = first + len(values) - 1
    # After the first time as `update` does, but without passing over what is too old by the end of the batch.
    if isinstance(store, BIntQnt):
        tallied = _tallied(values, first)
        if store.begin is None:
            store.update(tallied, through)
        else:
            store._make_room(first, len(values))
            store._add(tallied, first, through)
        return
    rows = element_rows(values, first) if isinstance(store, RInt) else _maxima(values, first)
    if store.begin is None:
        store.update(rows, through)
    else:
        store._append(rows, first, through)
        store.newest = through


def _update_rate(name: str, reach: int, sizes: Sizes) -> float:
    store, at = _store_of(name, reach), _FIRST
    values = _values(max(reach, sizes.updates))
    for _ in range(2):
        _take(store, values[:reach], at)
        at += reach
    best = 0.0
    for _ in range(sizes.rounds):
        began = time.perf_counter()
        _take(store, values[: sizes.updates], at)
        best = max(best, sizes.updates / (time.perf_counter() - began))
        at += sizes.updates
    return best


@kernel
def _look_running(
    lefts: Ints, rights: Ints, running: Ints, sums: Ints, odd: Ints, ops: Ints, capacity: int
) -> int:
    total = 0
    only = np.zeros(1, dtype=np.int64)
    out, out_floats = np.zeros((1, running.shape[2]), dtype=np.int64), np.zeros((1, 0))
    for i in range(len(lefts)):
        left, right = lefts[i] & (capacity - 1), rights[i] & (capacity - 1)
        r_int.difference(running, sums, odd, ops, 0, left, right, only, out, out_floats)
        total += out[0, 0]
    return total


@kernel
def _look_maxima(
    lefts: Ints,
    rights: Ints,
    cells: Ints,
    floats: Floats,
    ops: Ints,
    capacity: int,
    identity: Ints,
    rows: Ints,
) -> int:
    total = 0
    only = np.zeros(1, dtype=np.int64)
    out, out_floats = np.zeros((1, len(identity)), dtype=np.int64), np.zeros((1, 0))
    for i in range(len(lefts)):
        copy(out[0], identity)
        count = b_int.decompose(lefts[i], rights[i], capacity, rows)
        gather(cells, floats, ops, rows, count, only, out, out_floats)
        total += out[0, 0]
    return total


@kernel
def _look_sorted(
    lefts: Ints,
    rights: Ints,
    ranks: Ints,
    slots: Ints,
    values: Ints,
    upto: Ints,
    begins: Ints,
    ends: Ints,
    capacity: int,
    rows: Ints,
) -> int:
    total = 0
    runs = np.empty((len(rows), 6), dtype=np.int64)
    for i in range(len(lefts)):
        count = b_int.decompose(lefts[i], rights[i], capacity, rows)
        found, held = enter_runs(slots, upto, begins, ends, rows, count, capacity, 0, runs)
        total += select(values, upto, runs, found, min(ranks[i], held)) & 1
    return total


def _filled(name: str, sizes: Sizes) -> Callable[[Ints, Ints, Ints], int]:
    """A loop over windows, on a synopsis that is full."""
    reach = sizes.reaches[-1]
    store = _store_of(name, reach)
    for first in (_FIRST, _FIRST + reach):
        _take(store, _values(reach), first)
    if isinstance(store, RInt):
        running = store.running, store.sums, store.odd, store.ops, store.capacity
        return lambda lefts, rights, ranks: _look_running(lefts, rights, *running)
    if isinstance(store, BInt):
        rows = np.empty(most_rows(store.capacity), dtype=np.int64)
        cells = store.cells.ints, store.cells.floats, store.ops, store.capacity, store.identity
        return lambda lefts, rights, ranks: _look_maxima(lefts, rights, *cells, rows)
    rows = np.empty(most_rows(store.capacity), dtype=np.int64)
    held = store.entry_slots, store.values, store.upto, store.begins, store.ends, store.capacity
    return lambda lefts, rights, ranks: _look_sorted(lefts, rights, ranks, *held, rows)


def _lookup_rate(look: Callable[[Ints, Ints, Ints], int], width: int, sizes: Sizes) -> float:
    reach = sizes.reaches[-1]
    rng = np.random.default_rng(11)
    width = min(width, reach)
    best, count = 0.0, max(100, sizes.lookups // (1 + width // 1000))
    for number in range(sizes.rounds + 1):
        rights = _FIRST + 2 * reach - 1 - rng.integers(0, reach - width + 1, count)
        began = time.perf_counter()
        look(rights - width, rights, rng.integers(1, width + 1, count))
        if number:
            best = max(best, count / (time.perf_counter() - began))
    return best


def _table(
    updates: dict[str, dict[int, float]], lookups: dict[str, dict[int, float]]
) -> list[dict[str, Cell]]:
    rows: list[dict[str, Cell]] = []
    for what, rates in (("update", updates), ("look-up", lookups)):
        for place in rates[METHODS[0]]:
            rows.append({"what": what, "N or W": place, **{f"{n} /s": rates[n][place] for n in METHODS}})
    return rows


def _claims(
    updates: dict[str, dict[int, float]], lookups: dict[str, dict[int, float]], sizes: Sizes
) -> list[Claim]:
    widest, narrowest = sizes.widths[-1], sizes.widths[0]
    running = lookups["R-INT"]
    fastest = {name: max(*updates[name].values(), *lookups[name].values()) for name in METHODS}
    flat = max(running.values()) / min(running.values())
    falls = lookups["B-INT"][narrowest] / lookups["B-INT"][widest]
    qnt_falls = updates["B-INT-QNT"][sizes.reaches[0]] / updates["B-INT-QNT"][sizes.reaches[-1]]
    return [
        Claim(
            "millions",
            "the algorithms handle up to millions of updates and look-ups a second",
            "millions",
            ", ".join(f"{name} up to {rate / 1e6:.1f} M" for name, rate in fastest.items()),
            fastest["R-INT"] > 1e6 and fastest["B-INT"] > 1e6,
        ),
        Claim(
            "r-int-uniform",
            "R-INT answers at the same rate whatever the width",
            "10 M a second",
            f"{min(running.values()) / 1e6:.1f} to {max(running.values()) / 1e6:.1f} M a second",
            flat < 3,
            "the wider a window, the less of it is in the cache",
        ),
        Claim(
            "b-int-log",
            "look-ups in B-INT become slower with the logarithm of the width",
            "O(log W)",
            f"{falls:.1f} × from W = {narrowest:,} to {widest:,}",
            falls < 4 * np.log2(widest) / np.log2(narrowest),
        ),
        Claim(
            "qnt-widest",
            "B-INT-QNT answers at the widest window more than twenty thousand quantiles a second",
            "22,000 a second",
            f"{lookups['B-INT-QNT'][widest]:,.0f} a second",
            lookups["B-INT-QNT"][widest] > 22_000,
        ),
        Claim(
            "qnt-updates",
            "updates of B-INT-QNT become slower with N, those of R-INT and B-INT hardly",
            "O(log N) against O(1)",
            f"{qnt_falls:.1f} × from N = {sizes.reaches[0]:,} to {sizes.reaches[-1]:,}; "
            + ", ".join(
                f"{name} {updates[name][sizes.reaches[0]] / updates[name][sizes.reaches[-1]]:.1f} ×"
                for name in METHODS[:2]
            ),
            qnt_falls > 1,
        ),
    ]


def draw(result: Result, path: Path) -> None:
    panels = []
    for what, title, x in (("update", "updates", "N"), ("look-up", "look-ups", "W")):
        lines = {
            name: [
                (float(row["N or W"] or 0), float(row[f"{name} /s"] or 0))
                for row in result.table
                if row["what"] == what
            ]
            for name in METHODS
        }
        panels.append(Panel(title, f"{x} (tuples)", "a second", lines))
    draw_lines(f"Aggregates over sliding windows ({result.scale})", panels, path)
