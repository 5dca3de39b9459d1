"""Answers read back from where a sink put them, with the types that they had, in the form of the oracle's.

Each format is read by code that is not ours (json, Arrow), so a sink that writes nonsense is found out.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from sash.lang import Program
from sash.lang.algebra import Output, OutputKind
from sash.lang.types import Type
from sash.testing.arrivals import ARROW_TYPES
from sash.testing.oracle import unit_of
from sash.testing.rows import Answers, Listed, normal_row

_INFINITIES = {"Infinity": float("inf"), "-Infinity": float("-inf"), "NaN": float("nan")}


_ANSWER_TYPES = {**ARROW_TYPES, Type.TIMESTAMP: pa.timestamp("us", tz="UTC")}


def is_change_log(plan: Output) -> bool:
    """Whether answers have an op: the change log of a view, also of one that Wstream makes."""
    return plan.kind in (OutputKind.VIEW, OutputKind.WSTREAM)


def schema_of_answers(program: Program, plan: Output) -> pa.Schema:
    """What a sink is given. The time is an integer if it is one, in one unit, in all streams of the query."""
    fields = [("ts", pa.int64() if unit_of(program, plan) else pa.timestamp("us", tz="UTC"))]
    if is_change_log(plan):
        fields.append(("op", pa.string()))
    fields += [(field.name, _ANSWER_TYPES[field.type]) for field in plan.fields]
    return pa.schema(fields)


def received(program: Program, plan: Output, table: pa.Table) -> Answers:
    """A table of answers in the form of the oracle's."""
    return {key: Counter(rows) for key, rows in listed(program, plan, table).items()}


def listed(program: Program, plan: Output, table: pa.Table) -> Listed:
    """The same with rows as they come; checks that they come by instant, those that leave first."""
    answers: Listed = {}
    last: tuple[int, bool] | None = None
    unit = unit_of(program, plan)
    ops = table.column("op").to_pylist() if is_change_log(plan) else [""] * table.num_rows
    columns = [_unzoned(table.column(name)).to_pylist() for name in plan.names]
    instants = table.column("ts").cast(pa.int64()).to_pylist()
    for instant, op, *values in zip(instants, ops, *columns, strict=True):
        now = instant, op != "-"
        assert last is None or now >= last, "answers must come in order of instant, what leaves first"
        last = now
        answers.setdefault((instant * (unit or 1), op), []).append(normal_row(tuple(values)))
    return answers


def _unzoned(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times as the oracle has them: in UTC, without saying so."""
    return column.cast(pa.timestamp("us")) if pa.types.is_timestamp(column.type) else column


def read_answers(sink: str, schema: pa.Schema, base_dir: Path) -> pa.Table:
    """All rows of a `jsonl:`, `csv:` or `parquet:` sink, in the order in which they were written."""
    scheme, _, rest = sink.partition(":")
    path = base_dir / rest
    match scheme:
        case "jsonl":
            return _json_lines(path, schema)
        case "csv":
            return _csv(path, schema)
        case "parquet":
            return _parquet(path, schema)
    raise ValueError(f"answers in '{sink}' cannot be read back")


def _json_lines(path: Path, schema: pa.Schema) -> pa.Table:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        assert list(row) == schema.names, f"{path.name} has the columns {list(row)}"
    columns = []
    for field in schema:
        values = [row[field.name] for row in rows]
        if pa.types.is_floating(field.type):
            values = [_INFINITIES[v] if isinstance(v, str) else v for v in values]
        if pa.types.is_timestamp(field.type):
            zoned = pa.array([None if v is None else v.removesuffix("Z") for v in values], pa.string())
            columns.append(zoned.cast(pa.timestamp("us")).cast(pa.int64()).cast(field.type))
        else:
            columns.append(pa.array(values, field.type))
    return pa.table(columns, schema=schema)


def _csv(path: Path, schema: pa.Schema) -> pa.Table:
    stamps = [field.name for field in schema if pa.types.is_timestamp(field.type)]
    types = {
        field.name: pa.timestamp("us", "UTC") if field.name in stamps else field.type for field in schema
    }
    table = pyarrow.csv.read_csv(
        path,
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=types,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    assert table.schema.names == schema.names, f"{path.name} has the columns {table.schema.names}"
    columns = [
        table.column(field.name).cast(pa.int64()).cast(field.type)
        if field.name in stamps
        else table.column(field.name)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _parquet(path: Path, schema: pa.Schema) -> pa.Table:
    tables = [pq.read_table(part) for part in sorted(path.glob("part-*.parquet"))]
    for table in tables:
        assert table.schema.equals(schema), f"{path.name} has the types {table.schema}"
    return pa.concat_tables(tables) if tables else schema.empty_table()
