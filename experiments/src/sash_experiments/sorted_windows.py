"""sorted-windows: sorted output, first rows and INTERSECT of windows that slide, against reading them again.

From CQL text to the tables that would be written: rows that come and go change a tuple index in order of the
sort key, or the two counts of a value; NumPy sorts or intersects whole windows. The answer of the last
sub-window is compared. Times are of the processor.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.engine.continuous.continuous import ContinuousExecutor
from sash.engine.ingest.scans import scan_rows
from sash.errors import InternalError
from sash.lang import bind_program
from sash.plan.run_plan import plan_run
from sash_experiments.charts import draw_bars
from sash_experiments.drive import SECOND
from sash_experiments.result import Cell, Claim, Note, Result, silent

NAME = "sorted-windows"
TITLE = "ORDER BY, LIMIT and INTERSECT of sliding windows, against sorting and intersecting them again"

Ints = npt.NDArray[np.int64]
Rows = dict[str, Ints]
WINDOW = "[RANGE {n} SEC SLIDE 1 SEC]"


@dataclass(frozen=True, slots=True)
class Case:
    """A query over `a` and `b`, and its answer from whole windows, as rows."""

    name: str
    select: str
    again: Callable[[Rows, Rows], Ints]


def _in_order(a: Rows, b: Rows) -> Ints:
    order = np.lexsort((a["v"], a["k"]))
    return np.stack([a["k"][order], a["v"][order]], axis=1)


CASES = (
    Case(
        "first 10",
        f"Rstream(SELECT k, v FROM a {WINDOW} ORDER BY k LIMIT 10)",
        lambda a, b: _in_order(a, b)[:10],
    ),
    Case("in order", f"Rstream(SELECT k, v FROM a {WINDOW} ORDER BY k)", _in_order),
    Case(
        "intersect",
        f"SELECT k FROM a {WINDOW} INTERSECT SELECT k FROM b {WINDOW}",
        lambda a, b: np.intersect1d(a["k"], b["k"])[:, None],
    ),
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Tuples of a window, how many values they have, sub-windows, and how many of those are measured."""

    tuples: int = 200_000
    values: int = 100_000
    sub_windows: tuple[int, ...] = (20, 200)
    slides: int = 8


SCALES = {"small": Sizes(), "paper": Sizes(1_000_000, 500_000, (100, 1_000), 20)}


def measure(scale: str, note: Note = silent) -> Result:
    return measure_at(SCALES[scale], scale, note)


def measure_at(sizes: Sizes, scale: str, note: Note = silent) -> Result:
    settings = [(case, count) for case in CASES for count in sizes.sub_windows]
    rows: list[dict[str, Cell]] = []
    for done, (case, count) in enumerate(settings):
        note(f"{case.name}, {count} sub-windows", done / len(settings))
        rows.append(_measured(case, count, sizes))
    return Result(NAME, TITLE, scale, rows, _claims(rows))


class _Query:
    """A query under way; a sub-window is a second, and its rows come at its end."""

    def __init__(self, case: Case, sub_windows: int) -> None:
        declared = "".join(
            f"CREATE STREAM {name} (t BIGINT, k BIGINT, v BIGINT) TIMESTAMP BY t FROM 'csv:{name}.csv';\n"
            for name in "ab"
        )
        query = f"CREATE QUERY q INTO 'noop:' AS {case.select.format(n=sub_windows)};"
        self._plan = plan_run(bind_program(declared + query))
        self._executor = ContinuousExecutor(self._plan)
        self._first = dict.fromkeys("ab", SECOND)
        self._batch = -1

    def take(self, given: Mapping[str, Rows], second: int) -> pa.Table | None:
        """The answer, or its changes, of the next sub-window."""
        self._batch += 1
        rows = []
        for scan in self._plan.scans:
            columns = given[scan.stream]
            ts = np.full(len(columns["k"]), second)
            table = pa.table({"t": ts, **columns})
            made = scan_rows(scan, self._plan.stream(scan.stream), ts * SECOND, table)
            rows.append((made.scan, 0, made.delta))
        answers = self._executor.answer(self._batch, tuple(rows), self._first, second * SECOND)
        return next((table for _, table in answers), None)


def _measured(case: Case, count: int, sizes: Sizes) -> dict[str, Cell]:
    random = np.random.Generator(np.random.Philox(key=count))
    each = sizes.tuples // count
    query = _Query(case, count)
    held: dict[str, deque[Rows]] = {name: deque(maxlen=count) for name in "ab"}
    shown: list[pa.Table] = []
    spent = {"index": [0.0], "again": [0.0]}
    answer = np.zeros((0, 1), dtype=np.int64)
    for second in range(1, count + sizes.slides + 1):
        given = {
            name: {"k": random.integers(0, sizes.values, each), "v": random.integers(0, 1000, each)}
            for name in "ab"
        }
        began = time.process_time()
        table = query.take(given, second)
        spent["index"].append(time.process_time() - began)
        if table is not None:
            shown = [table] if "Rstream" in case.select else [*shown, table]
        for name, rows in given.items():
            held[name].append(rows)
        if second > count:
            began = time.process_time()
            whole = (_whole(held[name]) for name in "ab")
            answer = case.again(*whole)
            spent["again"].append(time.process_time() - began)
    _compare(case, pa.concat_tables(shown), answer)
    # The fastest: everything else was done beside it.
    index, again = min(spent["index"][-sizes.slides :]), min(spent["again"][1:])
    return {
        "answer": case.name,
        "sub-windows": count,
        "index ms": 1e3 * index,
        "again ms": 1e3 * again,
        "ratio": again / index,
    }


def _whole(held: Sequence[Rows]) -> Rows:
    return {name: np.concatenate([rows[name] for rows in held]) for name in ("k", "v")}


def _compare(case: Case, shown: pa.Table, expected: Ints) -> None:
    """The answer, or all changes up to the last sub-window, against the one from whole windows."""
    if "op" in shown.column_names:
        signs = np.where(np.asarray(shown.column("op")) == "+", 1, -1)
        values, places = np.unique(shown.column("k").to_numpy(), return_inverse=True)
        found = values[np.bincount(places, weights=signs) > 0][:, None]
    else:
        found = np.stack([shown.column(name).to_numpy() for name in ("k", "v")], axis=1)
    if not np.array_equal(found, expected):
        raise InternalError(f"{case.name}: the answers differ")


def _claims(rows: Sequence[Mapping[str, Cell]]) -> list[Claim]:
    ratios = {
        case.name: [float(row["ratio"] or 0) for row in rows if row["answer"] == case.name] for case in CASES
    }
    return [
        Claim(
            name.replace(" ", "-"),
            f"{name}: a slide costs less than reading the window again",
            "> 1 ×",
            ", ".join(f"{ratio:.1f} ×" for ratio in found),
            min(found) > 1,
            "rows that come and go pass through operators one by one, whole windows through one sort",
        )
        for name, found in ratios.items()
    ]


def draw(result: Result, path: Path) -> None:
    groups = [f"{row['answer']}\nn {row['sub-windows']}" for row in result.table]
    bars = {name: [float(row[name] or 0) for row in result.table] for name in ("index ms", "again ms")}
    draw_bars(f"Sorted windows ({result.scale})", "ms a sub-window", groups, bars, path, is_log=True)
