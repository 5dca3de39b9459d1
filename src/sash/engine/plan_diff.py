"""What changes when a run goes on with another program: which queries stay, which go, which are new."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from sash.engine.streaming_job import StreamingJob
from sash.errors import CheckpointError
from sash.lang import Program
from sash.lang.bound import QueryDefinition, RelationDefinition, StreamDefinition
from sash.plan.refresh import refreshed_as
from sash.plan.run_plan import RunPlan, asked_in, standing_in


@dataclass(frozen=True, slots=True)
class PlanDiff:
    """`gone` are queries by part, `new` those to be planned, `changed` those that are both.

    A query has changed, too, if a stream or relation that it reads has.
    """

    gone: Mapping[int, frozenset[str]]
    new: tuple[str, ...]
    changed: tuple[str, ...]
    stay: int


def difference(parts: Iterable[StreamingJob], program: Program) -> PlanDiff:
    wanted = {query.name: query for query in (*standing_in(program), *asked_in(program))}
    sources = _by_name(program)
    gone: dict[int, frozenset[str]] = {}
    staying: set[str] = set()
    changed: list[str] = []
    for part in parts:
        known, read = _by_name(part.plan), part.plan.sources
        leaving = set()
        for query in part.definitions:
            is_known = all(known[name] == sources.get(name) for name in read[query.name])
            if is_known and is_same(wanted.get(query.name), query):
                staying.add(query.name)
            else:
                leaving.add(query.name)
                changed.extend([query.name] if query.name in wanted else [])
        if leaving:
            gone[part.number] = frozenset(leaving)
    new = tuple(name for name in wanted if name not in staying)
    return PlanDiff(gone, new, tuple(changed), len(staying))


def is_same(one: QueryDefinition | None, other: QueryDefinition) -> bool:
    """Whether two definitions are one; an archive may go over to another technique."""
    if one is not None and one.archive is not None and other.archive is not None:
        archive = replace(one.archive, technique=other.archive.technique, grid=other.archive.grid)
        one = replace(one, archive=archive)
    return one == other


def refreshed_as_in(program: Program, plan: RunPlan) -> RunPlan:
    """The plan with its periodic queries refreshed as the program says, which may differ from run to run."""
    asked = {query.name: query for query in program.queries}
    queries = (
        replace(query, definition=refreshed_as(query.definition, asked[query.name]))
        if query.name in asked
        else query
        for query in plan.queries
    )
    return replace(plan, queries=tuple(queries))


def _by_name(defined: Program | RunPlan) -> dict[str, StreamDefinition | RelationDefinition]:
    streams = {stream.name: stream for stream in defined.streams}
    return {**streams, **{relation.name: relation for relation in defined.relations}}


def only(program: Program, queries: Collection[str]) -> tuple[Program, tuple[QueryDefinition, ...]]:
    """The program with some of its queries, and those among them that are answered once."""
    standing = tuple(query for query in program.queries if query.name in queries)
    archives = tuple(archive for archive in program.archives if archive.name in queries)
    asked = tuple(query for query in asked_in(program) if query.name in queries)
    return replace(program, queries=standing, archives=archives, statements=()), asked


def refuse_another_program(directory: Path, change: PlanDiff) -> None:
    """Queries may come and go between two runs, but a name must not come to mean something else."""
    if change.stay and not change.changed:
        return
    what = "none of its queries is in the program"
    if change.changed:
        what = f"query {change.changed[0]}, or a stream or relation that it reads, is not what it was"
    raise CheckpointError(
        f"the checkpoint '{directory}' is of another program",
        got=what,
        hint="run what it was made by, give a query that has changed another name, or name another "
        "checkpoint directory to start anew",
        id="checkpoint-program",
    )
