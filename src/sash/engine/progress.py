"""Rows of progress: what a query says of itself after a batch in which its time has moved.

They stand among the rows of answers, in a column of their own, which is NULL in those; in them every other
column is NULL but `ts`, the instant up to which the query is answered. They are written with the answers of
their batch, so after a restart each is there once.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from sash.engine.observe.report import AnswerRecord
from sash.plan.progress import COLUMN

_FIELD = pa.field(COLUMN, pa.string())


def with_progress(schema: pa.Schema) -> pa.Schema:
    """The columns of an output that has rows of progress."""
    return schema.append(_FIELD)


def without_progress(answers: pa.Table) -> pa.Table:
    """Rows of answers, for an output whose rows all have the same columns."""
    return answers.append_column(_FIELD, pa.nulls(answers.num_rows, _FIELD.type))


def progress_row(record: AnswerRecord, schema: pa.Schema) -> pa.Table:
    """The row that says what is in the record, with the columns of the output."""
    values: Mapping[str, pa.Array] = {
        "ts": pa.array([record.instant], pa.int64()).cast(schema.field("ts").type),
        COLUMN: pa.array([record.to_json()], _FIELD.type),
    }
    columns = [values[field.name] if field.name in values else pa.nulls(1, field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)
