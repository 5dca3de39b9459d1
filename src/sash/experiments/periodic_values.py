"""periodic-values: a refreshed MEDIAN and COUNT(DISTINCT) from the structures of a run, against NumPy.

As `index-speed`, but by what a run does: a sub-window is pre-aggregated as its task does it (`count`), and
its values come and go in what the synopsis keeps. `index` is what `CREATE INDEX … USING AUTO` chooses, `run`
the sorted run that there is without it; both as far as the two answers. `whole` is what the driver does for
a boundary with that index, to the table that a sink gets; its ratio has `count` in it, too.
NumPy sorts the window once for both answers. Times are of the processor.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from sash.errors import InternalError
from sash.experiments.charts import draw_bars
from sash.experiments.index_windows import POWER_LAW, UNIFORM, Setting, Unindexed, input_of
from sash.experiments.result import Cell, Claim, Note, Result, silent
from sash.lang import bind_program
from sash.operators.preaggregate import Partial, preaggregate
from sash.plan.cost.indexes import IndexChoice
from sash.plan.run_plan import RunPlan, plan_run
from sash.plan.value_indexes import choose_value_index, index_on
from sash.runtime.groups import QueryGroup, answer_together
from sash.synopses.basic_interval import BasicIntervalSynopsis, WindowKey
from sash.synopses.value_states import ValueStates

NAME = "periodic-values"
TITLE = "MEDIAN and COUNT(DISTINCT) of a run, refreshed every sub-window, against reading the window again"
LEAST = 20

# A sub-window is a second, and its rows come at its end.
_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Sizes:
    tuples: int = 1_000_000
    values: tuple[int, ...] = (1_000, 10_000, 100_000)
    sub_windows: tuple[int, ...] = (100, 1_000)
    slides: int = 6
    rounds: int = 4


SCALES = {"small": Sizes(), "paper": Sizes(slides=50, rounds=10)}


def measure(scale: str, note: Note = silent) -> Result:
    return measure_at(SCALES[scale], scale, note)


def measure_at(sizes: Sizes, scale: str, note: Note = silent) -> Result:
    cases = [
        Setting(distribution, values, count, sizes.tuples)
        for distribution in (UNIFORM, POWER_LAW)
        for values in sizes.values
        for count in sizes.sub_windows
    ]
    rows = []
    for done, setting in enumerate(cases):
        note(f"{setting.values} values, {setting.basic_windows} sub-windows", done / len(cases))
        rows.append(_measured(setting, sizes))
    return Result(NAME, TITLE, scale, rows, _claims(rows, sizes))


class _Fed:
    """The synopsis of the query, fed a sub-window at a time."""

    def __init__(self, setting: Setting, *, is_indexed: bool) -> None:
        index = "CREATE INDEX i ON s (n) USING AUTO;\n" if is_indexed else ""
        program = bind_program(
            "CREATE STREAM s (t BIGINT, n BIGINT) TIMESTAMP BY t FROM 'csv:s.csv';\n"
            f"{index}CREATE QUERY q INTO 'noop:' AS SELECT MEDIAN(n) AS m, COUNT(DISTINCT n) AS d "
            f"FROM s [RANGE {setting.basic_windows} SEC SLIDE 1 SEC];"
        )
        self.plan: RunPlan = plan_run(program)
        spec = next(spec for spec in self.plan.synopses if spec.of is None)
        (query,) = self.plan.queries
        self.group = QueryGroup(spec, self.plan.stream("s"))
        self.group.begin(_SECOND)
        synopsis = self.group.synopsis
        assert isinstance(synopsis, BasicIntervalSynopsis)
        self._synopsis = synopsis
        self._calls = query.select.aggregates
        (argument,) = spec.values
        self.kind = "sorted run"
        defined = index_on(spec, argument, program.indexes)
        if defined is not None:
            chosen = choose_value_index(defined, spec, argument, self.plan.queries, self.plan.stream("s"))
            if not isinstance(chosen, IndexChoice):
                raise InternalError(chosen)
            synopsis.values[argument].answer_from(chosen.spec)
            self.kind = str(chosen.spec)
        self._states = ValueStates(synopsis, WindowKey(query.window.range), self._calls)
        self.now = 0
        self._range = query.window.range

    def count(self, values: pa.Array) -> list[Partial]:
        """What a task makes of the next sub-window."""
        ts = np.full(len(values), self.now + _SECOND)
        return list(preaggregate(ts, pa.table({"t": ts, "n": values}), self.plan.synopses))

    def take(self, partials: list[Partial]) -> None:
        self.now += _SECOND
        for partial in partials:
            self._synopsis.absorb(partial)

    def answer(self) -> tuple[int, int]:
        """Move the window on to the sub-window that came last, and ask for both aggregates."""
        synopsis = self._synopsis
        synopsis.seal(self.now)
        synopsis.move_to(self.now)
        self._states.advance(self.now)
        slots = np.zeros(1, dtype=np.int64)
        found = self._states.beside(np.zeros((1, len(synopsis.layout.operations)), dtype=np.int64), slots)
        pane = synopsis.spec.panes.number_at(self.now - self._range)
        synopsis.trim(synopsis.log.position_after(pane))
        median, _, distinct, _ = found[0, len(synopsis.layout.operations) :]
        return int(median), int(distinct)


def _measured(setting: Setting, sizes: Sizes) -> dict[str, Cell]:
    given = input_of(setting, sizes.slides * setting.each, sizes.rounds)
    indexed, run, whole = (_Fed(setting, is_indexed=with_index) for with_index in (True, False, True))
    whole.group.add(whole.plan.queries, None)
    plain = Unindexed(given.fill)
    for values in given.fill:
        for fed in (indexed, run, whole):
            fed.take(fed.count(values))
    for _ in answer_together([whole.group], whole.now):
        pass
    answers: dict[str, tuple[int, int]] = {"index": indexed.answer(), "run": run.answer()}
    waiting: dict[str, list[Partial]] = {}

    def count(values: pa.Array) -> None:
        for name, fed in (("index", indexed), ("run", run), ("whole", whole)):
            waiting[name] = fed.count(values)

    def asked(name: str, fed: _Fed) -> Callable[[pa.Array], object]:
        def slide(values: pa.Array) -> object:
            fed.take(waiting[name])
            answers[name] = fed.answer()
            return answers[name]

        return slide

    def refreshed(values: pa.Array) -> object:
        whole.take(waiting["whole"])
        return list(answer_together([whole.group], whole.now))

    def rescanned(values: pa.Array) -> object:
        plain.slide(values)
        ordered = np.sort(plain.window())
        median = ordered[(len(ordered) - 1) // 2]
        answers["rescan"] = int(median), 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))
        return answers["rescan"]

    slides = {"index": asked("index", indexed), "run": asked("run", run), "whole": refreshed}
    spent = _raced({"count": count, **slides, "rescan": rescanned}, given.rounds)
    if len({answers[name] for name in ("index", "run", "rescan")}) != 1:
        raise InternalError(f"answers differ: {answers}")
    return {
        "drawn": setting.distribution,
        "values": setting.values,
        "sub-windows": setting.basic_windows,
        "index": indexed.kind,
        "count ms": spent["count"] / 3,
        "index ms": spent["index"],
        "run ms": spent["run"],
        "whole ms": spent["whole"],
        "rescan ms": spent["rescan"],
        "index ratio": spent["rescan"] / spent["index"],
        "run ratio": spent["rescan"] / spent["run"],
        "whole ratio": spent["rescan"] / (spent["whole"] + spent["count"] / 3),
    }


def _raced(
    steps: Mapping[str, Callable[[pa.Array], object]], rounds: Sequence[Sequence[pa.Array]]
) -> dict[str, float]:
    """Milliseconds a sub-window of each step, in its fastest round after the first, which compiles."""
    best = dict.fromkeys(steps, float("inf"))
    for number, slides in enumerate(rounds):
        spent = dict.fromkeys(steps, 0.0)
        for values in slides:
            for name, step in steps.items():
                began = time.process_time()
                step(values)
                spent[name] += time.process_time() - began
        if number or len(rounds) == 1:
            best = {name: min(best[name], 1e3 * spent[name] / len(slides)) for name in steps}
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
        "index": "by the chosen index",
        "run": "by the sorted run that there is without CREATE INDEX",
        "whole": "by all that tasks and driver do for a boundary",
    }
    return [
        Claim(
            name,
            f"both over {sizes.tuples:,} tuples are {LEAST} times as fast {how} as by NumPy",
            f"≥ {LEAST} ×",
            shown(f"{name} ratio"),
            least(f"{name} ratio") >= LEAST,
            "an index pays for the values that come and go, a run for the different values of the window, "
            "the whole for a table at each boundary besides; a rescan for all tuples",
        )
        for name, how in texts.items()
    ]


def draw(result: Result, path: Path) -> None:
    groups = [f"{row['drawn']} {row['values']:,}\nn {row['sub-windows']}" for row in result.table]
    names = ("index ms", "run ms", "whole ms", "rescan ms")
    bars = {name: [float(row[name] or 0) for row in result.table] for name in names}
    draw_bars(f"Refreshed values ({result.scale})", "ms a sub-window", groups, bars, path, is_log=True)
