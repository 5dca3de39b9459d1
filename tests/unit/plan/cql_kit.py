"""Streams a, b, c and a relation r for plans of CQL queries, and random data for them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st
from tests.unit.plan import kit

from sash.lang import algebra, bind_program
from sash.plan.cost import Statistics

CATALOG = """
CREATE STREAM a (t BIGINT, k INT, v INT, s STRING) TIMESTAMP BY t
  FROM 'csv:a' WITH (rate = 100, distinct_k = 50);
CREATE STREAM b (t BIGINT, k INT, v INT, s STRING) TIMESTAMP BY t
  FROM 'csv:b' WITH (rate = 10, distinct_k = 50);
CREATE STREAM c (t BIGINT, k INT, v INT, s STRING) TIMESTAMP BY t
  FROM 'csv:c' WITH (rate = 1, distinct_k = 5);
CREATE RELATION r (k INT, v INT, s STRING) KEY (k) NON RETROACTIVE FROM 'csv:r';
"""
_SOURCES = bind_program(CATALOG)
STATISTICS = Statistics.from_definitions((*_SOURCES.streams, *_SOURCES.relations))


def plan(query: str) -> algebra.Output:
    return bind_program(f"{CATALOG}CREATE QUERY q AS {query};").queries[0].plan


def tables() -> st.SearchStrategy[dict[str, pa.Table]]:
    return kit.tables().map(lambda found: {name: _timed(table) for name, table in found.items()})


def _timed(table: pa.Table) -> pa.Table:
    """With the column of time that the streams declare."""
    return table.append_column("t", pc.divide(table.column("·ts"), kit.SECOND))
