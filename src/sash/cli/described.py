"""What `sash check` says of a program: its streams and queries, with their columns and types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sash.cli import format as show
from sash.lang import algebra, intervals
from sash.lang.periodic import missing

if TYPE_CHECKING:
    from sash.lang import Program


def describe(program: Program) -> Iterator[str]:
    for stream in program.streams:
        time = f"time {stream.timestamp}"
        if stream.slack:
            time += f", slack {intervals.write(stream.slack)}"
        yield f"stream {stream.name} from {stream.source} ({time})"
        yield from _columns([(column.name, str(column.type)) for column in stream.schema])
    for relation in program.relations:
        yield f"relation {relation.name} from {relation.source}"
        yield from _columns([(column.name, str(column.type)) for column in relation.visible])
    for query in program.queries:
        sources = ", ".join(
            node.qualifier
            for node in query.plan.walk()
            if isinstance(node, algebra.Stream | algebra.Relation)
        )
        into = f" into {query.sink}" if query.sink else ""
        # The whole language is checked; not all of it is executed yet.
        later = "" if query.select is not None else f"; not run yet: {missing(query.plan)}"
        yield f"query {query.name}{into} (over {sources}{later})"
        yield from _columns([(field.name, str(field.type)) for field in query.plan.fields])
    yield (
        f"ok: {show.counted(len(program.streams), 'stream')}, "
        f"{show.counted(len(program.queries), 'query', 'queries')}"
    )


def _columns(columns: Sequence[tuple[str, str]]) -> Iterator[str]:
    width = max((len(name) for name, _ in columns), default=0)
    for name, kind in columns:
        yield f"  {name:<{width}}  {kind}"
