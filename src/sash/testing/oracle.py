"""The oracle: answers recomputed from the definition, instant by instant, by an engine that is not ours.

For every boundary it takes the rows whose timestamps lie in the window, asks DuckDB the relational
query, and compares consecutive answers as bags. It shares nothing with the operators but the bound
query, and it is as slow as it sounds.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa

from sash.lang.bound import BoundSelect, OutputOperator, StreamDefinition

Row = tuple[object, ...]

_connection = duckdb.connect(":memory:", config={"threads": 1})


@dataclass(frozen=True, slots=True)
class Arrived:
    """A stream as it arrived: timestamps in microseconds and the columns of its schema."""

    ts: Sequence[int]
    table: pa.Table

    def in_time(self, slack: int) -> Arrived:
        """Without the rows that are later than `slack` allows."""
        kept, newest = [], -math.inf
        for position, ts in enumerate(self.ts):
            if ts >= newest - slack:
                kept.append(position)
                newest = max(newest, ts)
        return Arrived([self.ts[i] for i in kept], self.table.take(pa.array(kept, pa.int64())))


def relation_at(select: BoundSelect, arrived: Arrived, instant: int) -> Counter[Row]:
    """The answer Q(instant), a bag, for an instant that is a boundary."""
    if not any(ts <= instant for ts in arrived.ts):
        return Counter()
    ts = np.array(arrived.ts)
    live = pa.array((ts > instant - select.window.range) & (ts <= instant))
    _connection.register("w", arrived.table.filter(live))
    return Counter(_normal(row) for row in _connection.execute(_sql(select)).fetchall())


def _sql(select: BoundSelect) -> str:
    keys = [f"{key.sql} AS k{i}" for i, key in enumerate(select.keys)]
    aggregates = [
        f"{call.function.value}({'*' if call.argument is None else call.argument.sql}) AS a{i}"
        for i, call in enumerate(select.aggregates)
    ]
    where = f" WHERE {select.where.sql}" if select.where is not None else ""
    grouping = f" GROUP BY {', '.join(k.sql for k in select.keys)}" if select.is_grouped and keys else ""
    inner = f"SELECT {', '.join(keys + aggregates)} FROM w{where}{grouping}"
    having = f" WHERE {select.having.sql}" if select.having is not None else ""
    distinct = "DISTINCT " if select.distinct else ""
    outputs = ", ".join(output.scalar.sql for output in select.outputs)
    return f"SELECT {distinct}{outputs} FROM ({inner}){having}"


def _normal(row: Row) -> Row:
    """Values that compare equal where SQL says so: NaN is NaN, −0.0 is 0.0.

    Sums of doubles are compared to the last bit, so inputs should have sums that are exact.
    """
    return tuple(("NaN" if math.isnan(v) else v + 0.0) if isinstance(v, float) else v for v in row)


def expected(
    select: BoundSelect, stream: StreamDefinition, arrived: Arrived, end: int
) -> dict[tuple[int, str], Counter[Row]]:
    """What the sink must receive up to `end`: rows per (instant, op); op is '' except for a view."""
    arrived = arrived.in_time(stream.slack)
    results: dict[tuple[int, str], Counter[Row]] = {}
    if not arrived.ts:
        return results
    slide = select.window.slide
    boundary = -(-min(arrived.ts) // slide) * slide
    before: Counter[Row] = Counter()
    # The answer is a function of the rows in the window, so equal windows need be asked only once.
    ts = np.array(arrived.ts)
    relations: dict[bytes, Counter[Row]] = {}
    while boundary <= end:
        window = ((ts > boundary - select.window.range) & (ts <= boundary)).tobytes()
        if window not in relations:
            relations[window] = relation_at(select, arrived, boundary)
        now = relations[window]
        entered, left = now - before, before - now
        match select.operator:
            case OutputOperator.RSTREAM:
                parts = {"": now}
            case OutputOperator.ISTREAM:
                parts = {"": entered}
            case OutputOperator.DSTREAM:
                parts = {"": left}
            case OutputOperator.VIEW:
                parts = {"-": left, "+": entered}
        for op, rows in parts.items():
            if rows:
                results[boundary, op] = rows
        before = now
        boundary += slide
    return results


def received(
    select: BoundSelect, stream: StreamDefinition, tables: Iterable[pa.Table]
) -> dict[tuple[int, str], Counter[Row]]:
    """Answer tables in the form of `expected`; checks that instants come in order."""
    results: dict[tuple[int, str], Counter[Row]] = {}
    last = None
    for table in tables:
        instants = table.column("ts")
        if not stream.has_integer_time:
            instants = instants.cast(pa.int64())
        ops = (
            table.column("op").to_pylist()
            if select.operator is OutputOperator.VIEW
            else [""] * table.num_rows
        )
        columns = [table.column(output.name).to_pylist() for output in select.outputs]
        for instant, op, *values in zip(instants.to_pylist(), ops, *columns, strict=True):
            instant *= stream.unit if stream.has_integer_time else 1
            assert last is None or instant >= last, "answers must come in order of instant"
            last = instant
            results.setdefault((instant, op), Counter())[_normal(tuple(values))] += 1
    return results
