"""Sub-query flattening: a projection of a projection is one projection, and other operators see through them.

    Project a+1 AS b                       Project x*2+1 AS b
    └─ Project x*2 AS a           ⟶        └─ …
       └─ …

    Join i.k = b.k                         Project a.k AS i.k, b.*
    ├─ Project a.k AS i.k ─ A     ⟶        └─ Join a.k = b.k
    └─ B                                      ├─ A
                                              └─ B

A sub-query in FROM is a projection in the middle of a plan; after this rule and `push_selections` it has left
no trace, unless a window, an aggregate or DISTINCT stands between. A projection leaves a join, a semi-join or
a join with a relation only if it renames columns and no more: what it computes would be computed for every
result, not once for every row.
"""

from __future__ import annotations

from collections.abc import Callable

from sash.lang import algebra
from sash.lang.algebra import Node
from sash.lang.bound import Named, Scalar
from sash.plan.rules.transform import to_fixpoint
from sash.plan.scalars import column_scalar, map_scalars, substitute


def flatten_projections(plan: Node) -> Node:
    return to_fixpoint(plan, _flatten)


def _flatten(node: Node) -> Node:
    match node:
        case algebra.Project(algebra.Project(inner, inner_outputs), outputs):
            see_through = _reader(inner_outputs)
            return algebra.Project(inner, tuple(Named(o.name, see_through(o.scalar)) for o in outputs))
        case algebra.Select(algebra.Project(inner, outputs), predicate):
            return algebra.Project(algebra.Select(inner, _reader(outputs)(predicate)), outputs)
        case algebra.Join() | algebra.RelationJoin():
            return _lifted(node, len(node.children))
        case algebra.SemiJoin():
            return _lifted(node, 1)
    return node


def _lifted(node: Node, count: int) -> Node:
    """The first of the first `count` inputs that only renames columns, put above the operator."""
    for position, child in enumerate(node.children[:count]):
        if not isinstance(child, algebra.Project) or any(o.scalar.column is None for o in child.outputs):
            continue
        others = {name for other in node.children if other is not child for name in other.names}
        if others.isdisjoint((*child.names, *child.input.names)):
            inputs = (*node.children[:position], child.input, *node.children[position + 1 :])
            below = map_scalars(node, _reader(child.outputs), inputs)
            values = {output.name: output.scalar for output in child.outputs}
            outputs = (Named(f.name, values.get(f.name) or column_scalar(f)) for f in node.fields)
            return algebra.Project(below, tuple(outputs))
    return node


def _reader(outputs: tuple[Named, ...]) -> Callable[[Scalar], Scalar]:
    """What an expression over these outputs is over the input of their projection."""
    values = {output.name: output.scalar for output in outputs}
    return lambda scalar: substitute(scalar, values)
