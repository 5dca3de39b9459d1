"""operators: tuples a second through join, DISTINCT, NOT EXISTS and a grouped SUM, as windows grow.

One process, from CQL text to the tables that would be written: the continuous side of a run without its
sources and sinks. Windows hold 10 thousand to a million tuples of each stream; keys are drawn so that a tuple
has as many results at every size, and rows come in batches of the same size. What may change with the window
is then only what operators do with their state.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from sash.engine.continuous.continuous import ContinuousExecutor
from sash.engine.ingest.scans import ScanRows, scan_rows
from sash.lang import bind_program
from sash.operators.delta import NEVER, Delta, empty_delta
from sash.operators.operator import Moment
from sash.plan.run_plan import RunPlan, plan_run
from sash_experiments.charts import Panel, draw_lines
from sash_experiments.drive import SECOND
from sash_experiments.result import Cell, Claim, Note, Result, silent

NAME = "operators"
TITLE = "tuples a second through continuous operators as windows grow"


@dataclass(frozen=True, slots=True)
class Case:
    """A query; {n} is the window. Keys have `spread` times as many values as the window has tuples."""

    name: str
    streams: tuple[str, ...]
    select: str
    spread: float

    def text(self, window: int) -> str:
        declared = "".join(
            f"CREATE STREAM {name} (t BIGINT, k BIGINT, v BIGINT) TIMESTAMP BY t FROM 'csv:{name}.csv';\n"
            for name in self.streams
        )
        return f"{declared}CREATE QUERY q INTO 'jsonl:q.jsonl' AS {self.select.format(n=window)};"


CASES = (
    Case(
        "join",
        ("a", "b"),
        "SELECT a.k, a.v, b.v AS w FROM a [RANGE {n} SEC], b [RANGE {n} SEC] WHERE a.k = b.k",
        1.0,
    ),
    Case("distinct", ("a",), "SELECT DISTINCT k FROM a [RANGE {n} SEC]", 1.0),
    Case(
        "not exists",
        ("a", "b"),
        "SELECT k, v FROM a [RANGE {n} SEC] WHERE NOT EXISTS "
        "(SELECT * FROM b [RANGE {n} SEC] WHERE b.k = a.k)",
        1.0,
    ),
    Case("sum", ("a",), "SELECT k, SUM(v) AS total FROM a [RANGE {n} SEC] GROUP BY k", 0.1),
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Tuples of a window, of a batch (all streams together), of a round (likewise), and how many rounds."""

    windows: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    batch: int = 8_192
    round_tuples: int = 300_000
    rounds: int = 4


SCALES = {"small": Sizes(), "paper": Sizes(round_tuples=1_000_000, rounds=8)}


