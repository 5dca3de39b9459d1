"""Constant expressions, computed by the engine that would compute them for every row: DuckDB.

So a folded constant is what the evaluator would have answered, to the bit and the type. What raises an error
(an overflow, text that is no number), what is not finite, and what has a type that no column has (INTERVAL)
has no value here and is left as it is written.
"""

from __future__ import annotations

import math
from datetime import datetime
from functools import lru_cache

import duckdb
from sqlglot import exp

from sash.duck import connection
from sash.lang.types import Type
from sash.plan.scalars import quoted, tree_of

_DUCKDB = {
    Type.BIGINT: "BIGINT",
    Type.DOUBLE: "DOUBLE",
    Type.STRING: "VARCHAR",
    Type.BOOLEAN: "BOOLEAN",
    Type.TIMESTAMP: "TIMESTAMP",
}
_TYPES = {name: type_ for type_, name in _DUCKDB.items()}


def is_plain(tree: exp.Expr) -> bool:
    """Whether an expression is a constant as `operands` writes it, so that there is nothing to compute."""
    match tree:
        case exp.Neg():
            return isinstance(tree.this, exp.Literal)
        case exp.Cast(this=exp.Null()):
            return True
        case exp.Cast(this=exp.Literal(is_string=True)):
            return bool(tree.to.this == exp.DType.TIMESTAMP)
        case exp.Cast(this=exp.Literal() | exp.Neg()):
            number = tree.this.this if isinstance(tree.this, exp.Neg) else tree.this
            return bool(tree.to.this == exp.DType.BIGINT) and str(number.this).isdigit()
    return isinstance(tree, exp.Literal | exp.Boolean | exp.Null)


@lru_cache(maxsize=16_384)
def value_of(sql: str) -> exp.Expr | None:
    """The constant that an expression without columns is equal to; None where it has no value here."""
    try:
        ((value, type_),) = connection().execute(f"SELECT {sql}, typeof({sql})").fetchall()
    except duckdb.Error:
        return None
    written = _written(value, type_)
    return None if written is None else tree_of(written)


@lru_cache(maxsize=16_384)
def type_of(sql: str, columns: tuple[tuple[str, Type], ...]) -> Type | None:
    """The type of an expression over columns of these types; None where no column can hold its value."""
    values = ", ".join(f"CAST(NULL AS {_DUCKDB[type_]}) AS {quoted(name)}" for name, type_ in columns) or "1"
    # DuckDB knows the type without computing anything, so an expression that fails has one, too.
    ((found,),) = connection().execute(f"SELECT typeof({sql}) FROM (SELECT {values})").fetchall()
    return _TYPES.get(found)


def _written(value: object, type_: str) -> str | None:
    """A value as `operands` would write it."""
    match type_, value:
        case _, None if type_ in _TYPES:
            return f"CAST(NULL AS {type_})"
        case "BOOLEAN", bool():
            return str(value).upper()
        case "BIGINT", int():
            return f"CAST({value} AS BIGINT)"
        case "DOUBLE", float() if math.isfinite(value):
            written = repr(value)
            return written if "e" in written else f"{written}e0"
        case "VARCHAR", str():
            return exp.Literal.string(value).sql(dialect="duckdb")
        case "TIMESTAMP", datetime():
            return f"CAST('{value.isoformat(' ', 'microseconds')}' AS TIMESTAMP)"
    return None
