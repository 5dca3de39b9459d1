"""Comparisons with constants, without a trip to DuckDB.

Most WHERE and HAVING conditions compare columns with constants, and for those starting DuckDB costs more
than the work. Only forms whose meaning is beyond doubt are taken here: `column op constant`, BETWEEN and IN,
joined by AND, over integers, strings (equality only) and doubles without NaN. Everything else is left to the
evaluator.
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


Constant = int | float | str


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column and a constant, or, where the operation is IN, several of one type."""

    column: str
    operation: type[exp.Expr]
    constants: tuple[Constant, ...]


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
    parts: list[Comparison] = []
    for conjunct in parts_of(tree_of(condition.sql)):
        found = _comparisons(conjunct)
        if not found:
            return None
        parts += found
    return tuple(parts)


def _comparisons(node: exp.Expr) -> list[Comparison]:
    """What a part of a condition says; nothing if it is no comparison."""
    if not isinstance(node.this, exp.Column):
        return []
    sides: list[tuple[type[exp.Expr], exp.Expr]]
    match node:
        case exp.Between() if not node.args.get("symmetric"):
            sides = [(exp.GTE, node.args["low"]), (exp.LTE, node.args["high"])]
        case exp.In() if node.expressions:
            constants = [_constant(each, is_equality=True) for each in node.expressions]
            plain = tuple(each for each in constants if each is not None)
            is_alike = len(plain) == len(constants) and len({type(each) for each in plain}) == 1
            return [Comparison(node.this.name, exp.In, plain)] if is_alike else []
        case _ if type(node) in _OPERATIONS:
            sides = [(type(node), node.expression)]
        case _:
            return []
    found = []
    for operation, side in sides:
        constant = _constant(side, is_equality=operation in _EQUALITIES)
        if constant is None:
            return []
        found.append(Comparison(node.this.name, operation, (constant,)))
    return found


def _constant(node: exp.Expr, *, is_equality: bool) -> Constant | None:
    constant = node
    if isinstance(constant, exp.Cast) and constant.to.this == exp.DType.BIGINT:
        constant = constant.this
    sign = 1
    if isinstance(constant, exp.Neg):
        constant, sign = constant.this, -1
    if not isinstance(constant, exp.Literal):
        return None
    if constant.is_string:
        # Order of strings is left alone, and so is a constant that was cast from a string.
        return str(constant.this) if node is constant and is_equality else None
    text = str(constant.this)
    return sign * (int(text) if text.isdigit() else float(text))


def _compare(column: pa.ChunkedArray, part: Comparison) -> pa.ChunkedArray | None:
    kind, constant = column.type, part.constants[0]
    if pa.types.is_int64(kind) and isinstance(constant, int):
        return _apply(column, part, pa.int64())
    if pa.types.is_float64(kind) and isinstance(constant, int | float) and part.operation is not exp.In:
        # SQL's NaN equals itself and exceeds everything; Arrow's does not.
        if pc.any(pc.is_nan(column)).as_py():
            return None
        return _apply(column, part, pa.float64())
    if isinstance(constant, str):
        if pa.types.is_dictionary(kind) and pa.types.is_string(kind.value_type):
            chunks = [_apply(c.dictionary, part, pa.string()).take(c.indices) for c in column.chunks]
            return pa.chunked_array(chunks, pa.bool_())
        if pa.types.is_string(kind):
            return _apply(column, part, pa.string())
    return None


def _apply(
    values: pa.Array | pa.ChunkedArray, part: Comparison, type_: pa.DataType
) -> pa.Array | pa.ChunkedArray:
    if part.operation is not exp.In:
        return _OPERATIONS[part.operation](values, pa.scalar(part.constants[0], type_))
    found = pc.is_in(values, value_set=pa.array(part.constants, type_))
    # NULL is neither among them nor not.
    return pc.if_else(pc.is_valid(values), found, None) if values.null_count else found
