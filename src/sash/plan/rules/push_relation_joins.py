"""Relation joins go below negation: a join with a relation cannot process negative tuples (002, 3.5.3).

    RelationJoin r                         SemiJoin (anti)
    └─ SemiJoin (anti)            ⟶        ├─ RelationJoin r ─ a
       ├─ a                                └─ c
       └─ c

The row that a negative tuple takes back may have joined with a row of the relation that has changed since.
The same holds for joins with relations whose updates are retroactive. A plan in which a relation join still
has a strict input after this rule is refused by `plan.check`.

They do not go below joins of windows: a result of such a join arrives with the last of its rows, and it sees
the relation of that instant, not of the arrival of the row whose columns the condition reads. Equal columns
of two windows may stand for each other in a condition, so it must not matter whose they are.
"""

from __future__ import annotations

from sash.lang import algebra
from sash.lang.algebra import Node
from sash.plan.rules.transform import to_fixpoint


def push_relation_joins(plan: Node) -> Node:
    return to_fixpoint(plan, _push)


def _push(node: Node) -> Node:
    match node:
        case algebra.RelationJoin(algebra.SemiJoin() as semi):
            return semi.with_children((node.with_children((semi.left, node.relation)), semi.right))
    return node
