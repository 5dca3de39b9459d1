"""Scalars taken apart and put together: the one place that reads their SQL as a tree.

A scalar is DuckDB SQL over quoted columns (`lang/operands.py`). Trees come from a cache and are shared: who
wants to change one copies it first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import sqlglot
from sqlglot import exp

from sash.lang import algebra
from sash.lang.algebra import Field, Node
from sash.lang.bound import Named, Scalar
from sash.lang.types import Type


@lru_cache(maxsize=16_384)
def tree_of(sql: str) -> exp.Expr:
    """The expression of a scalar; never changed in place."""
    return sqlglot.parse_one(sql, dialect="duckdb")


def scalar_of(tree: exp.Expr, type_: Type, text: str = "") -> Scalar:
    """A scalar from an expression over quoted columns."""
    bare = tree.unnest()
    column = bare.name if isinstance(bare, exp.Column) else None
    return Scalar(tree.sql(dialect="duckdb"), type_, columns_of(tree), column, text)


def column_scalar(field: Field) -> Scalar:
    """The scalar that is nothing but a column."""
    return Scalar(f'"{field.name}"', field.type, (field.name,), field.name, field.name)


def passed_on(fields: Iterable[Field]) -> tuple[Named, ...]:
    """The outputs of a projection that keeps columns as they are."""
    return tuple(Named(field.name, column_scalar(field)) for field in fields)


def columns_of(tree: exp.Expr) -> tuple[str, ...]:
    """The columns that an expression reads, each once."""
    return tuple(dict.fromkeys(column.name for column in tree.find_all(exp.Column, bfs=False)))


def parts_of(tree: exp.Expr) -> list[exp.Expr]:
    """The parts of a condition between its outermost ANDs, without their parentheses."""
    parts, pending = [], [tree]
    while pending:
        tree = pending.pop().unnest()
        if isinstance(tree, exp.And):
            pending += (tree.expression, tree.this)
        else:
            parts.append(tree)
    return parts


def conjuncts(predicate: Scalar) -> tuple[Scalar, ...]:
    """The parts of a predicate that must all hold."""
    parts = parts_of(tree_of(predicate.sql))
    if len(parts) == 1:
        return (predicate,)
    return tuple(scalar_of(part, Type.BOOLEAN, readable(part)) for part in parts)


def conjunction(parts: Sequence[Scalar]) -> Scalar | None:
    """One predicate that says all of `parts`; None for none."""
    if not parts:
        return None
    if len(parts) == 1:
        return parts[0]
    sql = " AND ".join(f"({part.sql})" for part in parts)
    text = " AND ".join(part.text for part in parts)
    return scalar_of(tree_of(sql), Type.BOOLEAN, text)


def substitute(scalar: Scalar, values: Mapping[str, Scalar]) -> Scalar:
    """The scalar with each column that `values` names replaced by the expression given for it."""
    if not any(name in values for name in scalar.inputs):
        return scalar

    def replaced(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and node.name in values:
            inner = tree_of(values[node.name].sql).copy()
            return inner if isinstance(inner, exp.Column | exp.Literal) else exp.Paren(this=inner)
        return node

    tree = tree_of(scalar.sql).copy().transform(replaced)
    return scalar_of(tree, scalar.type, scalar.text)


def readable(tree: exp.Expr) -> str:
    """A readable form: columns without quotes, constants without their casts and exponents of zero."""

    def shown(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal | exp.Neg):
            return node.this
        if isinstance(node, exp.Literal) and not node.is_string:
            return exp.Literal(this=str(node.this).removesuffix("e0"), is_string=False)
        if isinstance(node, exp.Identifier):
            return exp.to_identifier(node.name, quoted=False)
        return node

    return tree.copy().transform(shown).sql(dialect="duckdb")


def map_scalars(node: Node, change: Callable[[Scalar], Scalar]) -> Node:
    """The same operator with every expression of its own changed; the very same where nothing changes.

    All scalars of a node change before it is made anew, because it checks them against its inputs.
    """

    def each(scalars: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
        return tuple(change(scalar) for scalar in scalars)

    def maybe(scalar: Scalar | None) -> Scalar | None:
        return None if scalar is None else change(scalar)

    changed = node
    match node:
        case algebra.Select():
            changed = algebra.Select(node.input, change(node.predicate))
        case algebra.Project():
            outputs = tuple(Named(output.name, change(output.scalar)) for output in node.outputs)
            changed = algebra.Project(node.input, outputs)
        case algebra.Join():
            equalities = tuple(
                replace(e, left=change(e.left), right=change(e.right)) for e in node.equalities
            )
            changed = algebra.Join(node.inputs, equalities, maybe(node.residual))
        case algebra.RelationJoin():
            keys, others = each(node.left_keys), each(node.right_keys)
            changed = replace(node, left_keys=keys, right_keys=others, residual=maybe(node.residual))
        case algebra.SemiJoin():
            changed = replace(node, left_keys=each(node.left_keys), right_keys=each(node.right_keys))
        case algebra.Aggregate():
            calls = tuple(replace(call, argument=maybe(call.argument)) for call in node.calls)
            changed = algebra.Aggregate(node.input, each(node.keys), calls)
        case algebra.Limit():
            order = tuple(replace(key, scalar=change(key.scalar)) for key in node.order)
            changed = algebra.Limit(node.input, order, node.count)
    return node if changed == node else changed
