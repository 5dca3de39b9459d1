"""The one evaluator of scalar expressions: DuckDB over Arrow batches.

Both runtimes and every stage use it, so an expression means the same everywhere. A scalar that is
nothing but a column is passed through untouched. Rows keep their order. An error of the data, such as
an integer overflow, becomes a `DataError` that names the expression.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pyarrow as pa

from sash.duck import connection
from sash.errors import DataError
from sash.lang.bound import Scalar
from sash.lang.types import Type
from sash.operators.compare import compare

ARROW_TYPES = {
    Type.BIGINT: pa.int64(),
    Type.DOUBLE: pa.float64(),
    Type.STRING: pa.string(),
    Type.BOOLEAN: pa.bool_(),
    Type.TIMESTAMP: pa.timestamp("us"),
}


def evaluate(table: pa.Table, scalars: Sequence[Scalar]) -> list[pa.ChunkedArray]:
    """The value of each scalar for each row of `table`."""
    computed = [scalar for scalar in dict.fromkeys(scalars) if scalar.column is None]
    results: dict[Scalar, pa.ChunkedArray] = {}
    if computed:
        results = dict(zip(computed, _run(table, computed), strict=True))
    return [results[scalar] if scalar.column is None else table.column(scalar.column) for scalar in scalars]


def _run(table: pa.Table, scalars: Sequence[Scalar]) -> list[pa.ChunkedArray]:
    selected = ", ".join(f"{scalar.sql} AS c{i}" for i, scalar in enumerate(scalars))
    inputs = list(dict.fromkeys(name for scalar in scalars for name in scalar.inputs))
    # A scalar without inputs (a constant) still needs one value a row.
    view = table.select(inputs) if inputs else pa.table({"row": pa.nulls(table.num_rows, pa.int8())})
    try:
        result = connection().from_arrow(view).project(selected).to_arrow_table()
    except duckdb.Error as error:
        texts = ", ".join(scalar.text or scalar.sql for scalar in scalars)
        reason = str(error).splitlines()[0]
        raise DataError(
            f"cannot compute {texts}: {reason}",
            hint="guard the expression with WHERE or CASE, or cast to DOUBLE",
            id="data-expression",
        ) from error
    return [result.column(i).cast(ARROW_TYPES[scalar.type]) for i, scalar in enumerate(scalars)]


def evaluate_mask(table: pa.Table, scalar: Scalar) -> pa.ChunkedArray:
    """A condition as a mask: NULL counts as false, as in WHERE."""
    mask = compare(table, scalar)
    if mask is None:
        (mask,) = evaluate(table, [scalar])
    return mask.fill_null(False) if mask.null_count else mask