class Query:
    """A query under way: one tuple of each stream a second, without end."""

    def __init__(self, case: Case, window: int, seed: int) -> None:
        program = bind_program(case.text(window))
        self.plan: RunPlan = plan_run(program)
        self.executor = ContinuousExecutor(self.plan)
        self._definitions = {stream.name: stream for stream in self.plan.streams}
        self._keys = max(1, round(case.spread * window))
        self._random = np.random.Generator(np.random.Philox(key=seed))
        self._now = 0
        self._first = dict.fromkeys(case.streams, SECOND)
        self._batch = -1

    @property
    def streams(self) -> int:
        return len(self._first)

    def batch(self, tuples: int) -> list[ScanRows]:
        """The next rows, some of each stream."""
        count = max(1, tuples // self.streams)
        ts = np.arange(self._now + 1, self._now + count + 1)
        self._now += count
        rows: list[ScanRows] = []
        for scan in self.plan.scans:
            columns = {
                "t": ts,
                "k": self._random.integers(0, self._keys, count),
                "v": self._random.integers(0, 1000, count),
            }
            definition = self._definitions[scan.stream]
            rows.append(scan_rows(scan, definition, ts * SECOND, pa.table(columns)))
        return rows

    def batches(self, tuples: int, size: int) -> Iterator[list[ScanRows]]:
        for begin in range(0, tuples, size):
            yield self.batch(min(size, tuples - begin))

    def take(self, rows: list[ScanRows]) -> int:
        """Process a batch; gives how many changes of the answer it made."""
        through = int(max(each.ts[-1] for each in rows if len(each.ts)))
        self._batch += 1
        given = tuple((each.scan, 0, each.delta) for each in rows)
        answers = self.executor.answer(self._batch, given, self._first, through)
        return sum(table.num_rows for _, table in answers)

    def watched(self, rows: list[ScanRows], spent: dict[str, float]) -> None:
        """Process a batch with a watch at every operator."""
        never = np.full(max(len(each.ts) for each in rows), NEVER, dtype=np.int64)
        sources = {each.scan: Delta(each.ts, never[: len(each.ts)], each.columns) for each in rows}
        moment = Moment(int(max(each.ts[-1] for each in rows)), self._first)
        given: list[Delta] = []
        for vertex in self.executor.flow.vertices:
            if vertex.operator is None:
                assert vertex.source is not None
                given.append(sources.get(vertex.source) or empty_delta(vertex.fields))
                continue
            began = time.perf_counter()
            given.append(vertex.operator.process([given[i] for i in vertex.inputs], moment))
            kind = type(vertex.operator).__name__
            spent[kind] = spent.get(kind, 0.0) + time.perf_counter() - began


@dataclass(slots=True)
class Seen:
    """What was seen of a query at one window."""

    rates: list[float] = field(default_factory=list)
    changes: int = 0
    tuples: int = 0
    bytes_: list[int] = field(default_factory=list)
    state_rows: int = 0
    batch: int = 0
    slowest: str = ""

    @property
    def rate(self) -> float:
        """Tuples a second, of the fastest round."""
        return max(self.rates)

    @property
    def changes_a_tuple(self) -> float:
        return self.changes / self.tuples

    @property
    def bytes_a_row(self) -> float:
        """A batch stands beside the window until what expires with it has gone, so it needs room, too."""
        return self.bytes_[-1] / (self.state_rows + self.batch)

    @property
    def growth(self) -> float:
        """State at the end against that at a quarter of the way."""
        quarter = self.bytes_[max(0, len(self.bytes_) // 4 - 1)]
        return self.bytes_[-1] / quarter


def measure(scale: str, note: Note = silent) -> Result:
    return measure_at(SCALES[scale], scale, note)


def measure_at(sizes: Sizes, scale: str, note: Note = silent) -> Result:
    seen: dict[str, dict[int, Seen]] = {}
    for done, case in enumerate(CASES):
        note(case.name, done / len(CASES))
        seen[case.name] = measure_case(case, sizes)
    return Result(NAME, TITLE, scale, _table(seen), _claims(seen, sizes))


def measure_case(case: Case, sizes: Sizes) -> dict[int, Seen]:
    """A query at all windows, round by round in turn."""
    queries = {window: Query(case, window, seed) for seed, window in enumerate(sizes.windows, 1)}
    for window, query in queries.items():
        # A window that is full, and has let go of some.
        for rows in query.batches(query.streams * (window + window // 10) + 2 * sizes.batch, sizes.batch):
            query.take(rows)
    seen = {window: Seen(batch=sizes.batch) for window in sizes.windows}
    gc.collect()
    for number in range(sizes.rounds + 1):
        for window, query in queries.items():
            _round(query, seen[window], sizes, is_counted=number > 0)
    for window, query in queries.items():
        spent: dict[str, float] = {}
        seen[window].state_rows = query.executor.state_rows
        for rows in query.batches(4 * sizes.batch, sizes.batch):
            query.watched(rows, spent)
        whole = sum(spent.values())
        most = sorted(spent, key=lambda kind: -spent[kind])[:2]
        seen[window].slowest = ", ".join(f"{kind} {spent[kind] / whole:.0%}" for kind in most)
    return seen


def _round(query: Query, seen: Seen, sizes: Sizes, *, is_counted: bool) -> None:
    batches = list(query.batches(sizes.round_tuples, sizes.batch))
    changes = 0
    began = time.perf_counter()
    for rows in batches:
        changes += query.take(rows)
    seconds = time.perf_counter() - began
    if is_counted:
        seen.rates.append(sizes.round_tuples / seconds)
        seen.changes += changes
        seen.tuples += sizes.round_tuples
        seen.bytes_.append(query.executor.state_bytes)


def _table(seen: Mapping[str, Mapping[int, Seen]]) -> list[dict[str, Cell]]:
    return [
        {
            "query": name,
            "window": window,
            "tuples/s": each.rate,
            "changes/tuple": each.changes_a_tuple,
            "state rows": each.state_rows,
            "state MB": each.bytes_[-1] / 1e6,
            "bytes/row": each.bytes_a_row,
            "end/quarter": each.growth,
            "most of the time in": each.slowest,
        }
        for name, windows in seen.items()
        for window, each in windows.items()
    ]


def _claims(seen: Mapping[str, Mapping[int, Seen]], sizes: Sizes) -> list[Claim]:
    least, most = min(sizes.windows), max(sizes.windows)
    falls = {name: windows[least].rate / windows[most].rate for name, windows in seen.items()}
    equal = {
        name: max(w.changes_a_tuple for w in windows.values())
        / min(w.changes_a_tuple for w in windows.values())
        for name, windows in seen.items()
    }
    shape = {
        name: max(w.bytes_a_row for w in windows.values()) / min(w.bytes_a_row for w in windows.values())
        for name, windows in seen.items()
    }
    growth = {name: max(w.growth for w in windows.values()) for name, windows in seen.items()}
    return [
        Claim(
            "equal-results",
            "the comparison is fair: a tuple changes the answer as often at every window",
            "within 10 %",
            _each(equal),
            max(equal.values()) < 1.1,
        ),
        Claim(
            "throughput",
            f"from windows of {least:,} tuples to {most:,} throughput falls by less than 2 ×",
            "< 2 ×",
            _each(falls),
            max(falls.values()) < 2,
            f"in batches of {sizes.batch:,} tuples, with state of "
            + ", ".join(
                f"{windows[least].bytes_[-1] / 1e6:,.1f} and {windows[most].bytes_[-1] / 1e6:,.0f} MB "
                f"({name})"
                for name, windows in seen.items()
            ),
        ),
        Claim(
            "proportional",
            "state is proportional to what is live: bytes per row, with a batch, stay within a factor of two",
            "< 2 ×",
            _each(shape),
            max(shape.values()) < 2,
        ),
        Claim(
            "flat",
            "state does not grow with the length of the run",
            "< 1.05 × from a quarter of the run to its end",
            _each(growth),
            max(growth.values()) < 1.05,
        ),
    ]


def _each(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f} ×" for name, value in values.items())


def draw(result: Result, path: Path) -> None:
    rates: dict[str, list[tuple[float, float]]] = {}
    states: dict[str, list[tuple[float, float]]] = {}
    for row in result.table:
        place = float(row["window"] or 0)
        rates.setdefault(str(row["query"]), []).append((place, float(row["tuples/s"] or 0)))
        states.setdefault(str(row["query"]), []).append((place, float(row["state MB"] or 0)))
    panels = [
        Panel("throughput", "window (tuples)", "tuples a second", rates, is_log_y=False),
        Panel("state", "window (tuples)", "MB", states),
    ]
    draw_lines(f"Continuous operators in one process ({result.scale})", panels, path)
