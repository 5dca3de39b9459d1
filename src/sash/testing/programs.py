"""Hypothesis strategies for whole programs of any queries, with their input."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st

from sash.errors import SashError
from sash.lang import bind_program
from sash.lang.intervals import write as write_interval
from sash.plan.run_plan import plan_run
from sash.testing import strategies
from sash.testing.inputs import made_relations, made_streams
from sash.testing.queries import QueryMaker
from sash.testing.relations import MadeRelation
from sash.testing.scenario import Scenario
from sash.testing.streams import MadeStream

SINKS = ("jsonl", "jsonl", "csv", "parquet")
TECHNIQUES = (
    "AUTO", "REBUILD 2x2", "NOREBUILD 2x3", "LAZYREBUILD 3x2", "LAZYNOREBUILD 2x2", "COUNTREBUILD 2x2",
    "COUNTNOREBUILD 2x2", "CHR-REBUILD 2x2", "CHR-NOREBUILD 2x2", "RANDOM-REBUILD 2x2",
    "RANDOM-NOREBUILD 2x2", "REINDEX 2x2", "DEL 2x2", "R-EXP 2x2", "D-EXP 2x2", "WATA 2x2",
)  # fmt: skip
"""How archives can be kept."""

_KINDS = (
    "any",
    "any",
    "any",
    "in order",
    "in order",
    "periodic",
    "elastic",
    "partitioned",
    "joined",
    "joined",
    "archived",
)
# Joins of two windows that slide, by the lengths of the windows and the slide in ticks.
_JOINED = (
    ("a.g = b.g", "a.k"), ("a.g = b.g AND a.n < 4", "b.k, a.g"), ("a.g = b.g", ""), ("a.n < b.n", "a.g"),
)  # fmt: skip
_JOINED_WINDOWS = ((4, 4, 2), (8, 8, 2), (6, 8, 2), (8, 4, 4), (9, 3, 3), (1, 1, 1), (5, 7, 2))
_JOINED_CALLS = ("COUNT(*)", "COUNT(a.n)", "SUM(b.n)", "SUM(b.x)", "MIN(a.k)", "MAX(b.x)", "AVG(a.x)")
_INDEXED = ("k", "g", "n", "x", "at")


@st.composite
def programs(
    draw: st.DrawFn,
    *,
    most_streams: int = 3,
    most_rows: int = 16,
    most_queries: int = 3,
    sinks: Sequence[str] = SINKS,
    in_order: bool = False,
) -> Scenario:
    """A program of one to `most_queries` queries over one or more streams and, perhaps, relations.

    With `in_order` the answers depend on the order in which rows arrive.
    """
    streams = draw(made_streams(most_streams, most_rows))
    relations = () if in_order else draw(made_relations(streams))
    query = st.tuples(st.sampled_from(sinks), _query(streams, relations, in_order=in_order))
    made = draw(st.lists(query, min_size=1, max_size=most_queries))
    return Scenario(streams, tuple(_create(f"q{number}", *one) for number, one in enumerate(made)), relations)


@st.composite
def durable_programs(
    draw: st.DrawFn, *, least_rows: int = 16, most_rows: int = 60, most_queries: int = 5
) -> Scenario:
    """A program with all kinds of state: of any queries, synopses, join synopses, archives, kept rows.

    The oracle does not know the answers of all of them.
    """
    streams = tuple(draw(_kept(stream)) for stream in draw(made_streams(2, most_rows, least_rows)))
    relations = draw(made_relations(streams))
    # All kinds as often as they stand there, which Hypothesis would not see to.
    chance = random.Random(draw(st.integers(0, 1 << 32)))
    kinds = chance.choices(_KINDS, k=chance.randint(1, most_queries))
    statements = [draw(_statement(f"q{i}", kind, streams, relations)) for i, kind in enumerate(kinds)]
    statements += [
        f"CREATE INDEX by_{column} ON {stream.name} ({column}) USING AUTO;\n"
        for stream in streams[:1]
        for column in draw(st.lists(st.sampled_from(_INDEXED), max_size=2, unique=True))
        if stream.retain is not None
    ]
    scenario = Scenario(streams, (), relations)
    for statement in statements:
        # Not every body may be archived, and not every window retained.
        wider = replace(scenario, queries=(*scenario.queries, statement))
        scenario = wider if _binds(wider) else scenario
    return scenario


def _binds(scenario: Scenario) -> bool:
    try:
        plan_run(bind_program(scenario.text))
    except SashError:
        return False
    return True


@st.composite
def _kept(draw: st.DrawFn, stream: MadeStream) -> MadeStream:
    ticks = draw(st.sampled_from((None, None, 6, 20)))
    return stream if ticks is None else replace(stream, retain=ticks * stream.clock.tick)


@st.composite
def _statement(
    draw: st.DrawFn, name: str, kind: str, streams: Sequence[MadeStream], relations: Sequence[MadeRelation]
) -> str:
    sink = draw(st.sampled_from(SINKS))
    stream = draw(st.sampled_from(streams))
    match kind:
        case "periodic":
            return draw(strategies.queries(name, stream, SINKS, defined=draw(st.booleans())))
        case "elastic":
            return _create(name, sink, f"{draw(strategies.selects(stream))}\n  WITH (refresh = 'elastic')")
        case "partitioned":
            return _create(name, sink, f"{draw(strategies.selects(stream))}\n  WITH (state = 'partitioned')")
        case "in order":
            return _create(name, sink, draw(_query(streams, (), in_order=True)))
        case "joined":
            return _create(name, sink, draw(_joined(streams)))
        case "archived":
            technique, every = draw(st.sampled_from(TECHNIQUES)), draw(st.sampled_from((1, 3, 10)))
            body = draw(_query(streams, relations))
            head = f"CREATE ARCHIVE {name} KEY (c0) USING {technique} EVERY {every} SEC INTO '{name}'"
            return f"{head} AS\n  {body};\n"
    return _create(name, sink, draw(_query(streams, relations)))


@st.composite
def _joined(draw: st.DrawFn, streams: Sequence[MadeStream]) -> str:
    """An aggregate over a join of two windows that slide; such queries share a synopsis."""
    where, keys = draw(st.sampled_from(_JOINED))
    tick = max(max(stream.clock.tick, stream.clock.size) for stream in streams)
    first, second, slide = (write_interval(n * tick) for n in draw(st.sampled_from(_JOINED_WINDOWS)))
    calls = draw(st.lists(st.sampled_from(_JOINED_CALLS), min_size=1, max_size=3, unique=True))
    names = [key for key in keys.split(", ") if key]
    shown = ", ".join(f"{item} AS c{i}" for i, item in enumerate([*names, *calls]))
    windows = (f"[RANGE {length} SLIDE {slide}]" for length in (first, second))
    read = f"{streams[0].name} {next(windows)} AS a, {streams[-1].name} {next(windows)} AS b"
    grouping = f" GROUP BY {keys}" if keys else ""
    text = f"SELECT {shown} FROM {read} WHERE {where}{grouping}"
    operator = draw(st.sampled_from(("", "", "Rstream", "Istream", "Dstream")))
    return f"{operator}({text})" if operator else text


@st.composite
def _query(
    draw: st.DrawFn,
    streams: Sequence[MadeStream],
    relations: Sequence[MadeRelation],
    *,
    in_order: bool = False,
) -> str:
    maker = QueryMaker(draw, streams, relations)
    return maker.query_in_order() if in_order else maker.query()


def _create(name: str, sink: str, body: str) -> str:
    """The answers go into a file called after the query."""
    ending = "" if sink == "parquet" else f".{sink}"
    return f"CREATE QUERY {name} INTO '{sink}:{name}{ending}' AS\n  {body};\n"
