"""Hypothesis strategies for whole programs of any queries, with their input."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from sash.testing.inputs import made_relations, made_streams
from sash.testing.queries import QueryMaker
from sash.testing.relations import MadeRelation
from sash.testing.scenario import Scenario
from sash.testing.streams import MadeStream


@st.composite
def programs(
    draw: st.DrawFn,
    *,
    most_streams: int = 3,
    most_rows: int = 16,
    most_queries: int = 3,
    sinks: Sequence[str] = ("jsonl", "jsonl", "csv", "parquet"),
) -> Scenario:
    """A program of one to `most_queries` queries over one or more streams and, perhaps, relations."""
    streams = draw(made_streams(most_streams, most_rows))
    relations = draw(made_relations(streams))
    query = st.tuples(st.sampled_from(sinks), _query(streams, relations))
    made = draw(st.lists(query, min_size=1, max_size=most_queries))
    return Scenario(streams, tuple(_create(f"q{number}", *one) for number, one in enumerate(made)), relations)


@st.composite
def _query(draw: st.DrawFn, streams: Sequence[MadeStream], relations: Sequence[MadeRelation]) -> str:
    return QueryMaker(draw, streams, relations).query()


def _create(name: str, sink: str, body: str) -> str:
    """The answers go into a file called after the query."""
    ending = "" if sink == "parquet" else f".{sink}"
    return f"CREATE QUERY {name} INTO '{sink}:{name}{ending}' AS\n  {body};\n"
