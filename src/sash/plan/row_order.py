"""The order of rows within an instant: by ORDER BY, in order of arrival, or by their values.

Rows come by instant, and those that leave before those that enter. Within that, ORDER BY decides, and then
the values of the columns, from the first to the last, NULL last. A stream of selected rows keeps their order
instead: by timestamp, by the branch of UNION ALL in the text, and as the rows arrived. That order is kept by
operators; the other is made where answers leave (`operators/order.py`).
"""

from __future__ import annotations

from sash.lang import algebra
from sash.lang.algebra import Node, OutputKind, SortKey, WindowKind
from sash.lang.growth import level_windows
from sash.plan.patterns import Pattern, output_pattern


def row_order(plan: algebra.Output) -> tuple[SortKey, ...] | None:
    """The sort keys that come before the values; None: rows stand in their order as operators give them."""
    if in_order_of_arrival(plan):
        return None
    if not isinstance(plan.input, algebra.Limit):
        return ()
    # Rstream gives a relation that is kept in order.
    return None if plan.kind is OutputKind.RSTREAM else plan.input.order


def in_order_of_arrival(plan: Node) -> bool:
    """Whether the rows of a query or sub-query come in the order in which those of its streams did."""
    if not isinstance(plan, algebra.Output):
        return _selects(plan)
    if plan.kind is OutputKind.VIEW:
        return output_pattern(plan) is Pattern.MON and _selects(plan.input)
    if plan.kind is OutputKind.RSTREAM:
        return gives_arrivals(plan)
    return plan.kind is OutputKind.ISTREAM and _selects(plan.input)


def gives_arrivals(plan: algebra.Output) -> bool:
    """Whether an Rstream is of rows that are there at the instant at which they arrive, and at no other."""
    kinds = {(window.kind, window.is_internal) for window in level_windows(plan.input)}
    return plan.kind is OutputKind.RSTREAM and kinds == {(WindowKind.NOW, False)} and _selects(plan.input)


def _selects(node: Node) -> bool:
    """Whether a plan only selects, projects and unites what windows hold that no SLIDE moves."""
    match node:
        case algebra.Select() | algebra.Project() | algebra.Union():
            return all(_selects(child) for child in node.children)
        case algebra.Window():
            return node.spec.slide is None
    return False


def has_partitions(node: Node) -> bool:
    """Whether a window of a query, not of its sub-queries, counts the rows of each partition."""
    if isinstance(node, algebra.Window):
        return node.spec.kind is WindowKind.ROWS and bool(node.spec.partition)
    return any(has_partitions(child) for child in node.children)
