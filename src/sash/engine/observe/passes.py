"""What EXPLAIN says of the runtime: the passes of a batch through a query on Spark, and what divides them."""

from __future__ import annotations

from dataclasses import replace

from sash.archive.writer import AUTO
from sash.engine.archives.archive_setup import expected_lives, layout_of, spec_of
from sash.errors import SashError
from sash.lang import Program, intervals
from sash.lang.algebra import Field
from sash.lang.bound import ArchiveDefinition
from sash.operators.build import build
from sash.operators.division import Key, Mode
from sash.operators.stage_planner import Sent, StagePlan, cut
from sash.plan.explain.text import asked_queries
from sash.plan.periodic import is_periodic
from sash.plan.run_plan import RunPlan, plan_run, standing_in
from sash.plan.scalars import column_scalar, readable, substitute, tree_of
from sash.synopses.joined.aggregates import join_operators


def passes(program: Program) -> dict[str, str]:
    """A line for each query of a program that runs as continuous operators."""
    lines = {}
    for query in (*standing_in(program), *asked_queries(program)):
        if is_periodic(query):
            continue
        archives = () if query.archive is None else (query.archive,)
        queries = () if archives else (query,)
        alone = replace(program, queries=queries, archives=archives, statements=())
        try:
            plan = plan_run(alone)
            lines[query.name] = _line(cut(build(plan, join_operators)))
            if query.archive is not None:
                lines[query.name] += f"; {_archive(query.archive, plan)}"
        except SashError:
            # What cannot be run is explained all the same.
            continue
    return lines


def _archive(definition: ArchiveDefinition, plan: RunPlan) -> str:
    (query,) = plan.continuous
    spec = spec_of(query, plan)
    layout = layout_of(definition, spec)
    kind = "foreseen ends, rows may be taken back" if spec.is_strict else "foreseen ends"
    if spec.is_estimated:
        kind = "guessed ends" if expected_lives(query, plan) is None else "ends guessed from rates of arrival"
    how = layout.text
    if definition.technique == AUTO and definition.grid is None:
        how += " (AUTO: small as yet, asked little)"
    every = intervals.write(spec.every)
    return f"archive by {', '.join(spec.key)}: {how}, every {every}, {kind}; {layout.touched(spec)}"


def _line(divided: StagePlan) -> str:
    sent = [s for _, s in divided.sources] + [s for stage in divided.stages for _, s in stage.sends]
    parts = ["1 pass over the input"]
    for number in range(1, len(divided.stages) + 1):
        ways = dict.fromkeys(_way(each) for each in sent if each.stage == number)
        parts.append(f"stage {number}: {', '.join(ways)}")
    return f"on Spark: {'; '.join(parts)}; answers at the driver"


def _way(sent: Sent) -> str:
    if sent.key is not None:
        return f"by {_shown(sent.key, sent.fields)}"
    return {
        Mode.ANYWHERE: "row by row",
        Mode.ONE_PLACE: "in one place",
        Mode.EVERYWHERE: "all rows everywhere",
        Mode.HERE: "where they are",
    }[sent.mode]


def _shown(key: Key, fields: tuple[Field, ...]) -> str:
    names = {f"c{i}": column_scalar(field) for i, field in enumerate(fields)}
    return " and ".join(readable(tree_of(substitute(scalar, names).sql)) for scalar in key)
