"""What EXPLAIN says of queries that a join synopsis answers, and of those that operators answer instead."""

from __future__ import annotations

from dataclasses import replace

from sash.lang.bound import QueryDefinition
from sash.plan.explain.build import duration, join_state, shown
from sash.plan.explain.tree import Explained, Step
from sash.plan.join_synopses import JoinReader, SharedJoin, join_aggregate_of
from sash.plan.kinds import Kind

_NAMES = {Kind.RJ: "RJ", Kind.IJ: "IJ", Kind.BIJ: "BIJ"}


def with_join_synopsis(
    explained: Explained, query: QueryDefinition, read: tuple[SharedJoin, JoinReader] | None
) -> Explained:
    """The explanation with the join synopsis that answers the query, or with why none does."""
    if read is not None:
        notes = (*explained.notes, *_notes(query.name, *read))
        return replace(explained, tree=_looked_up(explained.tree, read[0]), notes=notes)
    refusal = join_aggregate_of(query)
    if isinstance(refusal, str):
        note = f"the join is aggregated row by row, not from a join synopsis: {refusal}"
        return replace(explained, notes=(*explained.notes, note))
    return explained


def _looked_up(step: Step, join: SharedJoin) -> Step:
    """The tree of the query: the join is shared, and nothing above it keeps rows."""
    inputs = tuple(_looked_up(child, join) for child in step.inputs)
    match step.operator:
        case "Aggregate":
            return replace(step, implementation=f"looked up in {join.name}", state=(), inputs=inputs)
        case "Join":
            feeds = f"{step.implementation}; feeds {join.name}"
            return replace(step, implementation=feeds, state=join_state(join.join.physical), inputs=inputs)
    return replace(step, inputs=inputs)


def _notes(query: str, join: SharedJoin, reader: JoinReader) -> tuple[str, ...]:
    spec = join.spec
    others = [name for name in join.queries if name != query]
    shared = f", shared with {', '.join(others)} (SS3)" if others else ""
    width = spec.panes.period
    panes = " and ".join(str(length // width) for length in reader.windows)
    keys = ", ".join(shown(key) for key in spec.keys)
    by = f"per interval{', class' if spec.g else ''}{' and ' + keys if keys else ''}"
    windows = " and ".join(f"RANGE {duration(length)}" for length in join.join.windows)
    return (
        f"{join.name}: the windows are {panes} panes of {duration(width)}{shared}; "
        f"{_NAMES[spec.kind]} synopsis, b = {spec.b}, g = {spec.g}: {join.reason}",
        f"{join.name} keeps {by}: {', '.join(str(measure) for measure in spec.measures)}; "
        f"1 join, of {windows}, feeds it",
    )
