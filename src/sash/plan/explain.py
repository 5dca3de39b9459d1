"""EXPLAIN: how the queries of a program will be answered, as deterministic text."""

from __future__ import annotations

from collections.abc import Iterator

from sash.lang import Program
from sash.lang.bound import AggregateCall, BoundSelect, OutputOperator, QueryDefinition, StreamDefinition
from sash.plan.periodic import PeriodicPlan, PeriodicQuery, SynopsisSpec, plan_periodic

_UNITS = ((86_400_000_000, "d"), (3_600_000_000, "h"), (60_000_000, "min"), (1_000_000, "s"), (1_000, "ms"))


def explain_program(program: Program) -> str:
    """One tree per query and EXPLAIN statement, then what the queries share."""
    explained = [
        QueryDefinition(f"explain {number}", "", definition.select, definition.text)
        for number, definition in enumerate(program.explains, start=1)
    ]
    plan = plan_periodic(program.streams, (*program.queries, *explained))
    parts = ["\n".join(_query_lines(plan, query)) for query in plan.queries]
    parts.append("\n".join(_input_lines(plan)))
    return "\n\n".join(part for part in parts if part)


def duration(micros: int) -> str:
    """A length of time in the largest unit that divides it."""
    for size, unit in _UNITS:
        if micros and micros % size == 0:
            return f"{micros // size} {unit}"
    return f"{micros} us"


def _query_lines(plan: PeriodicPlan, query: PeriodicQuery) -> Iterator[str]:
    definition = query.definition
    select = definition.select
    spec = next(spec for spec in plan.synopses if spec.name == query.synopsis)
    target = f" → {definition.sink}" if definition.sink else ""
    yield f"{query.name}{target}"
    steps = [_output(select), "project " + ", ".join(_projection(select))]
    if select.having is not None:
        steps.append(f"having {select.having.text}")
    steps.append(
        f"refresh every {duration(select.window.slide)} over the last {duration(select.window.range)}"
    )
    steps.append(_synopsis(plan, query, spec))
    steps.append(_preaggregation(spec))
    if select.where is not None:
        steps.append(f"select {select.where.text}")
    steps.append(_stream(plan.stream(select.stream)))
    for depth, step in enumerate(steps):
        yield f"{'   ' * depth}└─ {step}"


def _output(select: BoundSelect) -> str:
    match select.operator:
        case OutputOperator.VIEW:
            return "change log of the view (op + and −)"
        case OutputOperator.ISTREAM:
            return "Istream: rows that enter the answer"
        case OutputOperator.DSTREAM:
            return "Dstream: rows that leave the answer"
        case OutputOperator.RSTREAM:
            return "Rstream: the whole answer at every slide"


def _projection(select: BoundSelect) -> Iterator[str]:
    for output in select.outputs:
        text = output.scalar.text
        yield output.name if text in ("", output.name) else f"{text} AS {output.name}"


def _call(call: AggregateCall) -> str:
    return f"{call.function.value}({'*' if call.argument is None else call.argument.text})"


def _synopsis(plan: PeriodicPlan, query: PeriodicQuery, spec: SynopsisSpec) -> str:
    others = [other.name for other in plan.queries_of(spec.name) if other.name != query.name]
    shared = f", shared with {', '.join(others)}" if others else ""
    count = spec.panes.count_in(query.window.range) - 1
    panes = f"{count} pane{'s' if count > 1 else ''} of {_panes(spec)}"
    return f"look up {spec.name}: basic interval synopsis, {panes}{shared}"


def _panes(spec: SynopsisSpec) -> str:
    offsets = spec.panes.offsets
    if len(offsets) == 1:
        return duration(spec.panes.period)
    return f"{duration(spec.panes.period)} / {len(offsets)}"


def _preaggregation(spec: SynopsisSpec) -> str:
    keys = ", ".join(key.text for key in spec.keys)
    measures = ", ".join(str(measure) for measure in spec.measures)
    return f"pre-aggregate per pane{' and ' + keys if keys else ''}: {measures}"


def _stream(stream: StreamDefinition) -> str:
    slack = f", slack {duration(stream.slack)}" if stream.slack else ""
    return f"stream {stream.name} by {stream.timestamp}{slack} from {stream.source}"


def _input_lines(plan: PeriodicPlan) -> Iterator[str]:
    used = [stream for stream in plan.streams if plan.synopses_of(stream.name)]
    if used:
        names = ", ".join(stream.name for stream in used)
        queries = "1 query" if len(plan.queries) == 1 else f"{len(plan.queries)} queries"
        synopses = "1 synopsis" if len(plan.synopses) == 1 else f"{len(plan.synopses)} synopses"
        yield f"{queries}, {synopses}, 1 pass over each batch of {names}"
