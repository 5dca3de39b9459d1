"""Which rows of a stream a join can need: those whose key some row on the other side has.

Whoever finds rows by a column asks for the keys of the other side instead of reading the whole window, if
that side is known and its keys are few. The join itself is done all the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from sash.lang import algebra
from sash.lang.algebra import Node, WindowKind
from sash.lang.bound import Scalar
from sash.lang.types import Type
from sash.plan.canonical import canonical
from sash.plan.key_conditions import conditions_in
from sash.plan.run_plan import is_scan, leaf_of, scan_nodes
from sash.plan.scalars import conjunction, conjuncts

# So many keys are looked up at most, and only if there are at least so many kept rows for each.
MOST_KEYS = 10_000
ROWS_A_KEY = 64


@dataclass(frozen=True, slots=True)
class KeyLink:
    """Rows of `scan` matter only where `column` of its stream is the `key` of a row of `other`.

    `other` is a scan, too, or a relation, perhaps with a selection over it.
    """

    scan: Node
    column: str
    other: Node
    key: str


def links_of(plan: Node) -> list[KeyLink]:
    """The links of a plan. A scan that several parts of the plan read has none: each needs other rows."""
    uses = Counter(canonical(node) for node in scan_nodes(plan))
    return [link for link in _links(plan) if uses[canonical(link.scan)] == 1]


def _links(node: Node) -> Iterator[KeyLink]:
    match node:
        case algebra.Join():
            for each in node.equalities:
                left, right = node.inputs[each.left_input], node.inputs[each.right_input]
                yield from _link(left, each.left, right, each.right)
                yield from _link(right, each.right, left, each.left)
        case algebra.Select(input=algebra.RelationJoin() as join):
            yield from _relation_links(join, _selected(join.relation, node.predicate))
            yield from _links(join.input)
            return
        case algebra.RelationJoin():
            yield from _relation_links(node, node.relation)
        case algebra.SemiJoin() if not node.nulls_match:
            for left_key, right_key in zip(node.left_keys, node.right_keys, strict=True):
                yield from _link(node.right, right_key, node.left, left_key)
                if not node.is_anti:
                    yield from _link(node.left, left_key, node.right, right_key)
    for child in node.children:
        yield from _links(child)


def _selected(relation: algebra.Relation, predicate: Scalar) -> Node:
    """A relation with what is said of it above the join: comparisons with constants, which never fail."""
    parts = conjuncts(predicate)
    own = conjunction([part for part in parts if any(conditions_in(part, relation.qualifier))])
    return relation if own is None else algebra.Select(relation, own)


def _relation_links(join: algebra.RelationJoin, relation: Node) -> Iterator[KeyLink]:
    if join.relation.is_static and not join.is_outer:
        for left_key, right_key in zip(join.left_keys, join.right_keys, strict=True):
            yield from _link(join.input, left_key, relation, right_key)


def _link(node: Node, key: Scalar, other: Node, other_key: Scalar) -> Iterator[KeyLink]:
    # Instants may lie where no datetime does.
    if key.column is not None and other_key.column is not None and key.type is not Type.TIMESTAMP:
        found, given = _origin(node, key.column), _given(other, other_key.column)
        if found is not None and given is not None:
            yield KeyLink(*found, given, other_key.column)


def _origin(node: Node, name: str) -> tuple[Node, str] | None:
    """The scan and the column of its stream from which a column comes, each row from one of its rows."""
    match node:
        case algebra.Window() if node.spec.kind in (WindowKind.RANGE, WindowKind.NOW) and is_scan(node.input):
            column = _column_of(node.input, name)
            return None if column is None else (node.input, column)
        case algebra.Select() | algebra.RelationJoin() | algebra.SemiJoin() | algebra.Join():
            for child in _row_by_row(node):
                if any(field.name == name for field in child.fields):
                    return _origin(child, name)
    return None


def _column_of(scan: Node, name: str) -> str | None:
    """The column of the stream that a scan gives under a name."""
    while not isinstance(scan, algebra.Stream):
        if isinstance(scan, algebra.Project):
            source = next(each.scalar.column for each in scan.outputs if each.name == name)
            if source is None:
                return None
            name = source
        assert isinstance(scan, algebra.Project | algebra.Select)
        scan = scan.input
    return name[len(leaf_of(scan).qualifier) + 1 :]


def _given(node: Node, name: str) -> Node | None:
    """What has all rows from which a column of a node can come, if it is known before joins are done."""
    match node:
        case algebra.Window() if is_scan(node.input):
            return node.input
        case algebra.Relation(is_static=True) | algebra.Select(input=algebra.Relation(is_static=True)):
            return node
        case algebra.Select() | algebra.RelationJoin() | algebra.SemiJoin() | algebra.Join():
            for child in _row_by_row(node):
                if any(field.name == name for field in child.fields):
                    return _given(child, name)
    return None


def _row_by_row(node: Node) -> tuple[Node, ...]:
    """The inputs of which a row of a node has one row each."""
    return (node.left,) if isinstance(node, algebra.SemiJoin) else node.children
