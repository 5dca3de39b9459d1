"""Constant folding: `TRUE AND p` is `p`, and a selection that is always true is gone."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.optimizer.simplify import simplify

from sash.lang import algebra
from sash.lang.algebra import Node
from sash.lang.bound import Scalar
from sash.plan.rules.transform import bottom_up
from sash.plan.scalars import scalar_of, tree_of


def fold_constants(plan: Node) -> Node:
    return bottom_up(plan, _fold)


def _fold(node: Node) -> Node:
    if not isinstance(node, algebra.Select):
        return node
    predicate = folded(node.predicate)
    if predicate.sql.upper() == "TRUE":
        return node.input
    return algebra.Select(node.input, predicate)


def folded(scalar: Scalar) -> Scalar:
    """The same condition with constant parts computed, and the very same where nothing is constant.

    Only logic is simplified: folding arithmetic here could differ from the evaluator in type or overflow.
    """
    tree = tree_of(scalar.sql)
    if not tree.find(exp.Boolean):
        return scalar
    simple = simplify(tree.copy(), dialect="duckdb")
    return scalar if simple == tree else scalar_of(simple, scalar.type, simple.sql(dialect="duckdb"))
