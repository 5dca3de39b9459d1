"""query-scheduling: who is executed when, and with whom (002, section 8.5, figures 8.7 to 8.10).

A simulation. Time, updates and the load are simulated; decisions are made by `sash.scheduling` itself. What
an execution costs is a model whose coefficients are measured here first: nanoseconds to merge one counter of
an interval into a total, and to post-process one counter of a total (its share of a top-k list). An
execution merges the counters of the youngest intervals once for all queries that are executed together, and
post-processes for each query on its own. An update merges one interval for each synopsis. All is simulated
twice: with both costs, and with scans alone, because nobody can share what a query does on its own.

Eight groups of queries over basic interval synopses of counters, 40 to 240 queries with windows of 20 to 100
updates and periods from one to half of the window; all synopses are updated every second. The high rate has
twice the tuples and twice as many values in every field. Machines have become faster since: the simulated one
is slowed down until conservative scheduling of 40 queries at the low rate asks for a little more than it can
do, because the published latencies are above zero there. That factor is the one free parameter; the claims
are also looked at with a machine half as fast.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sash.scheduling import (
    AGGRESSIVE,
    CONSERVATIVE,
    DEFAULT,
    HYBRID,
    NO_SHARING,
    Policy,
    Scheduler,
    Semantics,
    Standing,
    cost_rate,
    with_late_sharing,
)
from sash.sharing import Work, joint_cost
from sash.state import kernels
from sash_experiments.charts import Panel, draw_lines
from sash_experiments.result import Cell, Claim, Note, Result, silent

NAME = "query-scheduling"
TITLE = "throughput and lateness of schedules that share executions (002, figures 8.7 to 8.10)"

TECHNIQUES: dict[str, Policy] = {
    "No-S": NO_SHARING,
    "AS": AGGRESSIVE,
    "CS": CONSERVATIVE,
    "HS": HYBRID,
    "H-LS": with_late_sharing(HYBRID),
    "H-LP": DEFAULT,
}
QUERIES = (40, 80, 160, 240)
LOW, HIGH = 1_500, 3_000
# Different values of a field at the low rate. Sources and destinations are there twice, as a top-k list and
# as quantiles: eight groups are published and six are named.
FIELDS = {
    "source": 1_000,
    "destination": 1_000,
    "pair": 1_000_000,
    "protocol": 100,
    "port": 100,
    "protocol and port": 10_000,
    "source, quantiles": 1_000,
    "destination, quantiles": 1_000,
}
# How much more conservative scheduling of 40 queries asks for than the machine can do, at the low rate.
_OVERLOAD = 1.2
_UPDATES = {"small": 600, "paper": 3_600}
_WARM_UP = 200
_WORKLOADS = {"small": 2, "paper": 8}
_MEASURED_ROWS = 200_000

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Coefficients:
    """Nanoseconds a counter: merged into a total, post-processed."""

    merge: float
    post: float


@dataclass(frozen=True, slots=True)
class Seen:
    """`throughput`: queries executed a second. `lateness`: updates beyond the period, on the average.

    `tasks`: how many tasks there are a group; `load`: the share of the time in which the machine works.
    """

    throughput: float
    lateness: float
    tasks: float
    load: float


def measure_coefficients() -> Coefficients:
    """On this machine: the compiled merge of a synopsis, and NumPy's partial sort."""
    rng = np.random.default_rng(0)
    groups = 1_000
    slots = rng.integers(0, groups, _MEASURED_ROWS)
    panes = np.zeros(_MEASURED_ROWS, dtype=np.int64)
    ints, floats = np.ones((_MEASURED_ROWS, 1), dtype=np.int64), np.zeros((_MEASURED_ROWS, 0))
    ops = np.array([kernels.ADD], dtype=np.int64)

    def merge() -> None:
        totals, newest = np.zeros((groups, 1), dtype=np.int64), np.zeros((groups, 1), dtype=np.int64)
        kernels.enter(
            slots, panes, ints, floats, 0, _MEASURED_ROWS, ops, totals, np.zeros((groups, 0)), newest
        )

    totals = rng.integers(0, 1 << 20, groups)

    def post() -> None:
        top = np.argpartition(totals, groups - 10)[groups - 10 :]
        top[np.argsort(-totals[top])]

    merge()
    merging = min(_timed(merge) for _ in range(5)) / _MEASURED_ROWS
    finishing = min(_timed(post) for _ in range(200)) / groups
    return Coefficients(merging * 1e9, finishing * 1e9)


def _timed(work: object) -> float:
    assert callable(work)
    started = time.thread_time()
    work()
    return time.thread_time() - started


def distinct(values: int, tuples: float) -> float:
    """How many different values that many tuples have, of as many that are equally likely."""
    return values * (1 - math.exp(-tuples / values))


