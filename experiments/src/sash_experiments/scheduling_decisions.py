"""scheduling-decisions: how long the scheduler thinks, with 2,000 queries.

Queries of 10 groups, with periods from 1 to 50 updates, under the default policy; ten decisions an update at
the most, so that it is overloaded and takes late tasks together. Times are of the thread, so other work on
the machine does not count. Dividing a group into tasks anew after a query came or went is measured apart.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import numpy as np

from sash.scheduling import DEFAULT, Scheduler, Semantics, Standing
from sash.sharing import Work
from sash_experiments.charts import draw_bars
from sash_experiments.result import Cell, Claim, Note, Result, silent

NAME = "scheduling-decisions"
TITLE = "milliseconds of a scheduling decision, with up to 2,000 queries"

QUERIES = (200, 1_000, 2_000)
_GROUPS = 10
_UPDATES = {"small": 300, "paper": 3_000}
_DECISIONS = 10
_CHANGES = 20
_LIMIT_MS = 1.0


def measure(scale: str, note: Note = silent) -> Result:
    table: list[dict[str, Cell]] = []
    _run(50, Semantics.ELASTIC, 20)
    for step, count in enumerate(QUERIES):
        for semantics in Semantics:
            note(f"{count} queries, {semantics.value}", step / len(QUERIES))
            decisions, changes, executed = _run(count, semantics, _UPDATES[scale])
            table.append(
                {
                    "queries": count,
                    "semantics": semantics.value,
                    "decisions": len(decisions),
                    "queries a decision": executed / len(decisions),
                    "median ms": float(np.median(decisions)),
                    "99 % ms": float(np.quantile(decisions, 0.99)),
                    "worst ms": float(decisions.max()),
                    "after a change ms": float(np.median(changes)),
                }
            )
    most = [row for row in table if row["queries"] == QUERIES[-1]]
    usual = max(float(row["99 % ms"] or 0) for row in most)
    slowest = max(float(row["worst ms"] or 0) for row in most)
    claim = Claim(
        "decision",
        "a decision among 2,000 queries takes less than a millisecond",
        f"< {_LIMIT_MS:g} ms",
        f"99 % within {usual:.2f} ms, worst {slowest:.2f} ms",
        slowest < _LIMIT_MS,
    )
    return Result(NAME, TITLE, scale, table, [claim])


def _run(count: int, semantics: Semantics, updates: int) -> tuple[np.ndarray, list[float], int]:
    """Milliseconds of each decision and of each change, and how many queries were executed."""
    chance = random.Random(count)
    scheduler = Scheduler(DEFAULT, semantics)
    for number in range(count):
        scheduler.put(_query(number, chance))
    scheduler.arrange()
    decisions: list[float] = []
    executed = 0
    for now in range(1, updates + 1):
        scheduler.updated(now)
        for _ in range(_DECISIONS):
            started = time.thread_time()
            execution = scheduler.next()
            decisions.append(1e3 * (time.thread_time() - started))
            if execution is None:
                break
            executed += len(execution.queries)
    changes = []
    for number in range(count, count + _CHANGES):
        started = time.thread_time()
        scheduler.put(_query(number, chance))
        scheduler.arrange()
        changes.append(1e3 * (time.thread_time() - started))
    return np.array(decisions), changes, executed


def _query(number: int, chance: random.Random) -> Standing:
    window = chance.randint(20, 100)
    group = f"g{number % _GROUPS}"
    return Standing(f"q{number}", group, chance.randint(1, window // 2), work=Work({group: window - 1.0}))


def draw(result: Result, path: Path) -> None:
    names = [f"{row['queries']}\n{row['semantics']}" for row in result.table]
    bars = {
        column: [float(row[column] or 0) for row in result.table]
        for column in ("median ms", "99 % ms", "worst ms")
    }
    draw_bars(f"Scheduling decisions ({result.scale})", "milliseconds", names, bars, path)
