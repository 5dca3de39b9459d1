"""What a plan keeps: which relations only grow, which grow without bound, and how windows slide.

A level of a query is what is evaluated together: everything above the topmost windows. A window over a
sub-query ends a level, so that the sub-query's own windows are of a level of their own.
Source: 002, sections 3.3.2 (internal windows) and 3.4 (what may be windowed again).
"""

from __future__ import annotations

from collections.abc import Iterator

from sash.lang import algebra
from sash.lang.algebra import Node, OutputKind, Window, WindowKind, WindowSpec
from sash.lang.types import Type


def level_nodes(node: Node) -> Iterator[Node]:
    """The nodes of a level, down to its windows."""
    yield node
    if not isinstance(node, Window):
        for child in node.children:
            yield from level_nodes(child)


def level_windows(node: Node) -> Iterator[WindowSpec]:
    return (found.spec for found in level_nodes(node) if isinstance(found, Window))


def is_internal(node: Node) -> bool:
    """Whether results of the level never expire because a window is INTERNAL."""
    return any(spec.is_internal for spec in level_windows(node))


def is_periodic(node: Node) -> bool:
    return any(spec.slide is not None for spec in level_windows(node))


def is_append_only(node: Node) -> bool:
    """Whether nothing ever leaves the relation, so that it is a stream that can be windowed."""
    match node:
        case algebra.Stream():
            return not node.has_lifetime
        case algebra.Window():
            if node.spec.is_internal:
                return True
            unbounded = node.spec.kind is WindowKind.UNBOUNDED
            return unbounded and (not isinstance(node.input, algebra.Stream) or is_append_only(node.input))
        case algebra.Archive() | algebra.Except() | algebra.Limit():
            return False
        case algebra.Relation():
            return node.is_static
        case algebra.RelationJoin():
            return not node.relation.is_revised and is_append_only(node.input)
        case algebra.SemiJoin():
            return not node.is_anti and is_append_only(node.left) and is_append_only(node.right)
        case algebra.Aggregate():
            windows = list(level_windows(node.input))
            return bool(windows) and all(spec.is_internal for spec in windows)
        case algebra.Output():
            return node.kind not in (OutputKind.VIEW, OutputKind.WSTREAM)
    return all(is_append_only(child) for child in node.children)


def as_stream(node: Node) -> Node | None:
    """The stream that a sub-query is, without its windows; None if it is none.

    Selections, projections and unions of streams that never expire keep every row at its own instant, and so
    do the results of a sub-query (Istream, or INTERNAL windows).
    """
    match node:
        case Window() if (
            node.spec.kind is WindowKind.UNBOUNDED and not node.spec.slide and not node.spec.offset
        ):
            if is_stream(node.input):
                return node.input
            # Results over INTERNAL windows: what is selected of them is no part of the query that gives them.
            return algebra.Output(node.input, OutputKind.ISTREAM)
        case algebra.Select() | algebra.Project() | algebra.Union():
            below = [as_stream(child) for child in node.children]
            found = tuple(child for child in below if child is not None)
            return node.with_children(found) if len(found) == len(below) else None
    return None


def is_stream(node: Node) -> bool:
    """Whether a part of a plan, as it stands below a window, is made of streams alone, row by row."""
    while isinstance(node, algebra.Select | algebra.Project):
        node = node.input
    if isinstance(node, algebra.Union):
        return is_stream(node.left) and is_stream(node.right)
    return isinstance(node, algebra.Stream | algebra.Output)


def grows(node: Node) -> bool:
    """Whether the relation, as it must be kept, can outgrow any memory."""
    match node:
        case algebra.Stream():
            return not node.has_lifetime
        case algebra.Relation() | algebra.Archive():
            return False
        case algebra.Window():
            if node.spec.kind is not WindowKind.UNBOUNDED:
                return False
            return not isinstance(node.input, algebra.Stream) or grows(node.input)
        case algebra.RelationJoin():
            return grows(node.input)
        case algebra.SemiJoin() | algebra.Except():
            return grows(node.left)
        case algebra.Intersect():
            return grows(node.left) and grows(node.right)
        case algebra.Aggregate():
            return has_endless_groups(node) and grows(node.input)
        case algebra.Limit():
            return node.count is None and grows(node.input)
    return any(grows(child) for child in node.children)


def has_endless_groups(node: algebra.Aggregate) -> bool:
    """Whether there can be any number of groups; booleans make a few only."""
    return any(key.type is not Type.BOOLEAN for key in node.keys)
