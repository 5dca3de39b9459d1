"""Explanations as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

from sash.errors import SashError
from sash.lang import Program
from sash.lang.bound import QueryDefinition
from sash.plan.cost import Statistics
from sash.plan.explain.build import duration, explain
from sash.plan.explain.tree import Explained, Step
from sash.plan.periodic import PeriodicPlan, SynopsisSpec, plan_periodic

__all__ = ["duration", "explain_program", "to_json", "to_text"]


def explain_program(program: Program, form: str = "text") -> str:
    """Every query and EXPLAIN of a program, then what the queries share."""
    found = explanations(program)
    if form == "json":
        return to_json(found)
    parts = [to_text(explained) for explained in found]
    return "\n\n".join(parts)


def explanations(program: Program) -> list[Explained]:
    """The explanation of each query and EXPLAIN statement, in order."""
    asked = [
        QueryDefinition(definition.query or f"explain {number}", "", definition.plan, definition.options)
        for number, definition in enumerate(program.explains, start=1)
    ]
    queries = (*program.queries, *asked)
    periodic = plan_periodic(program.streams, [query for query in queries if query.select is not None])
    statistics = Statistics.from_definitions((*program.streams, *program.relations))
    found = []
    for query in queries:
        try:
            notes = tuple(_notes(query, periodic))
            found.append(explain(query.name, query.sink, query.plan, statistics, dict(query.options), notes))
        except SashError as error:
            error.place = error.place or query.place
            raise
    return found


def _notes(query: QueryDefinition, plan: PeriodicPlan) -> Iterator[str]:
    """How the periodic runtime answers the query, if it does."""
    if query.select is None:
        yield "no runtime executes this yet"
        return
    planned = next(each for each in plan.queries if each.name == query.name)
    spec = next(each for each in plan.synopses if each.name == planned.synopsis)
    count = spec.panes.count_in(planned.window.range) - 1
    others = [other.name for other in plan.queries_of(spec.name) if other.name != query.name]
    shared = f", shared with {', '.join(others)}" if others else ""
    yield f"answered from {spec.name}: basic interval synopsis, {count} panes of {_panes(spec)}{shared}"
    keys = ", ".join(key.text for key in spec.keys)
    measures = ", ".join(str(measure) for measure in spec.measures)
    yield f"{spec.name} keeps per pane{' and ' + keys if keys else ''}: {measures}; 1 pass over the input"


def _panes(spec: SynopsisSpec) -> str:
    offsets = spec.panes.offsets
    if len(offsets) == 1:
        return duration(spec.panes.period)
    return f"{duration(spec.panes.period)} / {len(offsets)}"


def to_text(explained: Explained) -> str:
    """A tree, one operator a line, with what it keeps under it."""
    target = f" → {explained.sink}" if explained.sink else ""
    lines = [f"{explained.name}{target}"]
    lines.append(f"strategy {explained.strategy}, cost {explained.cost:,.0f} a second")
    lines.extend(_step_lines(explained.tree, "", ""))
    if explained.rewrites:
        lines.append(f"rewrites: {', '.join(explained.rewrites)}")
    if len(explained.considered) > 1:
        considered = (f"{each.name} ({each.cost:,.0f})" for each in explained.considered)
        lines.append(f"considered: {'; '.join(considered)}")
    lines.extend(explained.notes)
    return "\n".join(lines)


def _step_lines(step: Step, margin: str, below: str) -> Iterator[str]:
    how = f" · {step.implementation}" if step.implementation else ""
    detail = f" {step.detail}" if step.detail else ""
    yield f"{margin}{step.operator}{detail}{how}  ▸ {step.pattern}, {_rate(step.rate)}"
    bar = "│ " if step.inputs else "  "
    for held in step.state:
        yield f"{below}{bar}  ⌸ {held}"
    for position, child in enumerate(step.inputs):
        is_last = position == len(step.inputs) - 1
        yield from _step_lines(
            child, below + ("└─ " if is_last else "├─ "), below + ("   " if is_last else "│  ")
        )


def _rate(rate: float) -> str:
    return f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.2g}/s"


def to_json(found: list[Explained]) -> str:
    return json.dumps([asdict(explained) for explained in found], indent=2, ensure_ascii=False)
