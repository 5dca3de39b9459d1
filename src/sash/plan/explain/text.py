"""Explanations as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace

from sash.errors import UnknownName, UserError, at_place
from sash.lang import Program
from sash.lang.bound import IndexDefinition, QueryDefinition, Scalar
from sash.plan.choices import check_options
from sash.plan.coarser import WORTH_ADDING, finer_than
from sash.plan.cost import Statistics
from sash.plan.explain.build import duration, plan_and_explain
from sash.plan.explain.indexed import probes
from sash.plan.explain.joined import with_join_synopsis
from sash.plan.explain.measured import Run, measured_text, with_measured
from sash.plan.explain.picture import to_svg
from sash.plan.explain.shared import sharing, with_sharing
from sash.plan.explain.tree import Explained, Step
from sash.plan.filter_choice import index_name
from sash.plan.having import loosest, probe_of
from sash.plan.join_synopses import plan_joins, readers_in
from sash.plan.measures import Kept, algebra_of
from sash.plan.periodic import PeriodicPlan, PeriodicQuery, SynopsisSpec, is_periodic, plan_periodic
from sash.plan.run_plan import sources_in, standing_in
from sash.plan.sketches import BOUNDS, HASHES, POINTS, SketchKind, sketched, written
from sash.plan.synopsis_choice import Method, choose_synopsis, workload_of
from sash.plan.value_indexes import choose_value_index, index_on

FORMS = ("text", "json", "svg")

__all__ = ["FORMS", "asked_queries", "duration", "explain_program", "to_json", "to_text"]


def explain_program(
    program: Program,
    form: str | None = None,
    query: str | None = None,
    run: Run | None = None,
    notes: Mapping[str, tuple[str, ...]] | None = None,
) -> str:
    """Every query and EXPLAIN of a program, or the one that is named, in one of `FORMS`.

    Without a form each EXPLAIN has the one that its FORMAT names, and queries are text. A picture shows one
    query, so it needs a name where there are several. `run` is what was measured for EXPLAIN ANALYZE, `notes`
    what else there is to say, by query.
    """
    found = explanations(program, run)
    if notes:
        found = [replace(each, notes=(*notes.get(each.name, ()), *each.notes)) for each in found]
    forms = ["text"] * len(standing_in(program)) + [definition.format for definition in program.explains]
    if query is not None:
        names = [explained.name for explained in found]
        if query not in names:
            raise UnknownName("query", query, names)
        # An EXPLAIN of a named query comes after it and may have a FORMAT.
        position = max(i for i, name in enumerate(names) if name == query)
        found, forms = [found[position]], [forms[position]]
    if form is None:
        written = {"text": to_text, "json": lambda each: to_json([each]), "svg": to_svg}
        return "\n\n".join(written[own](each).rstrip("\n") for each, own in zip(found, forms, strict=True))
    if form == "json":
        return to_json(found)
    if form == "svg":
        if len(found) != 1:
            raise UserError(
                f"a picture shows one query, and there are {len(found)}",
                hint="name one with --query",
                id="explain-one",
            )
        return to_svg(found[0])
    return "\n\n".join(to_text(explained) for explained in found)


def asked_queries(program: Program) -> tuple[QueryDefinition, ...]:
    """The queries that EXPLAIN statements ask about, each under the name by which it is shown."""
    archives = {archive.name: archive for archive in program.archives}
    return tuple(
        QueryDefinition(
            definition.query or f"explain {number}",
            "",
            definition.plan,
            definition.options,
            archive=archives.get(definition.query or ""),
        )
        for number, definition in enumerate(program.explains, start=1)
    )


def explanations(program: Program, run: Run | None = None) -> list[Explained]:
    """The explanation of each query and EXPLAIN statement, in order."""
    standing = standing_in(program)
    queries = (*standing, *asked_queries(program))
    periodic = plan_periodic(program.streams, [query for query in queries if is_periodic(query)])
    statistics = Statistics.from_definitions((*program.streams, *program.relations))
    operators = {query.name: query for query in queries if not is_periodic(query)}
    joined = readers_in(plan_joins(operators.values(), program.streams, statistics))
    planned = []
    for number, query in enumerate(queries):
        check_options(query)
        with at_place(query.place):
            found = plan_and_explain(query.name, query.sink, query.plan, statistics, dict(query.options))
        # Who reads one join synopsis shares the join; nobody else does.
        read = joined[query.name][0].name if query.name in joined else None
        # Queries of other sources have another watermark.
        alike = found.choices, read, sources_in(query.plan)
        planned.append(replace(found, choices=alike, runs=number < len(standing)))
    # Periodic queries share synopses, which their notes name; the others share operators.
    continuous = (found for found, query in zip(planned, queries, strict=True) if not is_periodic(query))
    shared = iter(with_sharing(continuous))
    explained = []
    for number, (found, query) in enumerate(zip(planned, queries, strict=True)):
        if is_periodic(query):
            synopsis, notes = _synopsis(query, periodic, program.indexes)
            tree = _looked_up(found.explained.tree, synopsis)
            each = replace(found.explained, tree=tree, notes=notes)
        else:
            each = with_join_synopsis(next(shared), query, joined.get(query.name))
        if number >= len(standing) and program.explains[number - len(standing)].query is None:
            each = replace(each, notes=(*each.notes, *probes(found.plan, program)))
        explained.append(each if run is None else with_measured(each, found.plan, query, run, statistics))
    return explained


def _looked_up(step: Step, synopsis: str) -> Step:
    """The tree of a periodic query: its operators above the window keep nothing, the synopsis does."""
    if step.operator == "Window":
        return replace(step, implementation=f"pre-aggregated into {synopsis}", state=())
    inputs = tuple(_looked_up(child, synopsis) for child in step.inputs)
    implementation = f"looked up in {synopsis}" if step.operator in ("Aggregate", "Distinct") else ""
    return replace(step, implementation=implementation, state=(), inputs=inputs)


def _synopsis(
    query: QueryDefinition, plan: PeriodicPlan, indexes: Sequence[IndexDefinition]
) -> tuple[str, tuple[str, ...]]:
    """The synopsis from which the periodic runtime answers the query, and what there is to say of it."""
    planned = next(each for each in plan.queries if each.name == query.name)
    spec = plan.synopsis(planned.synopsis)
    count = spec.panes.count_in(planned.window.range) - 1
    others = [other.name for other in plan.readers_of(spec.name) if other.name != query.name]
    shared = f", shared with {', '.join(others)}" if others else ""
    keys = ", ".join(key.text for key in spec.keys)
    measures = ", ".join(str(measure) for measure in spec.measures)
    panes = f"{count} pane{'s' if count > 1 else ''} of {_panes(spec)}"
    by = f"per pane{' and ' + keys if keys else ''}"
    if spec.cover is not None:
        return spec.name, _covered(spec, plan, f"the window is {panes}{shared}")
    windows = (each.window for each in plan.readers_of(spec.name))
    choice = choose_synopsis(workload_of(spec.panes, spec.measures, windows))
    answered = f"answered from {choice}"
    if spec.keys and choice.method is not Method.BASIC:
        answered = f"answered from basic intervals; where most groups are in most panes, from {choice}"
    return spec.name, (
        f"{spec.name}: the window is {panes}{shared}; {answered}",
        f"{spec.name} keeps {by}: {measures}; 1 pass over the input{_from_finer(spec, plan)}",
        *_beside(planned, spec, by, plan, indexes),
        *_selected(planned, spec, plan),
    )


def _from_finer(spec: SynopsisSpec, plan: PeriodicPlan) -> str:
    finer = finer_than(spec, plan.synopses)
    return (
        f", or added up from {finer[0].name} where that has {WORTH_ADDING} times fewer rows" if finer else ""
    )


def _covered(spec: SynopsisSpec, plan: PeriodicPlan, window: str) -> tuple[str, ...]:
    """What there is to say of a synopsis that is read from others."""
    assert spec.cover is not None
    kind = "SS4, supercover less the rest" if spec.cover.minus else "SS4, disjoint cover"
    if not spec.counts_rows:
        kind = "SS4, cover, by minimum or maximum"
    if spec.cover.beside:
        kind = "SS2, each for other measures of the same rows"
    lines = [f"{spec.name}: {window}; {spec.name} = {spec.cover} ({kind}), no pass over the input"]
    for name in spec.bases:
        part = plan.synopsis(name)
        where = "" if part.where is None else f" where {part.where.text or part.where.sql}"
        others = [query.name for query in plan.queries_of(name)]
        lines.append(f"{name} has the rows{where}" + (f", for {', '.join(others)}, too" if others else ""))
    return tuple(lines)


def _selected(query: PeriodicQuery, spec: SynopsisSpec, plan: PeriodicPlan) -> Iterator[str]:
    """Which groups are looked at for the sake of HAVING, and what finds them."""
    if query.select.having is None or not spec.keys:
        return
    sharers = [each for each in plan.queries_of(spec.name) if each.window == query.window]
    probes = loosest(each.select for each in sharers)
    if probes is None:
        asking = next(each.name for each in sharers if probe_of(each.select) is None)
        yield f"{spec.name}: all groups that change are looked at, because {asking} has no plain threshold"
        return
    conditions = " or ".join(map(str, probes))
    several = f", the loosest of {len(sharers)} queries of this window" if len(sharers) > 1 else ""
    names = ", ".join(dict.fromkeys(index_name(probe.call) for probe in probes if probe.is_indexed))
    found = f"; found by {names} where windows are many or most groups rest" if names else ""
    yield f"{spec.name}: groups with {conditions} are looked at{several}{found}"


def _beside(
    query: PeriodicQuery,
    spec: SynopsisSpec,
    by: str,
    plan: PeriodicPlan,
    indexes: Sequence[IndexDefinition],
) -> Iterator[str]:
    """What is kept beside a synopsis for a query: values, and the aggregates that they answer."""
    for counting in spec.counting():
        argument = counting.keys[-1]
        asked = [call for call in query.select.aggregates if call.argument == argument]
        for kept, what in _KEPT.items():
            calls = ", ".join(written(call) for call in asked if algebra_of(call).kept is kept)
            if calls and not counting.is_hashed:
                how = "" if kept is Kept.LISTS else _indexed(spec, argument, plan, indexes)
                ranges = next((call.ranges for call in asked if call.ranges is not None), None)
                if ranges is not None:
                    what, how = _RANGES, f"G({len(ranges)}) OVER GROUP as counters; "
                yield f"{counting.name} keeps {by}: {what.format(argument.text)}; {how}it answers {calls}"
        for call in asked:
            sketch = sketched(call)
            if sketch is not None and counting.is_hashed is (sketch.kind is SketchKind.DISTINCT):
                what = _SKETCHED[sketch.kind].format(argument.text)
                answered = f"{written(call)} {BOUNDS[sketch.kind]}"
                yield f"{counting.name} keeps {by}: {what}; it answers {answered}"


def _indexed(
    spec: SynopsisSpec, argument: Scalar, plan: PeriodicPlan, indexes: Sequence[IndexDefinition]
) -> str:
    """Which value index the values of a window are in (003, section 5)."""
    index = index_on(spec, argument, indexes)
    if index is None:
        return "T OVER HASH as one sorted run; "
    chosen = choose_value_index(index, spec, argument, plan.queries_of(spec.name), plan.stream(spec.stream))
    if isinstance(chosen, str):
        return f"T OVER HASH as one sorted run, not index {index.name}: {chosen}; "
    return f"index {index.name}: {chosen.spec} ({'; '.join(chosen.why)}); "


_VALUES = "how often each value of {} occurs, and the window's values in order"
_RANGES = "how many values are in each range of {}"
_KEPT = {
    Kept.VALUES: _VALUES,
    Kept.LISTS: "the most frequent values of {}, and counters of the window (Algorithm 6)",
}


_SKETCHED = {
    SketchKind.DISTINCT: f"hashes of the values of {{}}, the {HASHES + 1:,} least",
    SketchKind.RANKS: f"values of {{}} in order, up to {POINTS} that stand for equally many",
    SketchKind.COUNTS: f"the {POINTS} most frequent values of {{}}, counted",
}


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
    shared = f"  ⧉ {sharing(step)}" if sharing(step) else ""
    yield f"{margin}{step.operator}{detail}{how}  ▸ {step.pattern}, {_rate(step.rate)}{shared}"
    bar = "│ " if step.inputs else "  "
    for held in step.state:
        yield f"{below}{bar}  ⌸ {held}"
    if step.measured is not None:
        yield f"{below}{bar}  ✓ {measured_text(step.measured)}"
    for position, child in enumerate(step.inputs):
        is_last = position == len(step.inputs) - 1
        yield from _step_lines(
            child, below + ("└─ " if is_last else "├─ "), below + ("   " if is_last else "│  ")
        )


def _rate(rate: float) -> str:
    return f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.2g}/s"


def to_json(found: list[Explained]) -> str:
    return json.dumps([asdict(explained) for explained in found], indent=2, ensure_ascii=False)
