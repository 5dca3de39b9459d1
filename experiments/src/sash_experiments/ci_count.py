"""ci-count: CI-COUNT with exact answers against asking every group, by p (004, figure 12).

Trades of 5,000 stocks in the course of a day: few stocks are traded much, most rarely, and more at the
beginning and the end of the day (the publication has those of a real day). Queries ask which stocks were
traded more than v times in the last 15 minutes to 3 hours; v is such that 3 to 5 % of the stocks are.
Trades and queries come in turn.

The naive way keeps the running count of every stock and looks all of them up. CI-COUNT gives candidates,
says which of them pass for certain, and only the others are looked up in the same running counts. Both are
compiled loops over the kernels.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sash.errors import InternalError
from sash.plan.having import Comparison, Threshold
from sash.state.countedtree import GREATEST, Tree, has_room, rank
from sash.state.jit import kernel
from sash.synopses.collective import ci_sum, substreams
from sash.synopses.collective.bags import third_parts
from sash.synopses.collective.ci_sum import CollectiveSums
from sash.synopses.collective.substreams import Substreams
from sash_experiments.charts import Panel, draw_lines
from sash_experiments.result import Cell, Claim, Note, Result, silent

NAME = "ci-count"
TITLE = "CI-COUNT for thresholds over 5,000 substreams, by p (004, figure 12)"

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
MINUTE = 60_000
REACH = 180 * MINUTE
DAY = 390 * MINUTE


@dataclass(frozen=True, slots=True)
class Sizes:
    """Trades of the whole day, different queries, and inputs (trades and queries) per round."""

    stocks: int = 5_000
    trades: int = 1_000_000
    queries: int = 100
    inputs: int = 20_000
    naive_inputs: int = 2_000
    rounds: int = 3
    ps: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)


SCALES = {"small": Sizes(), "paper": Sizes(trades=4_000_000, queries=1_000, inputs=100_000, rounds=5)}


@dataclass(frozen=True, slots=True)
class Day:
    slots: Ints
    times: Ints
    filled: int
    """So many trades come before anything is measured."""


def trading_day(sizes: Sizes) -> Day:
    rng = np.random.default_rng(12)
    weights = rng.lognormal(0.0, 1.8, sizes.stocks)
    slots = rng.choice(sizes.stocks, sizes.trades, p=weights / weights.sum())
    # More at both ends of the day than at noon.
    times = np.sort((rng.beta(0.7, 0.7, sizes.trades) * DAY).astype(np.int64))
    return Day(slots, times, int(np.searchsorted(times, 270 * MINUTE)))


def asked(day: Day, sizes: Sizes) -> tuple[Ints, Ints]:
    """Widths and thresholds of the queries."""
    rng = np.random.default_rng(13)
    substream = Substreams(REACH)
    ones = np.ones(day.filled, dtype=np.int64)
    substream.reserve(sizes.stocks)
    substream.update(day.slots[: day.filled], day.times[: day.filled], ones)
    now = int(day.times[day.filled - 1])
    widths = rng.integers(15 * MINUTE, REACH, sizes.queries)
    shares = rng.uniform(0.03, 0.05, sizes.queries)
    limits = [
        np.quantile(substream.lookup(now, int(width)), 1 - share)
        for width, share in zip(widths, shares, strict=True)
    ]
    return widths, np.maximum(1, np.array(limits).astype(np.int64))


@kernel
def _naive(
    begin: int,
    slots: Ints,
    times: Ints,
    widths: Ints,
    limits: Ints,
    stocks: Ints,
    groups: Ints,
    elements: Ints,
    used: Ints,
    totals: Ints,
    reach: int,
    found: Ints,
) -> int:
    ones = np.ones(1, dtype=np.int64)
    counts = np.empty(len(stocks), dtype=np.int64)
    for i in range(begin, len(slots)):
        one = slots[i : i + 1]
        if substreams.append(0, one, times[i : i + 1], ones, groups, elements, used, totals, reach) == 0:
            return i
        q = i % len(widths)
        substreams.since(stocks, times[i] - widths[q], groups, elements, totals, counts)
        for k in range(len(counts)):
            if counts[k] > limits[q]:
                found[0] += 1
    return len(slots)


@kernel
def _collective(
    begin: int,
    slots: Ints,
    times: Ints,
    widths: Ints,
    limits: Ints,
    bags: Ints,
    sure: Ints,
    groups: Ints,
    elements: Ints,
    used: Ints,
    totals: Ints,
    reach: int,
    tree: Tree,
    levels: Ints,
    filed: Ints,
    stamps: Ints,
    positions: Ints,
    rests: Floats,
    newest: Ints,
    touches: Ints,
    p: int,
    found: Ints,
) -> int:
    ones, weights = np.ones(1, dtype=np.int64), np.ones(1)
    touched = np.empty(1, dtype=np.int64)
    candidates = np.empty(len(totals), dtype=np.int64)
    counts = np.empty(len(totals), dtype=np.int64)
    for i in range(begin, len(slots)):
        one, now = slots[i : i + 1], times[i : i + 1]
        # An input changes a place of each level at the most; there must be room for all of them.
        if not has_room(tree) or used[0] + 2 * groups[slots[i], 1] + 8 > len(elements):
            return i
        substreams.append(0, one, now, ones, groups, elements, used, totals, reach)
        ci_sum.advance_all(one, now, weights, 1.0, p, stamps, positions, rests, newest, touches, touched)
        ci_sum.file_all(0, touched, 1, tree, levels, filed, stamps, newest, touches, False)
        q = i % len(widths)
        edge = times[i] - widths[q]
        first = rank(tree, bags[q], edge, GREATEST)
        count = rank(tree, bags[q], GREATEST, GREATEST) - first
        third_parts(tree, first, candidates[:count])
        found[1] += count
        doubtful = 0
        for k in range(count):
            if stamps[candidates[k], sure[q]] > edge:
                found[0] += 1
            else:
                candidates[doubtful] = candidates[k]
                doubtful += 1
        found[2] += doubtful
        substreams.since(candidates[:doubtful], edge, groups, elements, totals, counts)
        for k in range(doubtful):
            if counts[k] > limits[q]:
                found[0] += 1
    return len(slots)


@dataclass(frozen=True, slots=True)
class Seen:
    rate: float
    answers: float
    candidates: float
    doubtful: float
    bytes_a_group: float


def measure(scale: str, note: Note = silent) -> Result:
    return measure_at(SCALES[scale], scale, note)


def measure_at(sizes: Sizes, scale: str, note: Note = silent) -> Result:
    day = trading_day(sizes)
    widths, limits = asked(day, sizes)
    note("naive", 0.0)
    plain = measure_naive(day, widths, limits, sizes)
    seen: dict[int, Seen] = {}
    for done, p in enumerate(sizes.ps):
        note(f"p = {p}", (1 + done) / (1 + len(sizes.ps)))
        seen[p] = measure_collective(p, day, widths, limits, sizes)
        if sizes.inputs == sizes.naive_inputs and seen[p].answers != plain.answers:
            raise InternalError("CI-COUNT and the naive way do not agree")
    return Result(NAME, TITLE, scale, _table(plain, seen, sizes), _claims(plain, seen, sizes))


def _rested(day: Day, sizes: Sizes) -> Substreams:
    substream = Substreams(REACH)
    substream.reserve(sizes.stocks)
    ones = np.ones(day.filled, dtype=np.int64)
    substream.update(day.slots[: day.filled], day.times[: day.filled], ones)
    return substream


def measure_naive(day: Day, widths: Ints, limits: Ints, sizes: Sizes) -> Seen:
    substream = _rested(day, sizes)
    stocks = np.arange(sizes.stocks)
    best, found, inputs, at = 0.0, np.zeros(3, dtype=np.int64), 0, day.filled
    for number in range(sizes.rounds + 1):
        count = sizes.naive_inputs // 2
        part = slice(at, at + count)
        at += count
        began, done = time.perf_counter(), 0
        while True:
            state = substream._groups, substream._elements, substream._used, substream._totals, REACH
            done = _naive(done, day.slots[part], day.times[part], widths, limits, stocks, *state, found)
            if done == count:
                break
            substream.grow()
        if number:
            best = max(best, 2 * count / (time.perf_counter() - began))
        inputs += count
    return Seen(
        best, found[0] / inputs, float(sizes.stocks), float(sizes.stocks), substream.nbytes / sizes.stocks
    )


def measure_collective(p: int, day: Day, widths: Ints, limits: Ints, sizes: Sizes) -> Seen:
    substream = _rested(day, sizes)
    index = CollectiveSums(p, REACH)
    thresholds = [Threshold(Comparison.MORE, float(limit)) for limit in limits]
    for threshold in thresholds:
        index.watch(threshold)
    index.update(day.slots[: day.filled], day.times[: day.filled], np.ones(day.filled))
    # All that may come fits, so that levels need not be added meanwhile.
    index._fit(int(index.positions.max()) + len(day.slots))
    bags = np.array([index._level(threshold) for threshold in thresholds], dtype=np.int64)
    sure = np.array([index.sure_level(threshold) for threshold in thresholds], dtype=np.int64)
    levels = np.array(index._levels, dtype=np.int64)
    best, found, inputs, at = 0.0, np.zeros(3, dtype=np.int64), 0, day.filled
    for number in range(sizes.rounds + 1):
        count = sizes.inputs // 2
        part = slice(at, at + count)
        at += count
        began, done = time.perf_counter(), 0
        while True:
            state = substream._groups, substream._elements, substream._used, substream._totals, REACH
            done = _collective(
                done,
                day.slots[part],
                day.times[part],
                widths,
                limits,
                bags,
                sure,
                *state,
                index._tree.tree,
                levels,
                index._filed,
                index.stamps,
                index.positions,
                index.rests,
                index.newest,
                index._touches,
                p,
                found,
            )
            if done == count:
                break
            index._tree.grow()
            substream.grow()
        if number:
            best = max(best, 2 * count / (time.perf_counter() - began))
        inputs += count
    return Seen(best, found[0] / inputs, found[1] / inputs, found[2] / inputs, index.nbytes / sizes.stocks)


def _table(plain: Seen, seen: dict[int, Seen], sizes: Sizes) -> list[dict[str, Cell]]:
    rows: list[dict[str, Cell]] = []
    for name, each in (("naive", plain), *((str(p), each) for p, each in seen.items())):
        rows.append(
            {
                "p": name,
                "inputs/s": each.rate,
                "times naive": each.rate / plain.rate,
                "answers": each.answers,
                "candidates": each.candidates,
                "looked up": each.doubtful,
                "index bytes/group": None if name == "naive" else each.bytes_a_group,
            }
        )
    return rows


def _claims(plain: Seen, seen: dict[int, Seen], sizes: Sizes) -> list[Claim]:
    best = max(seen, key=lambda p: seen[p].rate)
    selectivity = seen[best].answers / sizes.stocks
    first, last = min(seen), max(seen)
    return [
        Claim(
            "selectivity",
            "the queries have the published selectivity",
            "0.03 to 0.05",
            f"{selectivity:.3f}",
            0.025 < selectivity < 0.06,
        ),
        Claim(
            "times-naive",
            "with the right p CI-COUNT processes some 25 times the inputs of the naive way on "
            f"{sizes.stocks:,} substreams",
            "25 ×",
            f"{seen[best].rate / plain.rate:.0f} × with p = {best}",
            seen[best].rate / plain.rate >= 20,
            f"{seen[best].rate:,.0f} against {plain.rate:,.0f} inputs a second; "
            f"{seen[best].candidates:.0f} candidates for {seen[best].answers:.0f} answers, "
            f"{seen[best].doubtful:.0f} of them looked up, of {sizes.stocks:,} groups",
        ),
        Claim(
            "right-p",
            "there is a right p: a small one gives many candidates, a large one costs updates",
            "in the middle",
            f"p = {best}; p = {first}: {seen[first].candidates:.0f} candidates, "
            f"{seen[first].rate:,.0f} a second; "
            f"p = {last}: {seen[last].candidates:.0f}, {seen[last].rate:,.0f}",
            first < best < last,
        ),
    ]


def draw(result: Result, path: Path) -> None:
    rates: list[tuple[float, float]] = []
    candidates: list[tuple[float, float]] = []
    answers: list[tuple[float, float]] = []
    doubtful: list[tuple[float, float]] = []
    naive = float(result.table[0]["inputs/s"] or 0)
    for row in result.table[1:]:
        p = float(str(row["p"]))
        rates.append((p, float(row["inputs/s"] or 0)))
        candidates.append((p, float(row["candidates"] or 0)))
        answers.append((p, float(row["answers"] or 0)))
        doubtful.append((p, float(row["looked up"] or 0)))
    panels = [
        Panel(
            "throughput",
            "p",
            "inputs a second",
            {"CI-COUNT": rates, "naive": [(p, naive) for p, _ in rates]},
        ),
        Panel(
            "groups", "p", "a query", {"candidates": candidates, "answers": answers, "looked up": doubtful}
        ),
    ]
    draw_lines(f"CI-COUNT ({result.scale})", panels, path)
