"""planning: how long does it take to bind, optimise and explain a query, and a thousand of them?

Users add queries while others run, so planning one must not be felt, and a restart plans all of them before
the first row is read. Ten kinds of queries, none twice: selections, joins of two and three streams, duplicate
elimination, negation, grouping, set operations, sub-queries, windows of rows, periodic aggregates. A program
of all of them is bound and explained as a whole, which also finds what queries share; then as many others are
planned and timed one by one. Planning waits for nothing, so the time is that of the processor: others on the
machine do not count.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt

from sash.lang import Known, bind_program
from sash.plan.cost import Statistics
from sash.plan.explain import explain, explain_program, to_text
from sash_experiments.result import Claim, Note, Result, silent

NAME = "planning"
TITLE = "milliseconds to bind, optimise and explain a query, and seconds for a thousand"

_SCALES = {"small": 1_000, "paper": 5_000}
_MEDIAN_MS, _THOUSAND_S = 20.0, 10.0

STREAMS = """
CREATE STREAM packets (ts TIMESTAMP, src STRING, dst STRING, port BIGINT, length BIGINT)
  TIMESTAMP BY ts FROM 'csv:packets.csv' WITH (rate = 1000, distinct_src = 500);
CREATE STREAM answers (ts TIMESTAMP, src STRING, code BIGINT)
  TIMESTAMP BY ts FROM 'csv:answers.csv' WITH (rate = 200);
CREATE STREAM alarms (ts TIMESTAMP, src STRING, level BIGINT)
  TIMESTAMP BY ts FROM 'csv:alarms.csv' WITH (rate = 1);
CREATE RELATION owners (src STRING, owner STRING) KEY (src) NON RETROACTIVE FROM 'csv:owners.csv';
"""

# Each kind writes its n-th query; lengths of windows and constants differ from query to query.
KINDS: dict[str, Callable[[int], str]] = {
    "selection": lambda n: (
        f"SELECT src, length * 8 AS bits FROM packets [RANGE {n + 1} SEC] WHERE length > {n} AND port = 443"
    ),
    "join of two": lambda n: (
        f"SELECT p.length, a.code FROM packets [RANGE {n + 1} SEC] p, answers [RANGE {n + 2} SEC] a "
        f"WHERE p.src = a.src AND p.length > {n}"
    ),
    "join of three": lambda n: (
        f"SELECT p.dst, a.code, owner FROM packets [RANGE {n + 1} SEC] p, answers [RANGE 1 MIN] a, "
        f"alarms [RANGE {n + 3} MIN] x, owners o "
        f"WHERE p.src = a.src AND a.src = x.src AND x.level > {n} AND p.src = o.src"
    ),
    "distinct": lambda n: (
        f"SELECT DISTINCT p.dst FROM packets [RANGE {n + 1} SEC] p, alarms [RANGE 1 HOUR] a "
        "WHERE p.src = a.src"
    ),
    "negation": lambda n: (
        f"SELECT p.src, a.code FROM packets [RANGE {n + 1} SEC] p, answers [RANGE 10 SEC] a "
        f"WHERE p.src = a.src AND NOT EXISTS (SELECT * FROM alarms [RANGE {n + 5} SEC] x WHERE x.src = p.src)"
    ),
    "grouping": lambda n: (
        f"SELECT src, COUNT(*) AS n, SUM(length) AS bytes FROM packets [RANGE {n + 1} SEC] WHERE port < {n} "
        f"GROUP BY src HAVING SUM(length) > {n}"
    ),
    "set operation": lambda n: (
        f"SELECT src FROM packets [RANGE {n + 1} SEC] EXCEPT SELECT src FROM answers [RANGE {n + 2} SEC]"
    ),
    "sub-query": lambda n: (
        f"SELECT big.host, a.level FROM (SELECT src AS host, length FROM packets [RANGE {n + 1} SEC] "
        f"WHERE length > 2 * {n}) big, alarms [RANGE 5 MIN] a WHERE big.host = a.src AND a.level < {n}"
    ),
    "window of rows": lambda n: (
        f"SELECT dst, length FROM packets [PARTITION BY dst ROWS {n + 1}] WHERE dst <> 'h{n}' AND length > 9"
    ),
    "periodic": lambda n: (
        f"SELECT src, AVG(length) AS mean FROM packets [RANGE {n + 1} MIN SLIDE 10 SEC] WHERE port <> {n} "
        "GROUP BY src HAVING COUNT(*) > 10"
    ),
}


def query(number: int) -> tuple[str, str]:
    """The kind and the CQL of the query of that number; numbers and queries are one to one."""
    kind = list(KINDS)[number % len(KINDS)]
    return kind, f"CREATE QUERY q{number} AS {KINDS[kind](number)};"


def measure(scale: str, note: Note = silent) -> Result:
    count = _SCALES[scale]
    note("planning them all at once", 0.0)
    started = time.process_time()
    text = STREAMS + "\n".join(query(number)[1] for number in range(count))
    explain_program(bind_program(text))
    together = time.process_time() - started
    note("planning one after the other", 0.5)
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    known = Known()
    program = bind_program(STREAMS, known)
    rates = Statistics.from_definitions((*program.streams, *program.relations))
    # Other queries than before: what has been planned once is remembered in part.
    for number in range(count, 2 * count):
        kind, text = query(number)
        started = time.process_time()
        definition = bind_program(text, known).queries[-1]
        to_text(explain(definition.name, definition.sink, definition.plan, rates))
        times[kind].append(1_000 * (time.process_time() - started))
        del known.queries[definition.name]
    table: list[dict[str, str | int | float | None]] = [
        {
            "queries": kind,
            "number": len(found),
            "median ms": statistics.median(found),
            "worst ms": max(found),
            "seconds": sum(found) / 1_000,
        }
        for kind, found in times.items()
    ]
    median = statistics.median(each for found in times.values() for each in found)
    table.append(
        {
            "queries": "all in one program",
            "number": count,
            "median ms": None,
            "worst ms": None,
            "seconds": together,
        }
    )
    return Result(NAME, TITLE, scale, table, _claims(median, 1_000 * together / count))


def _claims(median: float, thousand: float) -> list[Claim]:
    return [
        Claim(
            "one-query",
            "planning one query takes milliseconds",
            f"median < {_MEDIAN_MS:.0f} ms",
            f"{median:.1f} ms",
            median < _MEDIAN_MS,
        ),
        Claim(
            "thousand-queries",
            "planning 1,000 queries takes less than ten seconds",
            f"< {_THOUSAND_S:.0f} s",
            f"{thousand:.1f} s",
            thousand < _THOUSAND_S,
        ),
    ]


def draw(result: Result, path: Path) -> None:
    rows = [row for row in result.table if row["median ms"] is not None]
    names = [str(row["queries"]) for row in rows]
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    bars = axes.barh(names, [float(row["median ms"] or 0) for row in rows], color="#2f6f9f")
    axes.bar_label(bars, fmt="%.1f", padding=3)
    axes.axvline(_MEDIAN_MS, color="#b5533c", linewidth=1, linestyle="--")
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds a query (median)")
    axes.set_title(f"Binding, optimising and explaining ({result.scale})")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
