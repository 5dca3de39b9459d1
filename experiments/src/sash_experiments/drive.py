"""Drives continuous queries by hand: CQL text, plan, operators, and then one step of time after the other.

What is measured is the dataflow. Scans (selections and projections of streams) run before it, as they do in
the first stage of a run, and are not timed; neither is filling the windows, which is done in large steps,
because what operators give does not depend on how their input is cut.

Operators here take a step's tuples together, where those of 002 take one tuple after the other. A call costs
about the same however little there is to do, so steps must be long enough not to measure only that; and short
enough for expiration to be work at all. Experiments say which step they use, and count work beside the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from sash.engine.ingest.scans import scan_rows
from sash.lang import bind_program
from sash.lang.algebra import Node
from sash.operators.delta import NEVER, Delta
from sash.operators.operator import Moment
from sash.plan.cost import Statistics, estimate
from sash.plan.physical import to_physical
from sash.plan.rules import apply_rules
from sash.plan.run_plan import RunPlan, Scan, leaf_of, plan_run, scan_nodes

SECOND = 1_000_000
"""A time unit of the experiments, in microseconds."""


def planned(text: str, shape: Callable[[Node], Node] | None = None) -> RunPlan:
    """The plan of a program with one query; `shape`, if given, says what it looks like, not the optimizer."""
    program = bind_program(text)
    plan = plan_run(program)
    (query,) = plan.continuous
    if shape is None:
        return plan
    statistics = Statistics.from_definitions(program.streams)
    wanted = shape(apply_rules(query.definition.plan).plan)
    physical = to_physical(estimate(wanted, statistics, query.choices.strategy), query.choices)
    nodes = list(dict.fromkeys(scan_nodes(wanted)))
    scans = tuple(Scan(f"scan{i}", leaf_of(node).name, node) for i, node in enumerate(nodes))
    return replace(plan, continuous=(replace(query, physical=physical),), scans=scans)


def scanned(plan: RunPlan, streams: Mapping[str, pa.Table]) -> dict[str, Delta]:
    """What the scans of a plan make of streams whose first column is the time in whole units."""
    definitions = {stream.name: stream for stream in plan.streams}
    found: dict[str, Delta] = {}
    for scan in plan.scans:
        table = streams[scan.stream]
        ts = np.asarray(table.column(0)) * SECOND
        rows = scan_rows(scan, definitions[scan.stream], ts, table)
        never = np.full(len(rows.ts), NEVER, dtype=np.int64)
        found[scan.name] = Delta(rows.ts, never, rows.columns)
    return found


@dataclass(frozen=True, slots=True)
class Step:
    """Everything that comes by an instant."""

    sources: Mapping[str, Delta]
    moment: Moment


class Feed:
    """The input of a query, cut into steps of time."""

    def __init__(self, plan: RunPlan, streams: Mapping[str, pa.Table]) -> None:
        self._scans = scanned(plan, streams)
        self._first = {
            name: int(table.column(0)[0].as_py()) * SECOND for name, table in streams.items() if len(table)
        }
        self._arrivals = [np.asarray(table.column(0)) for table in streams.values()]

    def tuples(self, after: int, through: int) -> int:
        """Tuples of all streams in (after, through], also those that a scan leaves out."""
        counts = (np.searchsorted(ts, [after, through], side="right") for ts in self._arrivals)
        return sum(int(stop - start) for start, stop in counts)

    def steps(self, after: int, through: int, length: int) -> list[Step]:
        """The input of (after, through], `length` time units at once."""
        return list(self._cut(after, through, length))

    def _cut(self, after: int, through: int, length: int) -> Iterator[Step]:
        for begin in range(after, through, length):
            end = min(begin + length, through)
            sources = {name: _between(delta, begin, end) for name, delta in self._scans.items()}
            yield Step(sources, Moment(end * SECOND, self._first))


def _between(delta: Delta, after: int, through: int) -> Delta:
    start, stop = np.searchsorted(delta.ts, [after * SECOND, through * SECOND], side="right")
    columns = tuple(column.slice(start, stop - start) for column in delta.columns)
    return Delta(delta.ts[start:stop], delta.exp[start:stop], columns)
