"""Hypothesis strategies for whole programs of any queries, with their input."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from sash.testing.inputs import made_relations, made_streams
from sash.testing.queries import QueryMaker
from sash.testing.scenario import Scenario


@st.composite
def programs(
    draw: st.DrawFn,
    *,
    most_streams: int = 3,
    most_rows: int = 12,
    most_queries: int = 3,
    sinks: Sequence[str] = ("jsonl", "jsonl", "csv", "parquet"),
) -> Scenario:
    """A program of one to `most_queries` queries over one or more streams and, perhaps, relations."""
    streams = draw(made_streams(most_streams, most_rows))
    relations = draw(made_relations(streams))
    maker = QueryMaker(draw, streams, relations)
    count = draw(st.integers(1, most_queries))
    return Scenario(streams, tuple(maker.query(f"q{i}", sinks) for i in range(count)), relations)
