"""The optimizer: rules that always help, then the cheapest of the alternatives that rates decide.

Alternatives are the places of negation (as written, above joins, below them; 002, 3.5.3) and the order of
each join (5.3.2). A plan may be forced into one strategy; otherwise it is UPA. The result says what was
considered, so that EXPLAIN can tell why.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sash.lang import algebra
from sash.lang.algebra import Node
from sash.plan.check import check_plan
from sash.plan.cost import Estimate, Statistics, Strategy, estimate, join_windows, order_windows
from sash.plan.rules import apply_rules
from sash.plan.rules.move_negation import pull_up_negation, push_down_negation
from sash.plan.rules.transform import bottom_up


@dataclass(frozen=True, slots=True)
class Alternative:
    """A plan that was considered."""

    name: str
    plan: Node
    cost: float


@dataclass(frozen=True, slots=True)
class Optimized:
    """The chosen plan with its estimate, the rules that fired, and what it was chosen from."""

    plan: Node
    estimate: Estimate
    strategy: Strategy
    fired: tuple[str, ...]
    alternatives: tuple[Alternative, ...]


def optimize(plan: Node, statistics: Statistics, strategy: Strategy = Strategy.UPA) -> Optimized:
    rewritten = apply_rules(plan)
    places = {
        "negation as written": rewritten.plan,
        "negation above joins": pull_up_negation(rewritten.plan),
        "negation below joins": push_down_negation(rewritten.plan),
    }
    estimates: dict[Node, Estimate] = {}
    alternatives: list[Alternative] = []
    for name, placed in places.items():
        if placed in estimates:
            continue
        for label, ordered in (("", placed), (", joins reordered", reorder_joins(placed, statistics))):
            if ordered not in estimates:
                estimates[ordered] = estimate(ordered, statistics, strategy)
                alternatives.append(Alternative(name + label, ordered, estimates[ordered].total.total))
    # The first of equal ones: what was written stays unless something else is really cheaper.
    best = min(alternatives, key=lambda alternative: alternative.cost)
    check_plan(best.plan)
    fired = rewritten.fired
    if best is not alternatives[0]:
        fired = (*fired, best.name)
    return Optimized(best.plan, estimates[best.plan], strategy, fired, tuple(alternatives))


def reorder_joins(plan: Node, statistics: Statistics) -> Node:
    """Each join with its inputs in the order that the heuristic of 5.3.2 finds cheapest."""

    def reorder(node: Node) -> Node:
        if not isinstance(node, algebra.Join):
            return node
        inputs = tuple(estimate(child, statistics) for child in node.inputs)
        windows = join_windows(node, inputs, statistics)
        order = order_windows(windows, is_hashed=bool(node.equalities)).order
        return reordered(node, order)

    return bottom_up(plan, reorder)


def reordered(join: algebra.Join, order: tuple[int, ...]) -> algebra.Join:
    """The same join with its inputs permuted; fields are known by name, so nothing above notices."""
    if order == tuple(range(len(join.inputs))):
        return join
    place = {old: new for new, old in enumerate(order)}
    equalities = tuple(
        replace(e, left_input=place[e.left_input], right_input=place[e.right_input]) for e in join.equalities
    )
    return algebra.Join(tuple(join.inputs[i] for i in order), equalities, join.residual)
