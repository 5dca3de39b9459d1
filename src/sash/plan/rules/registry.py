"""The rewrites in the order in which they are tried.

The first rules bring a plan into a form from which nothing is lost: constants folded, sub-queries flattened,
selections at the bottom. Expressions are shared last, because flattening would put them back. The choices
that depend on rates (the order of joins, negation above or below a join) are made by the optimizer, which
asks the rules for alternatives and the cost model for the cheapest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sash.lang.algebra import Node
from sash.plan.rules.flatten_projections import flatten_projections
from sash.plan.rules.fold_constants import fold_constants
from sash.plan.rules.push_distinct import push_distinct
from sash.plan.rules.push_projections import push_projections
from sash.plan.rules.push_relation_joins import push_relation_joins
from sash.plan.rules.push_selections import push_selections
from sash.plan.rules.share_expressions import share_expressions

Rule = Callable[[Node], Node]

RULES: tuple[Rule, ...] = (
    fold_constants,
    flatten_projections,
    push_selections,
    push_relation_joins,
    push_distinct,
    push_projections,
    share_expressions,
)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A plan and the names of the rules that changed it, in order."""

    plan: Node
    fired: tuple[str, ...]


def apply_rules(plan: Node, rules: tuple[Rule, ...] = RULES) -> Rewritten:
    """Apply each rule in turn."""
    fired: list[str] = []
    for rule in rules:
        after = rule(plan)
        if after != plan:
            fired.append(rule.__name__)
            plan = after
    return Rewritten(plan, tuple(fired))
