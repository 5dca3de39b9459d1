"""Selection push-down: a row that will be dropped is dropped as early as possible.

    Select p(a) AND q(b)                   Join
    └─ Join                       ⟶        ├─ Window ─ Select p(a) ─ Stream a
       ├─ Window ─ Stream a                └─ Window ─ Select q(b) ─ Stream b
       └─ Window ─ Stream b

Selections pass time-based windows, because a row's lifetime does not depend on other rows. They do not pass
windows counted in rows: the n newest rows that satisfy p are not those of the n newest rows that satisfy p.
They pass PARTITION BY … ROWS without SLIDE only if they read nothing but the partitioning columns, and a
group-by only if they read nothing but its keys. They do not pass a window over a sub-query: its first row,
whatever it is, is when the answers begin.
"""

from __future__ import annotations

from collections.abc import Callable

from sash.lang import algebra
from sash.lang.algebra import Node, WindowKind
from sash.lang.bound import Scalar
from sash.plan.rules.transform import to_fixpoint
from sash.plan.scalars import column_scalar, conjunction, conjuncts, substitute


def push_selections(plan: Node) -> Node:
    return to_fixpoint(plan, _push)


def _push(node: Node) -> Node:
    if not isinstance(node, algebra.Select):
        return node
    parts, below = conjuncts(node.predicate), node.input
    match below:
        case algebra.Select():
            merged = conjunction((*conjuncts(below.predicate), *parts))
            assert merged is not None
            return algebra.Select(below.input, merged)
        case algebra.Window():
            return _split(parts, below, lambda part: _passes(part, below), _into_first)
        case algebra.Join():
            return _push_into_join(parts, below)
        case algebra.RelationJoin():
            names = set(below.input.names)
            return _split(parts, below, lambda part: names.issuperset(part.inputs), _into_first)
        case algebra.SemiJoin() | algebra.Distinct():
            return _split(parts, below, lambda part: True, _into_first)
        case algebra.Union() | algebra.Except() | algebra.Intersect():
            return _push_into_set_operation(parts, below)
        case algebra.Aggregate() if below.keys:
            keys = {f"k{i}": key for i, key in enumerate(below.keys)}
            pushed = [part for part in parts if part.inputs and keys.keys() >= set(part.inputs)]
            kept = [part for part in parts if part not in pushed]
            return _rebuilt(below, kept, {0: [substitute(part, keys) for part in pushed]})
    return node


def _passes(part: Scalar, window: algebra.Window) -> bool:
    if not _is_of_stream(window.input):
        return False
    if window.spec.kind is WindowKind.ROWS:
        if window.spec.slide not in (None, 1):
            # The answers begin when a partition has moved for the first time, whichever it is.
            return False
        return bool(window.spec.partition) and set(window.spec.partition).issuperset(part.inputs)
    return True


def _is_of_stream(node: Node) -> bool:
    """Whether a window is over a stream and not over the rows that a sub-query gives."""
    while isinstance(node, algebra.Select | algebra.Project):
        node = node.input
    return isinstance(node, algebra.Stream)


def _split(
    parts: tuple[Scalar, ...],
    below: Node,
    passes: Callable[[Scalar], bool],
    into: Callable[[list[Scalar]], dict[int, list[Scalar]]],
) -> Node:
    pushed = [part for part in parts if passes(part)]
    return _rebuilt(below, [part for part in parts if part not in pushed], into(pushed))


def _into_first(pushed: list[Scalar]) -> dict[int, list[Scalar]]:
    return {0: pushed}


def _push_into_join(parts: tuple[Scalar, ...], join: algebra.Join) -> Node:
    pushed: dict[int, list[Scalar]] = {}
    kept: list[Scalar] = []
    for part in parts:
        for position, node in enumerate(join.inputs):
            if part.inputs and set(node.names).issuperset(part.inputs):
                pushed.setdefault(position, []).append(part)
                break
        else:
            kept.append(part)
    return _rebuilt(join, kept, pushed)


def _push_into_set_operation(parts: tuple[Scalar, ...], node: Node) -> Node:
    """Both sides lose the same rows, so their bags keep their relation to each other."""
    left, right = node.children
    names = dict(zip(left.names, right.fields, strict=True))
    renamed = {name: column_scalar(field) for name, field in names.items()}
    return _rebuilt(node, [], {0: list(parts), 1: [substitute(part, renamed) for part in parts]})


def _rebuilt(below: Node, kept: list[Scalar], pushed: dict[int, list[Scalar]]) -> Node:
    """`below` with selections over its inputs, and what could not pass above it."""
    children = []
    for position, child in enumerate(below.children):
        predicate = conjunction(pushed.get(position, []))
        children.append(child if predicate is None else algebra.Select(child, predicate))
    rest = conjunction(kept)
    node = below.with_children(tuple(children))
    return node if rest is None else algebra.Select(node, rest)
