"""Sub-query flattening: a projection of a projection is one projection, and selections see through them.

    Project a+1 AS b                       Project x*2+1 AS b
    └─ Project x*2 AS a           ⟶        └─ …
       └─ …

A sub-query in FROM is a projection in the middle of a plan; after this rule and `push_selections` it has left
no trace, unless a window, an aggregate or DISTINCT stands between.
"""

from __future__ import annotations

from sash.lang import algebra
from sash.lang.algebra import Node
from sash.lang.bound import Named
from sash.plan.rules.transform import to_fixpoint
from sash.plan.scalars import substitute


def flatten_projections(plan: Node) -> Node:
    return to_fixpoint(plan, _flatten)


def _flatten(node: Node) -> Node:
    match node:
        case algebra.Project(algebra.Project(inner, inner_outputs), outputs):
            values = {output.name: output.scalar for output in inner_outputs}
            merged = tuple(Named(o.name, substitute(o.scalar, values)) for o in outputs)
            return algebra.Project(inner, merged)
        case algebra.Select(algebra.Project(inner, outputs), predicate):
            values = {output.name: output.scalar for output in outputs}
            return algebra.Project(algebra.Select(inner, substitute(predicate, values)), outputs)
    return node
