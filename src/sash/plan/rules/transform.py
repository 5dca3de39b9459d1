"""What the rewrites have in common: walking a plan, and taking scalars apart and together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import sqlglot
from sqlglot import exp

from sash.lang.algebra import Node
from sash.lang.bound import Scalar
from sash.lang.types import Type


def bottom_up(plan: Node, change: Callable[[Node], Node]) -> Node:
    """The plan with `change` applied to every node, inputs first."""
    children = tuple(bottom_up(child, change) for child in plan.children)
    return change(plan.with_children(children))


def to_fixpoint(plan: Node, change: Callable[[Node], Node]) -> Node:
    """The plan after as many passes as change anything. Each pass must move something in one direction."""
    while True:
        after = bottom_up(plan, change)
        if after == plan:
            return plan
        plan = after


@lru_cache(maxsize=16_384)
def tree_of(sql: str) -> exp.Expr:
    """The expression of a scalar; never changed in place."""
    return sqlglot.parse_one(sql, dialect="duckdb")


def scalar_of(tree: exp.Expr, type_: Type, text: str = "") -> Scalar:
    """A scalar from an expression over quoted columns."""
    inputs = tuple(dict.fromkeys(column.name for column in tree.find_all(exp.Column)))
    bare = tree.unnest()
    column = bare.name if isinstance(bare, exp.Column) else None
    return Scalar(tree.sql(dialect="duckdb"), type_, inputs, column, text)


def conjuncts(predicate: Scalar) -> tuple[Scalar, ...]:
    """The parts of a predicate that must all hold."""
    tree = tree_of(predicate.sql).unnest()
    if not isinstance(tree, exp.And):
        return (predicate,)
    parts = (part.unnest() for part in tree.flatten())
    return tuple(scalar_of(part, Type.BOOLEAN, _text(part)) for part in parts)


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


def _text(tree: exp.Expr) -> str:
    """A readable form: columns without quotes and casts of plain constants left out."""

    def shown(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal):
            return node.this
        if isinstance(node, exp.Identifier):
            return exp.to_identifier(node.name, quoted=False)
        return node

    return tree.copy().transform(shown).sql(dialect="duckdb")
