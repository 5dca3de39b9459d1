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
    return Scalar(quoted(field.name), field.type, (field.name,), field.name, field.name)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


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
    given = tuple((name, values[name].sql) for name in scalar.inputs if name in values)
    return replace(_substituted(scalar.sql, scalar.type, given), text=scalar.text) if given else scalar


@lru_cache(maxsize=16_384)
def _substituted(sql: str, type_: Type, given: tuple[tuple[str, str], ...]) -> Scalar:
    """Rules and alternatives of a plan ask for the same again and again."""
    values = dict(given)

    def replaced(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and node.name in values:
            inner = tree_of(values[node.name]).copy()
            return inner if isinstance(inner, exp.Column | exp.Literal) else exp.Paren(this=inner)
        return node

    return scalar_of(tree_of(sql).transform(replaced), type_)


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


def map_scalars(
    node: Node, change: Callable[[Scalar], Scalar], children: tuple[Node, ...] | None = None
) -> Node:
    """The same operator with every expression of its own changed, over other inputs if there are any.

    Both at once, because an operator checks its expressions against its inputs when it is made.
    """
    inputs = node.children if children is None else children

    def each(scalars: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
        return tuple(change(scalar) for scalar in scalars)

    def maybe(scalar: Scalar | None) -> Scalar | None:
        return None if scalar is None else change(scalar)

    match node:
        case algebra.Select():
            return algebra.Select(inputs[0], change(node.predicate))
        case algebra.Project():
            outputs = tuple(Named(output.name, change(output.scalar)) for output in node.outputs)
            return algebra.Project(inputs[0], outputs)
        case algebra.Join():
            equalities = tuple(
                replace(e, left=change(e.left), right=change(e.right)) for e in node.equalities
            )
            return algebra.Join(inputs, equalities, maybe(node.residual))
        case algebra.RelationJoin():
            relation = inputs[1]
            assert isinstance(relation, algebra.Relation)
            left, right, residual = each(node.left_keys), each(node.right_keys), maybe(node.residual)
            return algebra.RelationJoin(inputs[0], relation, left, right, residual, node.is_outer)
        case algebra.SemiJoin():
            left, right = each(node.left_keys), each(node.right_keys)
            return algebra.SemiJoin(inputs[0], inputs[1], left, right, node.is_anti, node.nulls_match)
        case algebra.Aggregate():
            keys = each(node.keys)
            calls = tuple(replace(call, argument=maybe(call.argument)) for call in node.calls)
            return algebra.Aggregate(inputs[0], keys, calls)
        case algebra.Limit():
            order = tuple(replace(key, scalar=change(key.scalar)) for key in node.order)
            return algebra.Limit(inputs[0], order, node.count)
    return node.with_children(inputs)
