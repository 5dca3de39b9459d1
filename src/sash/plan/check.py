"""The last look at a plan before it runs: what no operator could execute is refused here."""

from __future__ import annotations

from sash.errors import BindError
from sash.lang import algebra
from sash.lang.algebra import Node
from sash.plan.patterns import Pattern, pattern_of


def check_plan(plan: Node) -> None:
    """Raise BindError where a join with a relation has a strict input (002, section 3.5.3)."""
    for node in plan.walk():
        if isinstance(node, algebra.RelationJoin) and pattern_of(node.input) is Pattern.STR:
            raise BindError(
                f"the join with relation '{node.relation.name}' stands above something whose results are "
                "taken back",
                got=f"a strict input: {_reason(node.input)}",
                hint="join the relation first, in a sub-query, and count, group or negate its result",
                id="relation-join-strict",
            )


def _reason(node: Node) -> str:
    """The lowest operator that makes an edge strict."""
    for child in node.children:
        if pattern_of(child) is Pattern.STR:
            return _reason(child)
    match node:
        case algebra.Window():
            return "a window counted in rows"
        case algebra.SemiJoin() | algebra.Except():
            return "a negation"
        case algebra.Aggregate():
            return "a grouping"
        case algebra.RelationJoin():
            return f"a join with the retroactive relation '{node.relation.name}'"
    return type(node).__name__.lower()
