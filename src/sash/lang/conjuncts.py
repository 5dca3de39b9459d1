"""Conditions taken apart at AND, and which sources each part reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sash.lang import nodes, operands
from sash.lang.operands import Operand
from sash.lang.scalars import bind, bind_condition
from sash.lang.scopes import FromScope
from sash.lang.types import Type
from sash.lang.values import Scalar


@dataclass(frozen=True, slots=True)
class Side:
    """One side of an equality."""

    scalar: Scalar
    owners: frozenset[int]


@dataclass(frozen=True, slots=True)
class Conjunct:
    """A condition that stands on its own; `sides` are there if it is an equality."""

    predicate: Operand
    text: str
    owners: frozenset[int]
    sides: tuple[Side, Side] | None


def split(node: exp.Expression) -> Iterator[exp.Expression]:
    """The parts of a condition between its outermost ANDs, in the order of the text."""
    pending = [node]
    while pending:
        node = pending.pop()
        inner = unwrapped(node)
        if isinstance(inner, exp.And):
            pending += (inner.expression, inner.this)
        else:
            yield inner


def unwrapped(node: exp.Expression) -> exp.Expression:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def bind_conjunct(node: exp.Expression, scope: FromScope) -> Conjunct:
    predicate = bind_condition(node, scope, scope.clause)
    text = nodes.source_of(node, scope.text)
    owners = scope.owners(operands.to_scalar(predicate, text).inputs)
    sides = None
    if isinstance(node, exp.EQ) and len(owners) > 1:
        _, both = operands.unify([bind(node.this, scope), bind(node.expression, scope)], "=")
        parts = (node.this, node.expression)
        left, right = (
            operands.to_scalar(operand, nodes.source_of(part, scope.text))
            for operand, part in zip(both, parts, strict=True)
        )
        sides = Side(left, scope.owners(left.inputs)), Side(right, scope.owners(right.inputs))
    return Conjunct(predicate, text, owners, sides)


def combined(conjuncts: Sequence[Conjunct]) -> Scalar | None:
    """All of the conditions as one."""
    if not conjuncts:
        return None
    if len(conjuncts) == 1:
        return operands.to_scalar(conjuncts[0].predicate, conjuncts[0].text)
    whole = conjuncts[0].predicate
    texts = [f"({c.text})" if isinstance(c.predicate.tree, exp.Or) else c.text for c in conjuncts]
    for conjunct in conjuncts[1:]:
        whole = operands.binary(exp.And, Type.BOOLEAN, whole, conjunct.predicate)
    return operands.to_scalar(whole, " AND ".join(texts))
