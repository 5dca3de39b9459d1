"""How deeply expressions may be nested: what walks through them recurses, and so does DuckDB.

The parser bounds what is written (`expressions.MAX_NESTING`). Here the bound is on the tree that is made
of it, and on what expressions become when those of a sub-query are put in the place of its columns: no
rewrite of a plan makes a deeper one. A chain of one operator has the depth of one, because it is walked in a
loop.

sqlglot's parser needs up to 20 frames a level, more than Python allows unless it is told otherwise.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from sqlglot import exp

from sash.lang import algebra
from sash.lang.algebra import Node
from sash.lang.values import Scalar

MAX_DEPTH = 400
FRAMES = 10_000

sys.setrecursionlimit(max(sys.getrecursionlimit(), FRAMES))


def depth_of(tree: exp.Expr) -> int:
    """The levels of an expression above its columns and constants."""
    deepest, pending = 0, [(tree, 0)]
    while pending:
        node, depth = pending.pop()
        deepest = max(deepest, depth)
        if isinstance(node, exp.Column | exp.Literal):
            continue
        for child in node.iter_expressions():
            goes_on = type(child) is type(node) and isinstance(node, exp.Binary) and child is node.this
            pending.append((child, depth + (not goes_on)))
    return deepest


def deepest_in(plan: Node) -> int:
    """The depth of the deepest expression that a rewrite of a plan can make."""
    return max(_composed(plan))


def _composed(node: Node) -> tuple[int, int]:
    """The depth of what the columns of a node are, and of the deepest expression in it and below."""
    below = [_composed(child) for child in node.children]
    columns = max((own for own, _ in below), default=0)
    deepest = max((found for _, found in below), default=0)
    own = max((scalar.depth for scalar in _scalars(node)), default=0)
    # A column is put in parentheses where an expression takes its place.
    reached = columns + own + (columns > 0)
    becomes = reached if isinstance(node, algebra.Project | algebra.Aggregate) else columns
    return becomes, max(deepest, reached)


def _scalars(node: Node) -> Iterator[Scalar]:
    match node:
        case algebra.Select():
            yield node.predicate
        case algebra.Project():
            yield from (output.scalar for output in node.outputs)
        case algebra.Aggregate():
            yield from node.keys
            yield from (call.argument for call in node.calls if call.argument is not None)
        case algebra.Join():
            yield from (scalar for each in node.equalities for scalar in (each.left, each.right))
        case algebra.RelationJoin() | algebra.SemiJoin():
            yield from (*node.left_keys, *node.right_keys)
        case algebra.Limit():
            yield from (key.scalar for key in node.order)
    if isinstance(node, algebra.Join | algebra.RelationJoin) and node.residual is not None:
        yield node.residual
