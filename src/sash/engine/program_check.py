"""What a run refuses before it reads data, found without a run: `sash check`.

The program is planned and its operators are built as a run does it, and then thrown away. No input, output or
checkpoint is opened: whether files are there, and fit their schemas, a run finds out.

Cost: that of planning and of building operators, some 2 ms a query.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sash.connectors.sources import Source, check_ends, open_source
from sash.engine.outputs import Outputs, check_places
from sash.engine.query_executor import QueryExecutor
from sash.engine.reads.final_queries import check_questions
from sash.engine.streaming_job import StreamingJob
from sash.errors import SourceError, UserError
from sash.lang import Program
from sash.plan.choices import check_options
from sash.plan.explain.text import asked_queries
from sash.plan.run_plan import RunPlan, feed_of, plan_parts, whole_of


def check_program(program: Program, base_dir: Path) -> None:
    """Raise what a run of the program would raise before it reads data."""
    refuse_without_queries(program)
    refuse_what_cannot_run(program)
    for query in asked_queries(program):
        check_options(query)
    plans = plan_parts(program)
    planned = whole_of(plans)
    check_questions(program, planned.streams)
    sources = _sources(program, base_dir)
    outputs = Outputs(base_dir, durable=False, in_background=False)
    for sink in outputs.sinks_of(planned).values():
        sink.check_definition()
    read = {stream.name: sources[stream.name] for stream in planned.streams}
    check_places(planned.definitions, _listed(read), base_dir)
    build_operators(plans, program)


def refuse_without_queries(program: Program) -> None:
    if not (program.queries or program.archives or program.one_time):
        raise UserError(
            "there is no query to run",
            hint="add a CREATE QUERY … INTO … AS SELECT …; or a SELECT",
            id="no-query",
        )


def refuse_what_cannot_run(program: Program) -> None:
    """Statements that are understood and that a run would otherwise pass over in silence."""
    for query in program.queries:
        if not query.sink:
            raise UserError(
                f"query {query.name} has no output",
                place=query.place,
                hint="write CREATE QUERY name INTO 'jsonl:out.jsonl' AS …",
                id="no-sink",
            )


def build_operators(plans: tuple[RunPlan, ...], program: Program) -> None:
    """Build the operators and synopses of a run, also as partitions have them, and let go of them."""
    # A dataflow is built whole, as it runs without partitions, before it is cut into stages.
    parts = [StreamingJob(plan, is_cut=True) for plan in plans]
    executor = QueryExecutor(parts)
    executor.kept.index_values(program.indexes)
    for part in parts:
        part.close()


def _sources(program: Program, base_dir: Path) -> dict[str, Source]:
    """All sources of a program, whether they are read or not, by name; their files are not looked at."""
    sources = {}
    for definition in (*program.streams, *(feed_of(relation) for relation in program.relations)):
        sources[definition.name] = source = open_source(definition, base_dir)
        source.check_definition()
        if not definition.timestamp:
            check_ends(source)
    return sources


def _listed(sources: Mapping[str, Source]) -> dict[str, Source]:
    """Those whose files can be listed."""
    found = {}
    for name, source in sources.items():
        try:
            source.reads("")
        except SourceError:
            continue
        found[name] = source
    return found
