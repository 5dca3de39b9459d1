"""Hand-worked examples for the oracle: a few rows in, events as text out.

s   t, k, n        a stream in seconds          ms   t, k, n   one in milliseconds
u   t, k, n        another in seconds           at   t, k, n   one in timestamps
l   t, k, life     rows live for `life` seconds, 10 at most
r   k, name        a relation that is read once
f   at, op, k, name    a feed of changes; g the same, non-retroactive
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa

from sash.lang import bind_program
from sash.lang.bound import RelationDefinition, StreamDefinition
from sash.testing.arrivals import ARROW_TYPES, Arrived
from sash.testing.oracle import expected_changes, unit_of
from sash.testing.rows import sorted_rows

CATALOG = """
CREATE STREAM s (t BIGINT, k STRING, n BIGINT) TIMESTAMP BY t SLACK 1 SEC FROM 'csv:s';
CREATE STREAM u (t BIGINT, k STRING, n BIGINT) TIMESTAMP BY t FROM 'csv:u';
CREATE STREAM ms (t BIGINT, k STRING, n BIGINT) TIMESTAMP BY t FROM 'csv:ms' WITH (unit = 'ms');
CREATE STREAM at (t TIMESTAMP, k STRING, n BIGINT) TIMESTAMP BY t FROM 'csv:at';
CREATE STREAM l (t BIGINT, k STRING, life BIGINT) TIMESTAMP BY t
  LIFETIME BY life MAX LIFETIME 10 SEC FROM 'csv:l';
CREATE RELATION r (k STRING, name STRING) KEY (k) FROM 'csv:r';
CREATE RELATION f (at BIGINT, op STRING, k STRING, name STRING) KEY (k) TIMESTAMP BY at OP BY op FROM 'csv:f';
CREATE RELATION g (at BIGINT, op STRING, k STRING, name STRING) KEY (k) NON RETROACTIVE
  TIMESTAMP BY at OP BY op FROM 'csv:g';
"""


def ask(query: str, **rows: Sequence[tuple[object, ...]]) -> str:
    """The events of a query, as `1 + a 10; 4 - a 10, + b 20`; instants count the unit of its streams."""
    program = bind_program(f"{CATALOG}CREATE QUERY q AS {query};")
    (bound,) = program.queries
    arrived: dict[str, Arrived] = {}
    sources: list[StreamDefinition | RelationDefinition] = [*program.streams, *program.relations]
    for source in sources:
        given = rows.get(source.name, [])
        columns = {
            # Times are whole numbers, also of timestamps.
            column.name: pa.array([row[i] for row in given], pa.int64()).cast(ARROW_TYPES[column.type])
            if column.name == source.timestamp
            else pa.array([row[i] for row in given], ARROW_TYPES[column.type])
            for i, column in enumerate(source.schema)
        }
        times = [] if source.timestamp is None else [int(str(row[0])) * source.unit for row in given]
        arrived[source.name] = Arrived(times, pa.table(columns))
    answers = expected_changes(program, bound, arrived, arrived)
    unit = unit_of(program, bound.plan) or 1
    events = []
    for instant in sorted({at for at, _ in answers}):
        changes = [
            f"{op} {' '.join('NULL' if value is None else str(value) for value in row)}".strip()
            for op in ("-", "+", "")
            for row in sorted_rows(answers.get((instant, op), Counter()))
        ]
        events.append(f"{instant // unit} {', '.join(changes)}")
    return "; ".join(events)
