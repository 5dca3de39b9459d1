"""What `sash check` says of a program: its streams and queries, with their columns and types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sash.cli import format as show
from sash.lang import intervals

if TYPE_CHECKING:
    from sash.lang import Program


def describe(program: Program) -> Iterator[str]:
    for stream in program.streams:
        time = f"time {stream.timestamp}"
        if stream.slack:
            time += f", slack {intervals.write(stream.slack)}"
        yield f"stream {stream.name} from {stream.source} ({time})"
        yield from _columns([(column.name, str(column.type)) for column in stream.schema])
    for query in program.queries:
        window = query.select.window
        span = f"range {intervals.write(window.range)} slide {intervals.write(window.slide)}"
        yield f"query {query.name} into {query.sink} (over {query.select.stream}, {span})"
        yield from _columns([(name, str(kind)) for name, kind in query.select.schema])
    yield (
        f"ok: {show.counted(len(program.streams), 'stream')}, "
        f"{show.counted(len(program.queries), 'query', 'queries')}"
    )


def _columns(columns: Sequence[tuple[str, str]]) -> Iterator[str]:
    width = max((len(name) for name, _ in columns), default=0)
    for name, kind in columns:
        yield f"  {name:<{width}}  {kind}"
