"""Projection push-down: columns that nobody above reads are dropped where a stream enters.

    Project a.x                            Project a.x
    └─ Join a.k = b.k             ⟶        └─ Join a.k = b.k
       ├─ Window ─ Stream a(k, x, y)          ├─ Window ─ Project k, x ─ Stream a
       └─ Window ─ Stream b(k, z)             └─ Window ─ Project k ─ Stream b

State then holds narrow rows, and Parquet sources read fewer columns. Projections pass every window: which
rows a window holds depends on time and order alone, and PARTITION BY columns are kept.
"""

from __future__ import annotations

from collections.abc import Iterable

from sash.lang import algebra
from sash.lang.algebra import Node
from sash.lang.bound import Scalar
from sash.plan.scalars import passed_on


def push_projections(plan: Node) -> Node:
    return _narrow(plan, set(plan.names))


def _narrow(node: Node, needed: set[str]) -> Node:
    """The node with at least the columns in `needed`, and its inputs with what it needs of them."""
    match node:
        case algebra.Stream() | algebra.Select(algebra.Stream()):
            kept = [field for field in node.fields if field.name in needed]
            if len(kept) == len(node.fields):
                return node
            # COUNT(*) reads no column, but a row must have one.
            return algebra.Project(node, passed_on(kept or node.fields[:1]))
        case algebra.Relation() | algebra.Archive():
            return node
        case algebra.Project(algebra.Stream() | algebra.Select(algebra.Stream())) if _is_narrowing(node):
            kept_outputs = tuple(o for o in node.outputs if o.name in needed) or node.outputs[:1]
            return algebra.Project(node.input, kept_outputs)
        case algebra.Union() | algebra.Except() | algebra.Intersect() | algebra.Distinct():
            # All columns count in comparing rows, or the sides must stay alike.
            return node.with_children(tuple(_narrow(c, set(c.names)) for c in node.children))
    reads = needed | _reads(node)
    return node.with_children(tuple(_narrow(child, reads & set(child.names)) for child in node.children))


def _is_narrowing(node: algebra.Project) -> bool:
    return all(output.scalar.column == output.name for output in node.outputs)


def _reads(node: Node) -> set[str]:
    """The input columns that the operator itself reads."""
    match node:
        case algebra.Window():
            return set(node.spec.partition)
        case algebra.Select():
            return set(node.predicate.inputs)
        case algebra.Project():
            return _inputs(output.scalar for output in node.outputs)
        case algebra.Join():
            sides = [side for e in node.equalities for side in (e.left, e.right)]
            return _inputs([*sides, *([node.residual] if node.residual is not None else [])])
        case algebra.RelationJoin():
            residual = [node.residual] if node.residual is not None else []
            return _inputs([*node.left_keys, *node.right_keys, *residual])
        case algebra.SemiJoin():
            return _inputs([*node.left_keys, *node.right_keys])
        case algebra.Aggregate():
            arguments = [call.argument for call in node.calls if call.argument is not None]
            return _inputs([*node.keys, *arguments])
        case algebra.Limit():
            return _inputs(key.scalar for key in node.order)
    return set()


def _inputs(scalars: Iterable[Scalar]) -> set[str]:
    return {name for scalar in scalars for name in scalar.inputs}
