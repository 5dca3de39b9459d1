"""Comparisons with constants, without a trip to DuckDB.

Most WHERE and HAVING conditions compare columns with constants, and for those starting DuckDB costs more
than the work. Only forms whose meaning is beyond doubt are taken here: `column op constant` joined by AND,
over integers, strings (equality only) and doubles without NaN. Everything else is left to the evaluator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from sash.lang.bound import Scalar
from sash.plan.scalars import parts_of, tree_of

_OPERATIONS: dict[type[exp.Expr], Callable[[pa.ChunkedArray, pa.Scalar], pa.ChunkedArray]] = {
    exp.EQ: pc.equal,
    exp.NEQ: pc.not_equal,
    exp.LT: pc.less,
    exp.LTE: pc.less_equal,
    exp.GT: pc.greater,
    exp.GTE: pc.greater_equal,
}
_EQUALITIES = (exp.EQ, exp.NEQ)


@dataclass(frozen=True, slots=True)
class Comparison:
    column: str
    operation: type[exp.Expr]
    constant: int | float | str


def compare(table: pa.Table, condition: Scalar) -> pa.ChunkedArray | None:
    """The condition for each row, or None where it is not one of the plain forms."""
    parts = comparisons_of(condition)
    if parts is None:
        return None
    result: pa.ChunkedArray | None = None
    for part in parts:
        mask = _compare(table.column(part.column), part)
        if mask is None:
            return None
        result = mask if result is None else pc.and_kleene(result, mask)
    return result


@lru_cache(maxsize=4096)
def comparisons_of(condition: Scalar) -> tuple[Comparison, ...] | None:
    """The condition as comparisons that must all hold, if that is all it is."""
    parts = []
    for conjunct in parts_of(tree_of(condition.sql)):
        part = _comparison(conjunct)
        if part is None:
            return None
        parts.append(part)
    return tuple(parts)


def _comparison(node: exp.Expr) -> Comparison | None:
    if type(node) not in _OPERATIONS or not isinstance(node.this, exp.Column):
        return None
    constant = node.expression
    if isinstance(constant, exp.Cast) and constant.to.is_type("bigint"):
        constant = constant.this
    sign = 1
    if isinstance(constant, exp.Neg):
        constant, sign = constant.this, -1
    if not isinstance(constant, exp.Literal):
        return None
    if constant.is_string:
        # Order of strings is left alone, and so is a constant that was cast from a string.
        is_plain = node.expression is constant and type(node) in _EQUALITIES
        return Comparison(node.this.name, type(node), str(constant.this)) if is_plain else None
    text = str(constant.this)
    value = int(text) if text.isdigit() else float(text)
    return Comparison(node.this.name, type(node), sign * value)


def _compare(column: pa.ChunkedArray, part: Comparison) -> pa.ChunkedArray | None:
    operation, constant, kind = _OPERATIONS[part.operation], part.constant, column.type
    if pa.types.is_int64(kind) and isinstance(constant, int):
        return operation(column, pa.scalar(constant, pa.int64()))
    if pa.types.is_float64(kind) and isinstance(constant, int | float):
        # SQL's NaN equals itself and exceeds everything; Arrow's does not.
        if pc.any(pc.is_nan(column)).as_py():
            return None
        return operation(column, pa.scalar(float(constant), pa.float64()))
    if isinstance(constant, str):
        if pa.types.is_dictionary(kind) and pa.types.is_string(kind.value_type):
            chunks = [operation(c.dictionary, pa.scalar(constant)).take(c.indices) for c in column.chunks]
            return pa.chunked_array(chunks, pa.bool_())
        if pa.types.is_string(kind):
            return operation(column, pa.scalar(constant))
    return None
