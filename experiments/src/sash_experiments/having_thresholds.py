"""having-thresholds: many HAVING thresholds on one collective index, as groups become more.

Ten thousand queries `HAVING COUNT(*) > v`, `SUM(x) > v`, `MAX(x) > v` with different v and windows of 5 to
60 panes over the same groups. A fixed number of groups is busy, all others have a row now and then, so
answers are as large whatever the number of groups. Each query is answered by its index, exactly, and by
looking at all groups, through the same calls that a run would make.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sash.errors import InternalError
from sash.plan.having import Comparison, Threshold
from sash.synopses.b_int import BInt
from sash.synopses.collective.ci_max import CollectiveExtremes
from sash.synopses.collective.ci_sum import CollectiveSums
from sash.synopses.r_int import RInt
from sash.synopses.rows import PaneRows
from sash_experiments.charts import Panel, draw_lines
from sash_experiments.mixed_inputs import MAX, SUM
from sash_experiments.result import Cell, Claim, Note, Result, silent

NAME = "having-thresholds"
TITLE = "HAVING thresholds on collective indexes as groups become more"

Ints = npt.NDArray[np.int64]
PANES = 60
KINDS = ("COUNT", "SUM", "MAX")


@dataclass(frozen=True, slots=True)
class Sizes:
    groups: tuple[int, ...] = (5_000, 20_000, 100_000)
    busy: int = 200
    thresholds: int = 10_000
    timed: int = 400
    p: int = 8


SCALES = {"small": Sizes(), "paper": Sizes(groups=(5_000, 50_000, 500_000, 2_000_000), timed=2_000)}


@dataclass(frozen=True, slots=True)
class Query:
    kind: str
    width: int
    value: int


def queries(sizes: Sizes) -> list[Query]:
    """Thresholds that some of the busy groups pass and none of the others."""
    rng = np.random.default_rng(15)
    found = []
    for i in range(sizes.thresholds):
        kind, width = KINDS[i % 3], int(rng.integers(5, PANES + 1))
        busy = rng.uniform(1.0, 3.0)
        value = {"COUNT": 20 * width, "SUM": 20_000 * width, "MAX": 100_000}[kind] * busy
        found.append(Query(kind, width, int(value)))
    return found


@dataclass(frozen=True, slots=True)
class Panes:
    """Counts, sums and maxima of the groups that have rows, pane by pane."""

    slots: Ints
    panes: Ints
    counts: Ints
    sums: Ints
    maxima: Ints


def panes_of(groups: int, sizes: Sizes) -> Panes:
    rng = np.random.default_rng(groups)
    slots, panes, rates = [], [], []
    for pane in range(PANES):
        quiet = sizes.busy + np.flatnonzero(rng.random(groups - sizes.busy) < 0.05)
        slots.append(np.concatenate([np.arange(sizes.busy), quiet]))
        panes.append(np.full(len(slots[-1]), pane))
        busy = 20 * (1 + 2 * np.arange(sizes.busy) / sizes.busy)
        rates.append(np.concatenate([busy, np.ones(len(quiet))]))
    each = np.concatenate(rates)
    counts = np.maximum(1, rng.poisson(each))
    sums = counts * rng.integers(900, 1100, len(counts))
    maxima = np.where(
        each > 1, rng.integers(50_000, 300_000, len(counts)), rng.integers(0, 1000, len(counts))
    )
    return Panes(np.concatenate(slots), np.concatenate(panes), counts, sums, maxima)


class Answerer:
    """Synopses of all groups, and collective indexes beside them."""

    def __init__(self, groups: int, asked: Sequence[Query], sizes: Sizes) -> None:
        given = panes_of(groups, sizes)
        self.now = PANES - 1
        self.sums = RInt(SUM, PANES)
        ints = np.zeros((len(given.slots), 4), dtype=np.int64)
        ints[:, 0], ints[:, 2], ints[:, 3] = given.counts, given.sums >> 32, given.sums & ((1 << 32) - 1)
        nothing = np.zeros((len(given.slots), 0))
        self.sums.update(PaneRows(given.slots, given.panes, ints, nothing), self.now)
        self.extremes = BInt(MAX, PANES)
        ints = np.stack([given.counts, np.zeros_like(given.counts), given.maxima], axis=1)
        self.extremes.update(PaneRows(given.slots, given.panes, ints, nothing), self.now)
        least = min(query.value for query in asked if query.kind == "SUM")
        self.index = {
            "COUNT": CollectiveSums(sizes.p, PANES),
            "SUM": CollectiveSums(sizes.p, PANES, least / (4 * sizes.p)),
        }
        self.index_max = CollectiveExtremes(PANES)
        for query in asked:
            if query.kind != "MAX":
                self.index[query.kind].watch(_threshold(query))
        began = time.perf_counter()
        for pane in range(PANES):
            own = given.panes == pane
            slots, panes = given.slots[own], given.panes[own]
            self.index["COUNT"].update(slots, panes, given.counts[own])
            self.index["SUM"].update(slots, panes, given.sums[own])
            self.index_max.update(slots, panes, given.maxima[own])
        self.update_rate = 3 * len(given.slots) / (time.perf_counter() - began)

    def by_index(self, query: Query) -> Ints:
        if query.kind == "MAX":
            return np.sort(self.index_max.between(self.now, query.width, query.value + 1))
        index, threshold = self.index[query.kind], _threshold(query)
        found = index.candidates(self.now, query.width, threshold)
        is_sure = index.are_sure(found, self.now, query.width, threshold)
        doubtful = found[~is_sure]
        passed = doubtful[self._totals(query, doubtful) > query.value]
        return np.sort(np.concatenate([found[is_sure], passed]))

    def together(self, asked: Sequence[Query]) -> list[Ints]:
        """All COUNT or all SUM thresholds at once: candidates in one go, and one look-up for each width."""
        index = self.index[asked[0].kind]
        widths = np.array([query.width for query in asked])
        found = index.upwards(self.now, widths, [_threshold(query) for query in asked])
        owners = np.repeat(np.arange(len(asked)), np.diff(found.offsets))
        limits = np.array([query.value for query in asked])
        passes = found.is_sure.copy()
        for width in np.unique(widths).tolist():
            rows = np.flatnonzero((widths[owners] == width) & ~found.is_sure)
            totals = self._totals(Query(asked[0].kind, width, 0), found.slots[rows])
            passes[rows] = totals > limits[owners[rows]]
        kept = np.flatnonzero(passes)
        return np.split(found.slots[kept], np.searchsorted(owners[kept], np.arange(1, len(asked))))

    def by_all(self, query: Query) -> Ints:
        return np.flatnonzero(self._totals(query, None) > query.value)

    def _totals(self, query: Query, slots: Ints | None) -> Ints:
        window = self.now - query.width, self.now, slots
        if query.kind == "MAX":
            return self.extremes.lookup(*window).ints[:, 2]
        ints = self.sums.lookup(*window).ints
        return ints[:, 0] if query.kind == "COUNT" else (ints[:, 2] << 32) + ints[:, 3]


def _threshold(query: Query) -> Threshold:
    return Threshold(Comparison.MORE, float(query.value))


@dataclass(frozen=True, slots=True)
class Seen:
    """Microseconds a query by index, one by one and all in one go, and by all groups; groups in an answer;
    rows a second into indexes.
    """

    index: float
    together: float | None
    all: float
    answers: float
    updates: float


def measure(scale: str, note: Note = silent) -> Result:
    return measure_at(SCALES[scale], scale, note)


def measure_at(sizes: Sizes, scale: str, note: Note = silent) -> Result:
    asked = queries(sizes)
    seen: dict[tuple[str, int], Seen] = {}
    for done, groups in enumerate(sizes.groups):
        note(f"{groups:,} groups", done / len(sizes.groups))
        answerer = Answerer(groups, asked, sizes)
        for kind in KINDS:
            timed = [query for query in asked if query.kind == kind][: sizes.timed]
            if any(not np.array_equal(answerer.by_index(q), answerer.by_all(q)) for q in timed[:20]):
                raise InternalError("an index and all groups do not agree")
            answers = float(np.mean([len(answerer.by_index(query)) for query in timed]))
            rarely = timed[: max(10, len(timed) // 20)]
            together = None
            if kind != "MAX":
                every = [query for query in asked if query.kind == kind]
                alike = zip(answerer.together(every), every[:20], strict=False)
                if any(set(found.tolist()) != set(answerer.by_all(q).tolist()) for found, q in alike):
                    raise InternalError("look-ups in one go and all groups do not agree")
                together = _micros_of_all(answerer, every)
            seen[kind, groups] = Seen(
                _micros(answerer.by_index, timed),
                together,
                _micros(answerer.by_all, rarely),
                answers,
                answerer.update_rate,
            )
    return Result(NAME, TITLE, scale, _table(seen), _claims(seen, sizes))


def _micros_of_all(answerer: Answerer, asked: Sequence[Query]) -> float:
    best = float("inf")
    for _ in range(3):
        began = time.perf_counter()
        answerer.together(asked)
        best = min(best, 1e6 * (time.perf_counter() - began) / len(asked))
    return best


def _micros(answer: Callable[[Query], Ints], asked: Sequence[Query]) -> float:
    """Of the fastest of a few passes."""
    best = float("inf")
    for _ in range(3):
        began = time.perf_counter()
        for query in asked:
            answer(query)
        best = min(best, 1e6 * (time.perf_counter() - began) / len(asked))
    return best


def _table(seen: dict[tuple[str, int], Seen]) -> list[dict[str, Cell]]:
    return [
        {
            "having": f"{kind} > v",
            "groups": groups,
            "answer": each.answers,
            "index µs": each.index,
            "in one go µs": each.together,
            "all groups µs": each.all,
            "times": each.all / each.index,
            "rows/s into indexes": each.updates,
        }
        for (kind, groups), each in seen.items()
    ]


def _claims(seen: dict[tuple[str, int], Seen], sizes: Sizes) -> list[Claim]:
    least, most = min(sizes.groups), max(sizes.groups)
    growth = {kind: seen[kind, most].index / seen[kind, least].index for kind in KINDS}
    plain = {kind: seen[kind, most].all / seen[kind, least].all for kind in KINDS}
    times = {kind: seen[kind, most].all / seen[kind, most].index for kind in KINDS}
    answers = [each.answers for each in seen.values()]
    return [
        Claim(
            "output-bound",
            f"a look-up costs time in its output: with {most // least} × the groups it costs less than 2 ×",
            "< 2 ×",
            ", ".join(f"{kind} {value:.2f} ×" for kind, value in growth.items()),
            max(growth.values()) < 2,
            f"answers have {min(answers):.0f} to {max(answers):.0f} groups; looking at all groups costs "
            + ", ".join(f"{value:.0f} × ({kind})" for kind, value in plain.items()),
        ),
        Claim(
            "sublinear",
            f"with {most:,} groups the index beats looking at all groups",
            "> 1 ×",
            ", ".join(f"{kind} {value:.0f} ×" for kind, value in times.items()),
            min(times.values()) > 1,
            f"{sizes.thresholds:,} thresholds are registered; they share as many levels as p = {sizes.p} has "
            "between the least and the greatest of them",
        ),
    ]


def draw(result: Result, path: Path) -> None:
    panels = []
    for kind in KINDS:
        rows = [row for row in result.table if row["having"] == f"{kind} > v"]
        lines = {
            name: [(float(row["groups"] or 0), float(row[column] or 0)) for row in rows]
            for name, column in (("index", "index µs"), ("all groups", "all groups µs"))
        }
        panels.append(Panel(f"HAVING {kind} > v", "groups", "µs a look-up", lines))
    draw_lines(f"Thresholds on collective indexes ({result.scale})", panels, path)
