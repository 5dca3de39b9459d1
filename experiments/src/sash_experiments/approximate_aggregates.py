"""approximate-aggregates: what APPROX_… saves against exact answers, and what DataSketches would give.

A stream of values, most of which are different, is asked for the number of different values, the median
and the most frequent ones, exactly and approximately, by the same engine in one process; memory is that of
the synopsis with a full window. Beside them the sketches of Apache DataSketches (HLL with 2¹² registers, KLL
with k = 200, frequent items with 2¹⁰): one for each pane, made of two parts as batches would cut them, and
merged over each window. A second pass with other parts shows how many answers change with the cuts.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasketches as ds
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from sash.engine.observe.report import DRIVER, BatchReport, Silent
from sash.lang import bind_program
from sash.runtime.run import run_program
from sash_experiments.charts import draw_bars
from sash_experiments.result import Cell, Claim, Note, Result, silent

NAME = "approximate-aggregates"
TITLE = "memory, time and error of approximate aggregates, against exact ones and DataSketches"

Ints = npt.NDArray[np.int64]
_WINDOW = 20
_ASKED = {
    "different values": ("COUNT(DISTINCT x)", "APPROX_COUNT_DISTINCT(x)"),
    "median": ("MEDIAN(x)", "APPROX_QUANTILE(x, 0.5)"),
    "most frequent": ("TOP(x, 10)", "APPROX_TOP(x, 10)"),
}


@dataclass(frozen=True, slots=True)
class Sizes:
    """Rows in a pane of a second, and panes."""

    rows: int
    panes: int = 40


_SCALES = {"small": Sizes(50_000), "paper": Sizes(500_000, 60)}


@dataclass
class _Watched(Silent):
    """The memory of the synopses, at its greatest."""

    most: int = 0

    def batch(self, report: BatchReport) -> None:
        self.most = max(self.most, report.state[DRIVER].bytes)


@dataclass(frozen=True, slots=True)
class _Seen:
    answers: list[Any]
    seconds: float
    bytes: int


def measure(scale: str, note: Note = silent) -> Result:
    return measure_at(_SCALES[scale], scale, note)


def measure_at(sizes: Sizes, scale: str, note: Note = silent) -> Result:
    rng = np.random.default_rng(7)
    total = sizes.rows * sizes.panes
    # A tenth of the rows has one of a few values, the others come from as many values as there are rows.
    values = np.where(rng.random(total) < 0.1, rng.zipf(1.3, total) % 1000, rng.integers(1000, total, total))
    table: list[dict[str, Cell]] = []
    seen: dict[tuple[str, str], _Seen] = {}
    with tempfile.TemporaryDirectory(prefix="sash-approximate-") as folder:
        directory = Path(folder)
        instants = np.repeat(np.arange(1, sizes.panes + 1), sizes.rows)
        pq.write_table(pa.table({"t": instants, "x": values}), directory / "x.parquet")
        for done, (name, (exact, approximate)) in enumerate(_ASKED.items()):
            note(f"asking for {name}", done / len(_ASKED))
            _run(directory, approximate, sizes)
            seen[name, "exact"] = _run(directory, exact, sizes)
            seen[name, "approximate"] = _run(directory, approximate, sizes)
            seen[name, "DataSketches"] = _sketched(name, values.reshape(sizes.panes, -1), 0.5)
            again = _sketched(name, values.reshape(sizes.panes, -1), 0.3)
            for way in ("exact", "approximate", "DataSketches"):
                own = seen[name, way]
                other = _run(directory, approximate, sizes, 7) if way == "approximate" else again
                changed = 0 if way == "exact" else _differing(own.answers, other.answers)
                table.append(
                    {
                        "asked": name,
                        "way": way,
                        "MB": own.bytes / 1e6,
                        "seconds": own.seconds,
                        "greatest error": _error(name, own.answers, values.reshape(sizes.panes, -1)),
                        "answers that change with the cuts": changed / len(own.answers),
                    }
                )
    return Result(NAME, TITLE, scale, table, _claims(table))


def _run(directory: Path, asked: str, sizes: Sizes, cuts: int = 4) -> _Seen:
    text = (
        "CREATE STREAM s (t BIGINT, x BIGINT) TIMESTAMP BY t FROM 'parquet:x.parquet';"
        f"CREATE QUERY q INTO 'jsonl:q.jsonl' AS Rstream(SELECT {asked} AS a "
        f"FROM s [RANGE {_WINDOW} SEC SLIDE 1 SEC]);"
    )
    watched, start = _Watched(), time.perf_counter()
    run_program(
        bind_program(text),
        base_dir=directory,
        runtime="inline",
        batch_rows=sizes.rows * sizes.panes // cuts + 1,
        monitor=watched,
    )
    seconds = time.perf_counter() - start
    lines = (directory / "q.jsonl").read_text().splitlines()
    return _Seen([json.loads(line)["a"] for line in lines], seconds, watched.most)


def _sketched(name: str, panes: Ints, cut: float) -> _Seen:
    """A sketch of each pane, in two parts, merged over windows."""
    make, merge, read = _SKETCHES[name]
    start = time.perf_counter()
    at = int(panes.shape[1] * cut)
    made = [(make(pane[:at]), make(pane[at:])) for pane in panes]
    answers = []
    for end in range(1, len(made) + 1):
        answers.append(read(merge([part for pair in made[max(0, end - _WINDOW) : end] for part in pair])))
    seconds = time.perf_counter() - start
    size = sum(_bytes(part) for pair in made[-_WINDOW:] for part in pair)
    return _Seen(answers, seconds, size)


def _hll(values: Ints) -> Any:
    sketch = ds.hll_sketch(12, ds.tgt_hll_type.HLL_8)
    for value in values.tolist():
        sketch.update(value)
    return sketch


def _hll_merged(parts: Sequence[Any]) -> Any:
    union = ds.hll_union(12)
    for part in parts:
        union.update(part)
    return union


def _kll(values: Ints) -> Any:
    sketch = ds.kll_doubles_sketch(200)
    sketch.update(values.astype(np.float64))
    return sketch


def _items(values: Ints) -> Any:
    sketch = ds.frequent_items_sketch(10)
    for value in values.tolist():
        sketch.update(value)
    return sketch


def _merged(empty: Callable[[], Any]) -> Callable[[Sequence[Any]], Any]:
    def merge(parts: Sequence[Any]) -> Any:
        union = empty()
        for part in parts:
            union.merge(part)
        return union

    return merge


def _most_frequent(sketch: Any) -> str:
    items = sketch.get_frequent_items(ds.frequent_items_error_type.NO_FALSE_NEGATIVES)
    return json.dumps([list(item[:2]) for item in sorted(items, key=lambda i: (-i[1], i[0]))[:10]])


_SKETCHES: dict[str, tuple[Callable[[Ints], Any], Callable[[Sequence[Any]], Any], Callable[[Any], Any]]] = {
    "different values": (_hll, _hll_merged, lambda sketch: round(sketch.get_estimate())),
    "median": (_kll, _merged(lambda: ds.kll_doubles_sketch(200)), lambda s: int(s.get_quantile(0.5, True))),
    "most frequent": (_items, _merged(lambda: ds.frequent_items_sketch(10)), _most_frequent),
}


def _bytes(sketch: Any) -> int:
    if isinstance(sketch, ds.hll_sketch):
        return len(sketch.serialize_compact())
    serde = (ds.PyLongsSerDe(),) if isinstance(sketch, ds.frequent_items_sketch) else ()
    return len(sketch.serialize(*serde))


def _differing(answers: Sequence[Any], others: Sequence[Any]) -> int:
    return sum(a != b for a, b in zip(answers, others, strict=True))


def _error(name: str, answers: Sequence[Any], panes: Ints) -> float:
    """The greatest error of the answers: of the number, of the ranks, of the number of values."""
    worst = 0.0
    for end, answer in enumerate(answers, 1):
        own = panes[max(0, end - _WINDOW) : end].ravel()
        match name:
            case "different values":
                worst = max(worst, abs(int(answer) / len(np.unique(own)) - 1))
            case "median":
                ranks = (np.sum(own < answer) / len(own), np.sum(own <= answer) / len(own))
                worst = max(worst, ranks[0] - 0.5, 0.5 - ranks[1])
            case _:
                for value, count in json.loads(answer):
                    worst = max(worst, abs(int(np.sum(own == value)) - count) / len(own))
    return worst


def _claims(table: Sequence[dict[str, Cell]]) -> list[Claim]:
    def cell(asked: str, way: str, column: str) -> float:
        (row,) = (row for row in table if (row["asked"], row["way"]) == (asked, way))
        return float(row[column] or 0)

    memory = {name: cell(name, "exact", "MB") / cell(name, "approximate", "MB") for name in _ASKED}
    errors = {name: cell(name, "approximate", "greatest error") for name in _ASKED}
    bounds = dict(zip(_ASKED, (0.05, 1 / 512, 1 / 513), strict=True))
    column = "answers that change with the cuts"
    return [
        Claim(
            "memory",
            "a synopsis for approximate answers takes a fraction of the memory",
            "less than a fifth",
            ", ".join(f"{name} 1/{times:.0f}" for name, times in memory.items()),
            all(times > 5 for times in memory.values()),
        ),
        Claim(
            "bounds",
            "errors are within the bounds that are told with the answers",
            "3.1 % at two standard deviations (5 % at three), 0.2 %, 0.2 %",
            ", ".join(f"{name} {error:.2%}" for name, error in errors.items()),
            all(errors[name] <= bounds[name] for name in _ASKED),
        ),
        Claim(
            "cuts",
            "approximate answers do not depend on how the input was cut into batches",
            "none changes",
            ", ".join(f"{name} {cell(name, 'approximate', column):.0%}" for name in _ASKED),
            all(cell(name, "approximate", column) == 0 for name in _ASKED),
            "with DataSketches: "
            + ", ".join(f"{name} {cell(name, 'DataSketches', column):.0%}" for name in _ASKED),
        ),
    ]


def draw(result: Result, path: Path) -> None:
    ways = ("exact", "approximate", "DataSketches")
    sizes = {way: [float(row["MB"] or 0) for row in result.table if row["way"] == way] for way in ways}
    draw_bars(TITLE, "MB of state", list(_ASKED), sizes, path, is_log=True)
