"""Typed operands: expressions on their way to DuckDB SQL, and how they are combined and written.

Invariant: an operand's tree, run by DuckDB, has exactly the type that `type` says (BIGINT is never
INTEGER or HUGEINT, DOUBLE never DECIMAL). So integers are written `CAST(8 AS BIGINT)`, doubles with an
exponent, and widening is explicit. Trees are written with parentheses of their own; two trees with one
text mean the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.generators.duckdb import DuckDBGenerator

from sash.errors import BindError, Place, TypeMismatch
from sash.lang.generator import SYMBOLS, write_chain
from sash.lang.nesting import MAX_DEPTH, depth_of
from sash.lang.types import Type
from sash.lang.values import Scalar

LiteralValue = int | float | str | bool

# DuckDB copies an operand of NULLIF, BETWEEN and CASE x WHEN, so nesting them costs 2ⁿ. The limit is
# far above what a person writes and keeps preparing an expression within milliseconds.
MAX_COPIES = 256

DATA_TYPES: dict[Type, exp.DType] = {
    Type.BIGINT: exp.DType.BIGINT,
    Type.DOUBLE: exp.DType.DOUBLE,
    Type.STRING: exp.DType.VARCHAR,
    Type.BOOLEAN: exp.DType.BOOLEAN,
    Type.TIMESTAMP: exp.DType.TIMESTAMP,
}

_ATOMS = (exp.Column, exp.Literal, exp.Cast, exp.Anonymous, exp.Boolean, exp.Null, exp.Case, exp.Extract)
# Operators whose left operand needs no parentheses if it is one of these.
_CHAINS: dict[type[exp.Expression], tuple[type[exp.Expression], ...]] = {
    exp.And: (exp.And,),
    exp.Or: (exp.Or,),
    exp.Add: (exp.Add, exp.Sub),
    exp.Sub: (exp.Add, exp.Sub),
    exp.Mul: (exp.Mul,),
    exp.DPipe: (exp.DPipe,),
}


@dataclass(frozen=True, slots=True)
class Operand:
    """`type` None is an untyped NULL; `literal` is the value where the operand is nothing else."""

    tree: exp.Expression
    type: Type | None
    place: Place | None = None
    literal: LiteralValue | None = None
    copies: int = 1

    @property
    def type_name(self) -> str:
        return "NULL" if self.type is None else str(self.type)


class _ScalarGenerator(DuckDBGenerator):
    _SYMBOLS: ClassVar[dict[type[exp.Expr], str]] = {**SYMBOLS, exp.IntDiv: "//"}
    TRANSFORMS: ClassVar[dict[type[exp.Expr], Callable[..., str]]] = {
        **DuckDBGenerator.TRANSFORMS,
        **dict.fromkeys(SYMBOLS, lambda self, e: write_chain(self, e, _ScalarGenerator._SYMBOLS)),
        exp.Cast: lambda self, e: f"CAST({self.sql(e, 'this')} AS {e.args['to'].this.value})",
    }


_DUCKDB = DuckDB()


def write(tree: exp.Expression) -> str:
    return _ScalarGenerator(dialect=_DUCKDB).generate(tree, copy=False)


def to_scalar(operand: Operand, text: str) -> Scalar:
    """The finished expression. Its type must be known: callers use `typed` first."""
    assert operand.type is not None
    tree = operand.tree
    depth = depth_of(tree)
    if depth > MAX_DEPTH:
        raise BindError(
            "an expression that is nested too deeply",
            place=operand.place,
            expected=f"at most {MAX_DEPTH} levels of operators",
            got=str(depth),
            hint="name parts of it in a sub-query in FROM",
        )
    inputs = tuple(dict.fromkeys(column.name for column in tree.find_all(exp.Column, bfs=False)))
    return Scalar(
        sql=write(tree),
        type=operand.type,
        inputs=inputs,
        column=tree.name if isinstance(tree, exp.Column) else None,
        text=text,
        depth=depth,
    )


# ------------------------------------------------------------------ building


def column(name: str, type_: Type, place: Place | None) -> Operand:
    return Operand(exp.Column(this=exp.Identifier(this=name, quoted=True)), type_, place)


def integer(value: int, place: Place | None = None) -> Operand:
    if not -(2**63) <= value < 2**63:
        raise BindError(
            "an integer that does not fit 64 bits",
            place=place,
            expected="-9223372036854775808 to 9223372036854775807",
            hint="write it with a decimal point to make it a DOUBLE",
        )
    return Operand(_cast(number(str(value)), Type.BIGINT), Type.BIGINT, place, value)


def double(value: float, place: Place | None = None) -> Operand:
    if value in (float("inf"), float("-inf")):
        raise BindError("a number that does not fit a DOUBLE", place=place)
    written = repr(value)
    written = written if "e" in written else f"{written}e0"
    return Operand(number(written), Type.DOUBLE, place, value)


def number(written: str) -> exp.Literal:
    """A number as it is written. `Literal.number` would take a negative one apart and rewrite it."""
    return exp.Literal(this=written, is_string=False)


def string(value: str, place: Place | None = None) -> Operand:
    return Operand(exp.Literal.string(value), Type.STRING, place, value)


def timestamp(moment: datetime) -> Operand:
    """Written out in UTC to the microsecond, so that one instant has one spelling."""
    return cast(string(moment.replace(tzinfo=None).isoformat(" ", "microseconds")), Type.TIMESTAMP)


def boolean(value: bool, place: Place | None = None) -> Operand:
    return Operand(exp.Boolean(this=value), Type.BOOLEAN, place, value)


def null(place: Place | None = None) -> Operand:
    return Operand(exp.Null(), None, place)


def call(name: str, type_: Type, *arguments: Operand) -> Operand:
    tree = exp.Anonymous(this=name, expressions=[argument.tree for argument in arguments])
    place = arguments[0].place if arguments else None
    return Operand(tree, type_, place, copies=most_copies(*arguments))


def cast(operand: Operand, type_: Type) -> Operand:
    return Operand(_cast(operand.tree, type_), type_, operand.place, copies=operand.copies)


def binary(operator: type[exp.Expression], type_: Type, left: Operand, right: Operand) -> Operand:
    left_tree = left.tree if isinstance(left.tree, _CHAINS.get(operator, ())) else wrapped(left)
    tree = operator(this=left_tree, expression=wrapped(right))
    return Operand(tree, type_, copies=most_copies(left, right))


def null_if(operand: Operand, other: Operand) -> Operand:
    assert operand.type is not None
    return copied(call("NULLIF", operand.type, operand, other), operand)


def copied(result: Operand, operand: Operand, times: int = 2) -> Operand:
    """`result`, of which DuckDB will make `times` copies of `operand`. Copies of an atom cost nothing."""
    if isinstance(operand.tree, exp.Column | exp.Literal | exp.Boolean) or operand.literal is not None:
        return result
    copies = max(result.copies, operand.copies * times)
    if copies > MAX_COPIES:
        raise BindError(
            "an expression that is nested too deeply",
            place=operand.place,
            hint="divisions, NULLIF, BETWEEN and CASE inside one another multiply; split the query",
        )
    return replace(result, copies=copies)


def wrapped(operand: Operand) -> exp.Expression:
    tree = operand.tree
    return tree if isinstance(tree, _ATOMS) else exp.Paren(this=tree)


def most_copies(*operands: Operand) -> int:
    return max((operand.copies for operand in operands), default=1)


def _cast(tree: exp.Expression, type_: Type) -> exp.Cast:
    return exp.Cast(this=tree, to=exp.DataType(this=DATA_TYPES[type_]))


# ------------------------------------------------------------------ checking


def mismatch(operand: Operand, expected: str, what: str, hint: str | None = None) -> TypeMismatch:
    if operand.type is None and hint is None:
        hint = "compare with IS NULL, or give NULL a type with CAST(NULL AS type)"
    return TypeMismatch(
        f"{what} does not take {operand.type_name}",
        place=operand.place,
        expected=expected,
        got=operand.type_name,
        hint=hint,
    )


def need(operand: Operand, type_: Type, what: str) -> Operand:
    """The operand as `type_`, widened from BIGINT to DOUBLE if need be."""
    if operand.type is type_:
        return operand
    if type_ is Type.DOUBLE and operand.type is Type.BIGINT:
        return _widened(operand)
    raise mismatch(operand, str(type_), what)


def need_numeric(operand: Operand, what: str) -> Operand:
    if operand.type is None or not operand.type.is_numeric:
        raise mismatch(operand, "BIGINT or DOUBLE", what)
    return operand


def typed(operand: Operand, what: str) -> Operand:
    if operand.type is None:
        raise mismatch(operand, "an operand with a type", what)
    return operand


def unify(operands: Sequence[Operand], what: str, *, nulls: bool = False) -> tuple[Type, list[Operand]]:
    """The operands as one type: equal, or BIGINT and DOUBLE as DOUBLE; untyped NULL where `nulls`."""
    known = [operand for operand in operands if operand.type is not None]
    if not nulls and len(known) < len(operands):
        raise mismatch(next(o for o in operands if o.type is None), "an operand with a type", what)
    if not known:
        raise BindError(
            f"the type of {what} is not clear", place=operands[0].place, hint="write CAST(NULL AS type)"
        )
    target = known[0].type
    assert target is not None
    for operand in known[1:]:
        if operand.type is target or (target is Type.DOUBLE and operand.type is Type.BIGINT):
            continue
        if target is Type.BIGINT and operand.type is Type.DOUBLE:
            target = Type.DOUBLE
            continue
        raise mismatch(operand, str(target), what, _literal_hint(target, operand))
    return target, [_as(operand, target) for operand in operands]


def _as(operand: Operand, target: Type) -> Operand:
    if operand.type is target:
        return operand
    return _widened(operand) if operand.type is Type.BIGINT else cast(operand, target)


def _widened(operand: Operand) -> Operand:
    if isinstance(operand.literal, int):
        return double(float(operand.literal), operand.place)
    return cast(operand, Type.DOUBLE)


def _literal_hint(target: Type, operand: Operand) -> str | None:
    if {target, operand.type} == {Type.TIMESTAMP, Type.STRING}:
        return "write a timestamp as TIMESTAMP '2026-01-31 12:00:00'"
    return f"convert it with CAST(… AS {target})"
