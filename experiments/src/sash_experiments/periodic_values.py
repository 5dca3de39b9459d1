"""periodic-values: a refreshed MEDIAN and COUNT(DISTINCT) from the structures of a run, against NumPy.

As `index-speed`, but by what a run does. `index` is what `CREATE INDEX … USING AUTO` chooses, `run` the
sorted run that there is without it: each moves on by a sub-window and is asked both. `whole` is all that
tasks and driver do for a boundary, from the rows of a sub-window to the table that a sink gets, in batches
of many sub-windows as a replay has them; `alone` the same with each sub-window a batch of its own.
NumPy reads the window again: it sorts it once for both answers (`rescan`); its own `median` and `unique`
take longer (`median, unique`). Times are of the processor.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from sash.engine.periodic.groups import QueryGroup, answer_together
from sash.errors import InternalError
from sash.lang import bind_program
from sash.operators.preaggregate import preaggregate
from sash.plan.cost.indexes import IndexChoice
from sash.plan.run_plan import RunPlan, plan_run
from sash.plan.value_indexes import choose_value_index, index_on
from sash.synopses.basic_interval import BasicIntervalSynopsis, WindowKey
from sash.synopses.value_states import ValueStates
from sash_experiments.charts import draw_bars
from sash_experiments.index_windows import Setting, Unindexed, input_of, refresh_settings
from sash_experiments.result import Cell, Claim, Note, Result, silent

NAME = "periodic-values"
TITLE = "MEDIAN and COUNT(DISTINCT) of a run, refreshed every sub-window, against reading the window again"
LEAST = 20

# A sub-window is a second, and its rows come at its end.
_SECOND = 1_000_000

Both = tuple[int, int]
"""The median, and how many values there are."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """A batch has so many tuples; NumPy reads the window again so often in each round."""

    tuples: int = 1_000_000
    values: tuple[int, ...] = (1_000, 10_000, 100_000)
    sub_windows: tuple[int, ...] = (100, 1_000)
    batch: int = 100_000
    rescans: int = 6
    rounds: int = 4


SCALES = {"small": Sizes(), "paper": Sizes(rescans=50, rounds=10)}


def measure(scale: str, note: Note = silent) -> Result:
    return measure_at(SCALES[scale], scale, note)


def measure_at(sizes: Sizes, scale: str, note: Note = silent) -> Result:
    cases = list(refresh_settings(sizes.tuples, sizes.values, sizes.sub_windows))
    rows = []
    for done, setting in enumerate(cases):
        note(f"{setting.values} values, {setting.basic_windows} sub-windows", done / len(cases))
        rows.append(_measured(setting, sizes))
    return Result(NAME, TITLE, scale, rows, _claims(rows, sizes))


class _Fed:
    """The synopsis of the query, fed with sub-windows."""

    def __init__(self, setting: Setting, *, is_indexed: bool = True) -> None:
        index = "CREATE INDEX i ON s (n) USING AUTO;\n" if is_indexed else ""
        program = bind_program(
            "CREATE STREAM s (t BIGINT, n BIGINT) TIMESTAMP BY t FROM 'csv:s.csv';\n"
            f"{index}CREATE QUERY q INTO 'noop:' AS SELECT MEDIAN(n) AS m, COUNT(DISTINCT n) AS d "
            f"FROM s [RANGE {setting.basic_windows} SEC SLIDE 1 SEC];"
        )
        self.plan: RunPlan = plan_run(program)
        self._spec = next(spec for spec in self.plan.synopses if spec.of is None)
        self.group = QueryGroup(self._spec, self.plan.stream("s"))
        self.group.begin(_SECOND)
        synopsis = self.group.synopsis
        assert isinstance(synopsis, BasicIntervalSynopsis)
        self.synopsis = synopsis
        (argument,) = self._spec.values
        self.kind = "sorted run"
        defined = index_on(self._spec, argument, program.indexes)
        if defined is not None:
            chosen = choose_value_index(
                defined, self._spec, argument, self.plan.queries, self.plan.stream("s")
            )
            if not isinstance(chosen, IndexChoice):
                raise InternalError(chosen)
            synopsis.values[argument].answer_from(chosen.spec)
            self.kind = str(chosen.spec)
        self.now = 0

    def take(self, sub_windows: Sequence[pa.Array]) -> None:
        """What tasks make of sub-windows, and the driver takes in."""
        ends = self.now + _SECOND * np.arange(1, len(sub_windows) + 1)
        ts = np.repeat(ends, [len(values) for values in sub_windows])
        table = pa.table({"t": ts, "n": pa.concat_arrays(sub_windows)})
        for partial in preaggregate(ts, table, self.plan.synopses):
            self.synopsis.absorb(partial)
        self.now += _SECOND * len(sub_windows)


class _Asked(_Fed):
    """Only the structure that holds the values is timed, as far as the two answers."""

    def __init__(self, setting: Setting, fill: Sequence[pa.Array], *, is_indexed: bool) -> None:
        super().__init__(setting, is_indexed=is_indexed)
        (query,) = self.plan.queries
        self._range = query.window.range
        self._states = ValueStates(self.synopsis, WindowKey(self._range), query.select.aggregates)
        self.answer: Both = 0, 0
        self.take(fill)
        self._move()

    def slide(self, sub_windows: Sequence[pa.Array]) -> float:
        """Seconds."""
        spent = 0.0
        for values in sub_windows:
            self.take([values])
            spent += self._move()
        return spent

    def _move(self) -> float:
        synopsis, measures = self.synopsis, len(self.synopsis.layout.operations)
        synopsis.seal(self.now)
        synopsis.move_to(self.now)
        slots = np.zeros(1, dtype=np.int64)
        began = time.process_time()
        self._states.advance(self.now)
        found = self._states.beside(np.zeros((1, measures), dtype=np.int64), slots)
        spent = time.process_time() - began
        median, _, distinct, _ = found[0, measures:]
        self.answer = int(median), int(distinct)
        pane = synopsis.spec.panes.number_at(self.now - self._range)
        synopsis.trim(synopsis.log.position_after(pane))
        return spent


class _Whole(_Fed):
    """Everything is timed, in batches of so many sub-windows."""

    def __init__(self, setting: Setting, fill: Sequence[pa.Array], batch: int) -> None:
        super().__init__(setting)
        self.group.add(self.plan.queries, {})
        self._batch = batch
        self.answer: Both = 0, 0
        self.slide(fill)

    def slide(self, sub_windows: Sequence[pa.Array]) -> float:
        """Seconds."""
        spent = 0.0
        for batch in _cut(sub_windows, self._batch):
            began = time.process_time()
            self.take(batch)
            tables = [table for _, table in answer_together([self.group], self.now)]
            self.group.settle(self.now)
            spent += time.process_time() - began
            if tables:
                *_, last = tables[-1].to_pylist()
                self.answer = last["m"], last["d"]
        return spent


class _Rescanned:
    """NumPy over the window; only some of the sub-windows of a round are answered."""

    def __init__(self, fill: Sequence[pa.Array], answers: int) -> None:
        self._window = Unindexed(fill)
        self._answers = answers
        self.answer: Both = 0, 0

    def slide(self, sub_windows: Sequence[pa.Array]) -> float:
        """Seconds, had it answered all."""
        spent, first = 0.0, max(0, len(sub_windows) - self._answers)
        for number, values in enumerate(sub_windows):
            began = time.process_time()
            self._window.slide(values)
            if number >= first:
                self.answer = self._window.median_and_distinct()
                spent += time.process_time() - began
        return spent * len(sub_windows) / (len(sub_windows) - first)

    def by_functions(self) -> float:
        """Seconds that NumPy's own functions take once."""
        began = time.process_time()
        window = self._window.window()
        distinct, median = len(np.unique(window)), np.median(window)
        spent = time.process_time() - began
        if distinct != self.answer[1] or abs(median - self.answer[0]) > 1:
            raise InternalError(f"NumPy's functions find {median} and {distinct}, not {self.answer}")
        return spent


