"""What the rewrites have in common: walking a plan."""

from __future__ import annotations

from collections.abc import Callable

from sash.lang.algebra import Node


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
