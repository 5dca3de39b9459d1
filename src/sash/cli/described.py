"""What `sash check` says of a program: its streams and queries, with their columns and types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sash.cli import format as show
from sash.lang import algebra, intervals

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
        yield f"query {query.name}{into} (over {sources})"
        yield from _columns([(field.name, str(field.type)) for field in query.plan.fields])
    for archive in program.archives:
        grid = "" if archive.grid is None else f" {archive.grid[0]}x{archive.grid[1]}"
        every = intervals.write(archive.every)
        yield f"archive {archive.name} into {archive.sink} ({archive.technique}{grid}, every {every})"
        yield from _columns([(field.name, str(field.type)) for field in archive.plan.fields])
    yield from (f"index {each}" for each in _indexes(program))
    yield (
        f"ok: {show.counted(len(program.streams), 'stream')}, "
        f"{show.counted(len(program.queries), 'query', 'queries')}"
        + (f", {show.counted(len(program.archives), 'archive')}" if program.archives else "")
    )


def shown(program: Program) -> Iterator[str]:
    """What the SHOW statements of a program list: a line each, and its kind above.

    What archives are like is told after the run.
    """
    for statement in program.shows:
        if statement.kind == "archive":
            continue
        sharing = _sharing(program) if statement.kind == "query" else {}
        kinds = {
            "stream": [f"{each.name} from {each.source}" for each in program.streams],
            "relation": [f"{each.name} from {each.source}" for each in program.relations],
            "query": [
                (f"{each.name} into {each.sink}" if each.sink else each.name) + sharing.get(each.name, "")
                for each in program.queries
            ],
            "index": list(_indexes(program)),
        }
        lines = kinds[statement.kind]
        yield f"{' '.join(statement.text.split()).rstrip(';')}: {len(lines)}"
        yield from (f"  {line}" for line in lines)


def _sharing(program: Program) -> dict[str, str]:
    """What queries read, and with whom."""
    from sash.sharing.of_plan import shared_in

    told = {}
    for name, shared in shared_in(program.streams, program.queries).items():
        others = f", shared with {', '.join(shared.shared_with)}" if shared.shared_with else ""
        told[name] = f": group {shared.group}, reads {shared.synopses} ({shared.rule}){others}"
    return told


def _indexes(program: Program) -> Iterator[str]:
    if not program.indexes:
        return
    # Heavy, and most programs have none.
    from sash.plan.cost.indexes import index_of_kept_rows

    streams = {stream.name: stream for stream in program.streams}
    for index in program.indexes:
        chosen = index_of_kept_rows(index, streams[index.stream]).spec
        yield f"{index.name} on {index.stream} ({index.column}) using {chosen}"


def _columns(columns: Sequence[tuple[str, str]]) -> Iterator[str]:
    width = max((len(name) for name, _ in columns), default=0)
    for name, kind in columns:
        yield f"  {name:<{width}}  {kind}"
