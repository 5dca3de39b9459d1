"""Helpers: a query plane that is fed rows directly, without files, and what the oracle makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from sash.connectors.sources import REJECTS_SCHEMA
from sash.engine.batch_result import BatchResult
from sash.engine.ingest.first_stage import ChunkResult
from sash.engine.ingest.watermarks import advanced, begun
from sash.engine.query_executor import QueryExecutor
from sash.engine.streaming_job import StreamingJob
from sash.lang import Program, bind_program
from sash.operators.preaggregate import Partial, preaggregate
from sash.plan.periodic import SynopsisSpec
from sash.plan.run_plan import RunPlan, plan_run
from sash.synopses.basic_interval import BasicIntervalSynopsis
from sash.testing.answers import received
from sash.testing.arrivals import Arrived
from sash.testing.oracle import expected_changes

STREAM = (
    "CREATE STREAM s (t BIGINT, k STRING, g BIGINT, n BIGINT, x DOUBLE) TIMESTAMP BY t FROM 'csv:s.csv' "
    "WITH (unit = 'us');\n"
)
TYPES = {"t": pa.int64(), "k": pa.string(), "g": pa.int64(), "n": pa.int64(), "x": pa.float64()}
Row = tuple[int, str | None, int | None, int | None, float | None]


def program_of(*selects: str) -> Program:
    """Queries q0, q1, … over the stream `s`, whose time counts microseconds."""
    queries = (f"CREATE QUERY q{i} INTO 'noop:q{i}' AS {select};\n" for i, select in enumerate(selects))
    return bind_program(STREAM + "".join(queries))


def plan_of(*selects: str) -> RunPlan:
    program = program_of(*selects)
    return plan_run(program)


def table_of(rows: Sequence[Row]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [[]] * len(TYPES)
    return pa.table(
        {
            name: pa.array(list(values), type_)
            for (name, type_), values in zip(TYPES.items(), columns, strict=True)
        }
    )


def partials_of(rows: Sequence[Row], specs: Sequence[SynopsisSpec]) -> list[Partial]:
    ts = np.array([row[0] for row in rows], dtype=np.int64)
    return list(preaggregate(ts, table_of(rows), specs)) if rows else []


class Fed:
    """A plane over the stream `s`. Rows go in batch by batch, answers are kept per query."""

    def __init__(self, *selects: str) -> None:
        self.program = program_of(*selects)
        self.plan = plan_run(self.program)
        self.executor = QueryExecutor([StreamingJob(self.plan)])
        self.rows: list[Row] = []
        self.batches = 0
        self.tables: dict[str, list[pa.Table]] = {query.name: [] for query in self.plan.queries}

    def feed(self, rows: Sequence[Row], *, end: bool = False) -> None:
        self.rows.extend(rows)
        results = []
        if rows:
            times = [row[0] for row in rows]
            nothing = REJECTS_SCHEMA.empty_table()
            partials = tuple(self.partials(rows))
            results = [ChunkResult("s", 0, len(rows), max(times), min(times), partials, nothing, nothing)]
        batch_result = BatchResult(results)
        streams = advanced(self.executor.streams, results, ["s"] if end else [])
        self.executor.absorb(batch_result, streams, {0: begun(self.executor.parts[0].first, results)})
        self.batches += 1
        for name, table in self.executor.answer(self.batches, batch_result):
            self.tables[name].append(table)

    def partials(self, rows: Sequence[Row]) -> list[Partial]:
        return partials_of(rows, self.plan.synopses_of("s"))

    def synopsis(self, number: int = 0) -> BasicIntervalSynopsis:
        return list(self.executor.groups.values())[number].kept

    def check(self) -> None:
        """Assert that the answers so far are those of the oracle up to the clock."""
        through = self.executor.complete_through
        assert through is not None
        arrived = {"s": Arrived([row[0] for row in self.rows], table_of(self.rows))}
        for query in self.program.queries:
            tables = self.tables[query.name]
            got = received(self.program, query.plan, pa.concat_tables(tables)) if tables else {}
            assert got == expected_changes(self.program, query, arrived, end=through), query.text


def feed_all(fed: Fed, batches: Iterable[Sequence[Row]]) -> None:
    for batch in batches:
        fed.feed(batch)
    fed.feed([], end=True)