def workload(count: int, rate: int, seed: int, unit: Coefficients) -> list[Standing]:
    """Queries with the work of an execution in nanoseconds of this machine."""
    chance = random.Random(seed)
    queries = []
    for group, values in FIELDS.items():
        values *= rate // LOW
        for number in range(count // len(FIELDS)):
            window = chance.randint(20, 100)
            period = chance.randint(1, window // 2)
            scan = unit.merge * window * distinct(values, rate)
            post = unit.post * distinct(values, rate * window)
            work = Work({group: scan}, post)
            queries.append(Standing(f"{group} {number}", group, period, work=work))
    return queries


def update_cost(rate: int, unit: Coefficients) -> float:
    return sum(unit.merge * distinct(values * (rate // LOW), rate) for values in FIELDS.values())


def demand(queries: Sequence[Standing], policy: Policy, rate: int, unit: Coefficients) -> float:
    """Nanoseconds a second that a schedule asks for if nothing is late."""
    groups: dict[str, list[Standing]] = {}
    for query in queries:
        groups.setdefault(query.group, []).append(query)
    blocks = (policy.divide(members, Semantics.ELASTIC) for members in groups.values())
    return sum(cost_rate(each) for each in blocks) + update_cost(rate, unit)


def simulate(
    queries: Sequence[Standing], policy: Policy, update: float, slowness: float, updates: int
) -> Seen:
    """One machine that is never idle while anything has changed, as in Algorithms 9 to 11.

    Updates come every second and go before executions; `slowness` is simulated seconds a nanosecond.
    """
    scheduler = Scheduler(policy, Semantics.ELASTIC, is_eager=True)
    work = {query.name: query.work for query in queries}
    for query in queries:
        scheduler.put(query)
    clock, tick, busy = 0.0, 0, 0.0
    executed, late = 0, 0
    while clock < updates:
        while tick + 1 <= clock:
            tick += 1
            clock += update * slowness
            busy += update * slowness
            scheduler.updated(tick)
        execution = scheduler.next()
        if execution is None:
            clock = float(tick + 1)
            continue
        cost = joint_cost(work[name] for name in execution.queries) * slowness
        clock += cost
        busy += cost
        if tick > _WARM_UP:
            executed += len(execution.queries)
            late += int(execution.lateness.sum())
    seconds = clock - _WARM_UP
    tasks = scheduler.tasks()
    return Seen(
        executed / seconds,
        late / max(executed, 1),
        sum(len(each) for each in tasks.values()) / len(tasks),
        busy / clock,
    )


Key = tuple[int, int, str]
Found = dict[Key, Seen]
BOTH, SCANS = "both", "scans"
_NAMES = {BOTH: "scans and post-processing", SCANS: "scans alone"}
_SPEEDS = (1.0, 0.5)


def measure(scale: str, note: Note = silent) -> Result:
    measured = measure_coefficients()
    units = {BOTH: measured, SCANS: Coefficients(measured.merge, 0.0)}
    seen: dict[str, dict[float, Found]] = {}
    for number, (costs, unit) in enumerate(units.items()):
        seeds = range(_WORKLOADS[scale])
        asked = np.mean([demand(workload(40, LOW, seed, unit), CONSERVATIVE, LOW, unit) for seed in seeds])
        seen[costs] = {}
        for step, speed in enumerate(_SPEEDS):
            note(f"{_NAMES[costs]}, speed {speed:g}", (number * len(_SPEEDS) + step) / (2 * len(_SPEEDS)))
            seen[costs][speed] = _sweep(scale, unit, _OVERLOAD / float(asked) / speed)
    table: list[dict[str, Cell]] = [
        {
            "costs": costs,
            "tuples/s": rate,
            "queries": count,
            "technique": name,
            "executed/s": each.throughput,
            "mean lateness": each.lateness,
            "tasks a group": each.tasks,
            "load": each.load,
        }
        for costs, speeds in seen.items()
        for (rate, count, name), each in speeds[1.0].items()
    ]
    claims = [claim for costs, speeds in seen.items() for claim in _claims(costs, speeds)]
    costs_text = f"{measured.merge:.1f} ns to merge a counter, {measured.post:.1f} ns to post-process one"
    claims.append(_worst(seen, costs_text))
    claims.append(_fewer_tasks(seen))
    return Result(NAME, TITLE, scale, table, claims)


def _sweep(scale: str, unit: Coefficients, slowness: float) -> Found:
    found: Found = {}
    for rate in (LOW, HIGH):
        update = update_cost(rate, unit)
        for count in QUERIES:
            workloads = [workload(count, rate, seed, unit) for seed in range(_WORKLOADS[scale])]
            for name, policy in TECHNIQUES.items():
                each = [simulate(queries, policy, update, slowness, _UPDATES[scale]) for queries in workloads]
                found[rate, count, name] = Seen(
                    *(float(np.mean([getattr(s, f) for s in each])) for f in Seen.__slots__)
                )
    return found


def _ratios(found: Found, rate: int, one: str, other: str, what: str) -> list[float]:
    """How many times as much of something the one has as the other, by number of queries."""
    return [
        getattr(found[rate, count, one], what) / max(getattr(found[rate, count, other], what), 1e-3)
        for count in QUERIES
    ]


def _shown(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.3g} ×" for value in values)


def _claims(costs: str, speeds: dict[float, Found]) -> list[Claim]:
    base, slow = speeds[1.0], speeds[0.5]
    name = _NAMES[costs]
    counts = ", ".join(map(str, QUERIES))
    hybrid = _ratios(base, LOW, "HS", "CS", "throughput")
    later = _ratios(base, LOW, "CS", "HS", "lateness")
    pending = _ratios(base, HIGH, "H-LP", "HS", "throughput")
    lateness = ", ".join(
        f"{base[LOW, count, 'CS'].lateness:.3g} → {base[LOW, count, 'HS'].lateness:.3g}" for count in QUERIES
    )
    slower = {
        key: _shown(_ratios(slow, *which))
        for key, which in {
            "hybrid": (LOW, "HS", "CS", "throughput"),
            "later": (LOW, "CS", "HS", "lateness"),
            "pending": (HIGH, "H-LP", "HS", "throughput"),
        }.items()
    }
    return [
        Claim(
            f"hybrid-throughput, {costs}",
            f"low rate: hybrid at least doubles the throughput of conservative ({counts} queries; {name})",
            "≥ 2 ×",
            _shown(hybrid),
            min(hybrid) >= 2,
            f"on a machine half as fast {slower['hybrid']}",
        ),
        Claim(
            f"hybrid-lateness, {costs}",
            f"low rate: hybrid is an order of magnitude less late than conservative ({name})",
            "≥ 10 ×",
            _shown(later),
            min(later) >= 10,
            f"mean lateness {lateness}; on a machine half as fast {slower['later']}",
        ),
        Claim(
            f"late-pending-throughput, {costs}",
            f"high rate: late-pending sharing at least doubles the throughput of hybrid ({name})",
            "≥ 2 ×",
            _shown(pending),
            min(pending) >= 2,
            f"the more queries, the more are late at once; on a machine half as fast {slower['pending']}",
        ),
    ]


def _worst(seen: dict[str, dict[float, Found]], costs: str) -> Claim:
    cases = [
        (found[1.0], rate, count) for found in seen.values() for rate in (LOW, HIGH) for count in QUERIES
    ]
    worst = [
        found
        for found, rate, count in cases
        if min(TECHNIQUES, key=lambda name: found[rate, count, name].throughput) == "No-S"
        and max(TECHNIQUES, key=lambda name: found[rate, count, name].lateness) == "No-S"
    ]
    return Claim(
        "no-sharing-worst",
        "no sharing has the lowest throughput and the greatest lateness",
        "everywhere",
        f"in {len(worst)} of {len(cases)} cases",
        len(worst) == len(cases),
        f"costs measured: {costs}",
    )


def _fewer_tasks(seen: dict[str, dict[float, Found]]) -> Claim:
    shares = [
        found[1.0][LOW, count, "HS"].tasks / found[1.0][LOW, count, "CS"].tasks
        for found in seen.values()
        for count in QUERIES
    ]
    return Claim(
        "fewer-tasks",
        "hybrid shortens the periods of more than half of the sub-groups",
        "about half as many tasks",
        _shown(shares),
        max(shares) <= 0.5,
        "with post-processing, then with scans alone, where merging costs less",
    )


def draw(result: Result, path: Path) -> None:
    panels = []
    for costs in (BOTH, SCANS):
        for rate, figures in ((LOW, ("8.7", "8.8")), (HIGH, ("8.9", "8.10"))):
            for column, figure, y in (
                ("executed/s", figures[0], "queries executed a second"),
                ("mean lateness", figures[1], "mean lateness, updates"),
            ):
                lines = {
                    name: [
                        (float(row["queries"] or 0), float(row[column] or 0))
                        for row in result.table
                        if (row["technique"], row["tuples/s"], row["costs"]) == (name, rate, costs)
                    ]
                    for name in TECHNIQUES
                }
                title = f"{rate:,} tuples/s, {_NAMES[costs]} (figure {figure})"
                panels.append(Panel(title, "queries", y, lines, is_log_x=False, is_log_y=False))
    draw_lines(f"Schedules that share executions ({result.scale})", panels, path)
