"""having-queries: thousands of standing HAVING queries, from text to answers, as groups become more.

Ten thousand queries `SELECT g, COUNT(*) … GROUP BY g HAVING COUNT(*) > v` (and SUM, MAX) with thresholds and
windows of their own are registered over one stream. A fixed number of groups is busy, all others have a row
now and then, so answers are as large whatever the number of groups. What is timed is the driver of a run:
partials of panes in, the answers of all queries out, at each boundary. It is done as the run chooses, and
with the choice taken away: groups found by totals, and groups found by collective indexes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sash.engine.periodic.groups import QueryGroup, answer_together
from sash.errors import InternalError
from sash.lang import bind_program
from sash.operators.preaggregate import preaggregate
from sash.plan.filter_choice import FilterChoice
from sash.plan.run_plan import RunPlan, plan_run
from sash_experiments.charts import Panel, draw_lines
from sash_experiments.result import Cell, Claim, Note, Result, silent

NAME = "having-queries"
TITLE = "standing HAVING queries, end to end, as groups become more"

Ints = npt.NDArray[np.int64]
SECOND = 1_000_000
KINDS = {"COUNT": "COUNT(*)", "SUM": "SUM(n)", "MAX": "MAX(m)"}
WAYS = {"chosen": None, "totals": False, "indexes": True}


@dataclass(frozen=True, slots=True)
class Sizes:
    """A pane has rows of all `busy` groups and of the share `resting` of the others; `panes` are timed."""

    groups: tuple[int, ...] = (5_000, 20_000, 100_000)
    queries: int = 10_000
    windows: int = 40
    longest: int = 60
    busy: int = 200
    resting: float = 0.01
    panes: int = 10


SCALES = {"small": Sizes(), "paper": Sizes(groups=(5_000, 50_000, 500_000, 2_000_000))}


def planned(kind: str, sizes: Sizes) -> RunPlan:
    """Queries of one kind: thresholds that few of the busy groups pass and none of the others."""
    rng = np.random.default_rng(16)
    widths = np.linspace(5, sizes.longest, sizes.windows).astype(int)
    lines = ["CREATE STREAM s (t BIGINT, g BIGINT, n BIGINT, m BIGINT) TIMESTAMP BY t FROM 'csv:s.csv';"]
    for i in range(sizes.queries):
        width = int(widths[i % len(widths)])
        scale = {"COUNT": 20 * width, "SUM": 20_000 * width, "MAX": 100_000}[kind]
        value, call = int(scale * rng.uniform(2.8, 3.0)), KINDS[kind]
        lines.append(
            f"CREATE QUERY q{i} INTO 'noop:' AS Rstream(SELECT g, {call} AS c FROM s "
            f"[RANGE {width} SEC SLIDE 1 SEC] GROUP BY g HAVING {call} > {value});"
        )
    return plan_run(bind_program("\n".join(lines)))


def panes_of(groups: int, sizes: Sizes) -> Iterator[pa.Table]:
    """The rows of one second after another."""
    rng = np.random.default_rng(groups)
    rates = 20 * (1 + 2 * np.arange(sizes.busy) / sizes.busy)
    resting = max(1, int(sizes.resting * (groups - sizes.busy)))
    for second in range(1, sizes.longest + sizes.panes + 1):
        busy = np.repeat(np.arange(sizes.busy), rng.poisson(rates))
        others = sizes.busy + rng.choice(groups - sizes.busy, resting, replace=False)
        keys = np.concatenate([busy, others])
        values = rng.integers(900, 1_100, len(keys))
        is_high = (keys < sizes.busy) & (rng.random(len(keys)) < 0.001)
        high = np.where(is_high, 300 * values, values)
        yield pa.table({"t": np.full(len(keys), second), "g": keys, "n": values, "m": high})


@dataclass(frozen=True, slots=True)
class Seen:
    """Of a boundary: its seconds and the rows of all answers; and what the run says that it chose."""

    seconds: float
    answers: float
    note: str


class _Forced(QueryGroup):
    """A group of queries whose groups are found in a given way."""

    way: bool | None = None

    def _choice_of_filters(self, rows: float, groups: int) -> FilterChoice:
        chosen = super()._choice_of_filters(rows, groups)
        return chosen if self.way is None else FilterChoice(self.way, chosen.reason)


def run(plan: RunPlan, tables: list[pa.Table], way: bool | None, sizes: Sizes) -> tuple[Seen, int]:
    """Fill the windows, then answer boundary by boundary; also gives a number that tells answers apart."""
    (spec,) = plan.synopses
    group = _Forced(spec, plan.stream(spec.stream))
    group.way = way
    group.add(plan.queries, {})
    group.begin(SECOND)
    took, rows, check = [], 0, 0
    first = pa.concat_tables(tables[: sizes.longest])
    for second, table in enumerate((first, *tables[sizes.longest :]), start=sizes.longest):
        ts = np.asarray(table.column("t")) * SECOND
        partials = list(preaggregate(ts, table, plan.synopses))
        began = time.perf_counter()
        for partial in partials:
            group.kept.absorb(partial)
        answers = list(answer_together([group], second * SECOND))
        group.settle(second * SECOND)
        if table is not first:
            took.append(time.perf_counter() - began)
            rows += sum(answer.num_rows for _, answer in answers)
            check += sum(int(name[1:]) * answer.num_rows for name, answer in answers)
    return Seen(float(np.median(took)), rows / sizes.panes, group.notes[-1]), check


def measure(scale: str, note: Note = silent) -> Result:
    return measure_at(SCALES[scale], scale, note)


def measure_at(sizes: Sizes, scale: str, note: Note = silent) -> Result:
    seen: dict[tuple[str, int, str], Seen] = {}
    steps = len(KINDS) * len(sizes.groups)
    for done, kind in enumerate(KINDS):
        note(f"{sizes.queries:,} queries with {kind}", done / len(KINDS))
        plan = planned(kind, sizes)
        for at, groups in enumerate(sizes.groups):
            note(f"{kind}, {groups:,} groups", (done * len(sizes.groups) + at) / steps)
            tables = list(panes_of(groups, sizes))
            checks = set()
            for name, way in WAYS.items():
                seen[kind, groups, name], check = run(plan, tables, way, sizes)
                checks.add(check)
            if len(checks) > 1:
                raise InternalError("answers depend on how groups are found")
    return Result(NAME, TITLE, scale, _table(seen, sizes), _claims(seen, sizes))


def _table(seen: dict[tuple[str, int, str], Seen], sizes: Sizes) -> list[dict[str, Cell]]:
    table: list[dict[str, Cell]] = []
    for kind in KINDS:
        for groups in sizes.groups:
            each = {name: seen[kind, groups, name] for name in WAYS}
            table.append(
                {
                    "having": f"{kind} > v",
                    "groups": groups,
                    "rows a boundary": each["chosen"].answers,
                    "chosen ms": 1e3 * each["chosen"].seconds,
                    "µs a query": 1e6 * each["chosen"].seconds / sizes.queries,
                    "totals ms": 1e3 * each["totals"].seconds,
                    "indexes ms": 1e3 * each["indexes"].seconds,
                    "chose": "indexes" if "found by CI" in each["chosen"].note else "totals",
                }
            )
    return table


def _claims(seen: dict[tuple[str, int, str], Seen], sizes: Sizes) -> list[Claim]:
    least, most = min(sizes.groups), max(sizes.groups)
    growth = {
        kind: seen[kind, most, "chosen"].seconds / seen[kind, least, "chosen"].seconds for kind in KINDS
    }
    each = {kind: 1e6 * seen[kind, most, "chosen"].seconds / sizes.queries for kind in KINDS}
    lost = {
        kind: max(
            seen[kind, groups, "chosen"].seconds
            / min(seen[kind, groups, "totals"].seconds, seen[kind, groups, "indexes"].seconds)
            for groups in sizes.groups
        )
        for kind in KINDS
    }
    return [
        Claim(
            "output-bound",
            f"with {most // least} × the groups and answers of the same size a boundary costs less than 3 ×",
            "< 3 ×",
            ", ".join(f"{kind} {value:.2f} ×" for kind, value in growth.items()),
            max(growth.values()) < 3,
            f"with {most:,} groups, "
            + ", ".join(f"{value:.1f} µs a query ({kind})" for kind, value in each.items())
            + "; the rows of a pane, which grow with the groups, are taken in once for all queries",
        ),
        Claim(
            "well-chosen",
            "what the run chooses costs at most half as much again as the better of totals and indexes",
            "≤ 1.5 ×",
            ", ".join(f"{kind} {value:.2f} ×" for kind, value in lost.items()),
            max(lost.values()) <= 1.5,
        ),
    ]


def draw(result: Result, path: Path) -> None:
    panels = []
    for kind in KINDS:
        rows = [row for row in result.table if row["having"] == f"{kind} > v"]
        lines = {
            name: [(float(row["groups"] or 0), float(row[f"{name} ms"] or 0)) for row in rows]
            for name in WAYS
        }
        panels.append(Panel(f"HAVING {kind} > v", "groups", "ms a boundary", lines))
    draw_lines(f"Standing HAVING queries ({result.scale})", panels, path)
