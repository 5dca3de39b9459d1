"""A bound program and a runtime that are not there: the command line is tested without either."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from sash.engine.observe.report import Summary
from sash.lang import bind_program
from sash.lang.bound import QueryDefinition, StreamDefinition
from sash.lang.types import Column, Schema, Type

SECOND = 1_000_000


def make_stream(name: str = "packets", *, time: Type = Type.TIMESTAMP, unit: int = 1) -> StreamDefinition:
    schema = Schema((Column("ts", time), Column("src", Type.STRING), Column("length", Type.BIGINT)))
    return StreamDefinition(name, schema, "ts", unit, 2 * SECOND, "generator:packets", ())


def make_query(name: str = "heavy", sink: str = "jsonl:heavy.jsonl") -> QueryDefinition:
    text = f"""
        CREATE STREAM packets (ts TIMESTAMP, src STRING, length BIGINT)
          TIMESTAMP BY ts SLACK 2 SEC FROM 'generator:packets';
        CREATE QUERY {name} INTO '{sink}' AS
          Rstream(SELECT src, SUM(length) AS bytes FROM packets [RANGE 60 SEC SLIDE 10 SEC] GROUP BY src);
    """
    return bind_program(text).queries[0]


def make_program(*queries: QueryDefinition, streams: tuple[StreamDefinition, ...] | None = None) -> Any:
    return SimpleNamespace(
        streams=streams if streams is not None else (make_stream(),),
        relations=(),
        queries=queries or (make_query(),),
        shows=(),
        archives=(),
        indexes=(),
        one_time=(),
    )


def make_summary(*, interrupted: bool = False) -> Summary:
    return Summary(batches=0, seconds=0.0, clock=None, streams={}, answered={}, interrupted=interrupted)


@dataclass
class Fakes:
    """What the faked calls give back and what they were given."""

    program: Any = field(default_factory=make_program)
    bind_error: Exception | None = None
    work: Callable[..., Any] = lambda **_: make_summary()
    texts: list[str] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)
