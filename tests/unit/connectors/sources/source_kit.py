"""Helpers of the source tests: stream definitions, and reading a source to its end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from sash.connectors.sources import Chunk, Plan, Rows, Source, open_source, read
from sash.lang.bound import StreamDefinition
from sash.lang.types import Column, Schema, Type

B, D, S, F, T = Type.BIGINT, Type.DOUBLE, Type.STRING, Type.BOOLEAN, Type.TIMESTAMP


def stream_of(source: str, columns: dict[str, Type], unit: int = 1, **options: Any) -> StreamDefinition:
    schema = Schema(tuple(Column(name, type) for name, type in columns.items()))
    return StreamDefinition("s", schema, next(iter(columns)), unit, 0, source, tuple(options.items()))


def plan_all(
    source: Source, max_rows: int = 1 << 40, target_rows: int = 1 << 40, limit: int = 10_000
) -> list[Plan]:
    """Plans until bounded input ends; every position goes through a fresh copy as JSON would."""
    plans: list[Plan] = []
    position: dict[str, Any] = {}
    for _ in range(limit):
        plan = source.plan(position, max_rows, target_rows)
        plans.append(plan)
        position = plan.position
        if plan.ended:
            return plans
    raise AssertionError("the source does not end")


def chunks_of(stream: StreamDefinition, base: Path, **limits: int) -> list[Chunk]:
    chunks = [chunk for plan in plan_all(open_source(stream, base), **limits) for chunk in plan.chunks]
    assert [chunk.sequence for chunk in chunks] == list(range(len(chunks)))
    return [Chunk.from_json(chunk.to_json()) for chunk in chunks]


def read_all(
    stream: StreamDefinition, base: Path, columns: Sequence[str] | None = None, **limits: int
) -> list[Rows]:
    parts = []
    for chunk in chunks_of(stream, base, **limits):
        rows = read(stream, chunk, columns)
        if chunk.rows >= 0:
            assert len(rows) + rows.rejects.num_rows == chunk.rows
        assert len(rows.ts) == len(rows.row_numbers)
        numbers = sorted([*rows.row_numbers.tolist(), *(n - 1 for n in rows.rejects["row"].to_pylist())])
        assert numbers == list(range(chunk.first_row, chunk.first_row + len(numbers)))
        parts.append(rows)
    return parts


def values_of(parts: Sequence[Rows]) -> list[tuple[Any, ...]]:
    """(ts, row number, values…) of every accepted row; timestamps as integers, which know no limits."""
    out: list[tuple[Any, ...]] = []
    for rows in parts:
        columns = [_plain(column) for column in rows.table.columns]
        out.extend(zip(rows.ts.tolist(), rows.row_numbers.tolist(), *columns, strict=True))
    return out


def _plain(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return list(column.to_pylist())


def rejects_of(parts: Sequence[Rows]) -> list[tuple[int, str, str]]:
    return [(row["row"], row["reason"], row["data"]) for rows in parts for row in rows.rejects.to_pylist()]
