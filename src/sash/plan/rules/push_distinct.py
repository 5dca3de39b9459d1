"""Duplicate-elimination push-down: δ(Project(A ⋈ B)) needs each input only once per value that it shows.

    Distinct                               Distinct
    └─ Project a.x                         └─ Project a.x
       └─ Join a.k = b.k          ⟶           └─ Join a.k = b.k
          ├─ A                                   ├─ A
          └─ B                                   └─ Distinct ─ Project b.k ─ B

An input is reduced if the result reads fewer of its columns than it has: then equal rows are likely, and a
join without them makes fewer results. An input that is a strict edge is left alone: its duplicate
elimination would have to count.
"""

from __future__ import annotations

from sash.lang import algebra
from sash.lang.algebra import Node
from sash.plan.patterns import pattern_of
from sash.plan.rules.transform import bottom_up
from sash.plan.scalars import passed_on


def push_distinct(plan: Node) -> Node:
    return bottom_up(plan, _push)


def _push(node: Node) -> Node:
    match node:
        case algebra.Distinct(algebra.Project(algebra.Join() as join, outputs) as project):
            shown = {name for output in outputs for name in output.scalar.inputs}
            inputs = tuple(_reduced(join, position, shown) for position in range(len(join.inputs)))
            if inputs == join.inputs:
                return node
            reduced = algebra.Join(inputs, join.equalities, join.residual)
            return algebra.Distinct(algebra.Project(reduced, project.outputs))
    return node


def _reduced(join: algebra.Join, position: int, shown: set[str]) -> Node:
    node = join.inputs[position]
    needed = set(shown)
    for equality in join.equalities:
        needed.update(equality.left.inputs, equality.right.inputs)
    if join.residual is not None:
        needed.update(join.residual.inputs)
    kept = [field for field in node.fields if field.name in needed]
    already = isinstance(node, algebra.Distinct)
    if already or not kept or len(kept) == len(node.fields) or not pattern_of(node).is_predictable:
        return node
    return algebra.Distinct(algebra.Project(node, passed_on(kept)))
