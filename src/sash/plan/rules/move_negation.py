"""Update pattern simplification: where negation stands among joins (002, section 3.5.3).

    SemiJoin (anti) on a.k                 Join
    ├─ Join                       ⟷        ├─ SemiJoin (anti) on a.k
    │  ├─ A                                │  ├─ A
    │  └─ B                                │  └─ C
    └─ C                                   └─ B

On the left the join has predictable inputs and only the result deals with negative tuples. On the right the
join has fewer rows to join if the negation removes many. Both are the same query; rates decide, so these two
rules make alternatives for the optimizer rather than one best form.
"""

from __future__ import annotations

from sash.lang import algebra
from sash.lang.algebra import Node
from sash.plan.rules.transform import to_fixpoint


def pull_up_negation(plan: Node) -> Node:
    return to_fixpoint(plan, _pull)


def push_down_negation(plan: Node) -> Node:
    return to_fixpoint(plan, _push)


def _pull(node: Node) -> Node:
    if not isinstance(node, algebra.Join):
        return node
    for position, semi in enumerate(node.inputs):
        if isinstance(semi, algebra.SemiJoin) and semi.is_anti:
            inputs = (*node.inputs[:position], semi.left, *node.inputs[position + 1 :])
            return semi.with_children((node.with_children(inputs), semi.right))
    return node


def _push(node: Node) -> Node:
    match node:
        case algebra.SemiJoin(algebra.Join() as join) if node.is_anti:
            needed = {name for key in node.left_keys for name in key.inputs}
            for position, candidate in enumerate(join.inputs):
                if needed and needed.issubset(candidate.names):
                    semi = node.with_children((candidate, node.right))
                    inputs = (*join.inputs[:position], semi, *join.inputs[position + 1 :])
                    return join.with_children(inputs)
    return node