def _cut(sub_windows: Sequence[pa.Array], batch: int) -> Iterator[Sequence[pa.Array]]:
    for first in range(0, len(sub_windows), batch):
        yield sub_windows[first : first + batch]


def _measured(setting: Setting, sizes: Sizes) -> dict[str, Cell]:
    batch = max(1, sizes.batch // setting.each)
    given = input_of(setting, batch * setting.each, sizes.rounds)
    by_index, by_run = (_Asked(setting, given.fill, is_indexed=with_index) for with_index in (True, False))
    again = _Rescanned(given.fill, sizes.rescans)
    whole, alone = _Whole(setting, given.fill, batch), _Whole(setting, given.fill, 1)
    ways: dict[str, _Asked | _Whole | _Rescanned] = {
        "index": by_index,
        "run": by_run,
        "whole": whole,
        "alone": alone,
        "rescan": again,
    }
    spent = _raced({name: way.slide for name, way in ways.items()}, given.rounds)
    answers = {name: way.answer for name, way in ways.items()}
    if len(set(answers.values())) != 1:
        raise InternalError(f"answers differ: {answers}")
    row: dict[str, Cell] = {
        "drawn": setting.distribution,
        "values": setting.values,
        "sub-windows": setting.basic_windows,
        "index": by_index.kind,
    }
    row.update({f"{name} ms": each for name, each in spent.items()})
    row["median, unique ms"] = 1e3 * min(again.by_functions() for _ in range(2))
    row.update({f"{name} ratio": spent["rescan"] / each for name, each in spent.items() if name != "rescan"})
    return row


def _raced(
    ways: Mapping[str, Callable[[Sequence[pa.Array]], float]], rounds: Sequence[Sequence[pa.Array]]
) -> dict[str, float]:
    """Milliseconds a sub-window of each way, in its fastest round after the first, which compiles."""
    best = dict.fromkeys(ways, float("inf"))
    for number, sub_windows in enumerate(rounds):
        for name, slide in ways.items():
            each = 1e3 * slide(sub_windows) / len(sub_windows)
            if number or len(rounds) == 1:
                best[name] = min(best[name], each)
    return best


def _claims(rows: Sequence[Mapping[str, Cell]], sizes: Sizes) -> list[Claim]:
    def shown(column: str) -> str:
        parts = []
        for count in sizes.sub_windows:
            ratios = [float(row[column] or 0) for row in rows if row["sub-windows"] == count]
            parts.append(f"{min(ratios):.1f} to {max(ratios):.1f} × with {count:,} sub-windows")
        return ", ".join(parts)

    def least(column: str) -> float:
        return min(float(row[column] or 0) for row in rows)

    texts = {
        "index": ("by the chosen index", "an index pays for the values that come and go"),
        "run": (
            "by the sorted run that there is without CREATE INDEX",
            "a run pays for the different values of the window",
        ),
        "whole": (
            "by all that tasks and driver do for a boundary",
            "the rows of a sub-window are counted and put in order first; 10,000 tuples with nearly as many "
            "values take a twentieth of the time for that in which NumPy sorts a million",
        ),
        "alone": (
            "by all that tasks and driver do for a boundary that is a batch of its own",
            "a batch has some 0.5 ms of Python around it, whatever is in it",
        ),
    }
    return [
        Claim(
            name,
            f"both over {sizes.tuples:,} tuples are {LEAST} times as fast {how} as by NumPy",
            f"≥ {LEAST} ×",
            shown(f"{name} ratio"),
            least(f"{name} ratio") >= LEAST,
            because,
        )
        for name, (how, because) in texts.items()
    ]


def draw(result: Result, path: Path) -> None:
    groups = [f"{row['drawn']} {row['values']:,}\nn {row['sub-windows']}" for row in result.table]
    names = ("index ms", "run ms", "whole ms", "alone ms", "rescan ms")
    bars = {name: [float(row[name] or 0) for row in result.table] for name in names}
    draw_bars(f"Refreshed values ({result.scale})", "ms a sub-window", groups, bars, path, is_log=True)
