"""One form for sub-plans that mean the same, so that each is computed once.

    Window ─ Stream packets                Window ─ Stream packets
    Window ─ Stream packets#2     ⟶        Window ─ Stream packets

`canonical(a) == canonical(b)` says that both give the same rows, column by column in the same places: field i
of a node is field i of its canonical form, under another name. So who keeps one operator for both reads its
results by position. What does not count:

- qualifiers: sources are numbered anew, in the order in which the sub-plan names them;
- names of columns: those of a projection are `(1).c0`, `(1).c1`, …; what users call them makes no rows;
- the order of conditions joined by AND if none of them can fail (one may guard another from an error), of the
  equalities of a join and of the keys of a semi-join, the two sides of a comparison, and the order of the
  columns of PARTITION BY.

The converse does not hold: plans may mean the same in ways that nobody sees here, such as joins in another
order. The rewrites bring most plans into one form before.

Cost: constant for each operator with one input once its input is known; an operator with several may have to
number the sources of the later ones anew. Forms are remembered.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from sqlglot import exp

from sash.lang import algebra
from sash.lang.algebra import Equality, Field, Node
from sash.lang.bound import Named, Scalar
from sash.lang.periodic import renamed
from sash.plan.constants import is_plain
from sash.plan.scalars import conjunction, parts_of, scalar_of, tree_of

Names = Mapping[str, str]
Leaf = algebra.Stream | algebra.Relation | algebra.Archive

# The comparisons that say the same with their sides exchanged.
_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.EQ: exp.EQ,
    exp.NEQ: exp.NEQ,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
}
# What never raises an error, whatever the row; arithmetic may overflow and a cast may not be possible.
_SAFE = (
    exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.DataType,
    exp.And, exp.Or, exp.Not, exp.Is, exp.In, exp.Between, exp.Like, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT,
    exp.GTE, exp.Case, exp.If, exp.Coalesce,
)  # fmt: skip
# The count of projections among the counts of sources; no source is called so.
_PROJECTIONS = ""


@lru_cache(maxsize=16_384)
def canonical(node: Node) -> Node:
    """The form that sub-plans of the same meaning have in common."""
    taken: Counter[str] = Counter()
    inputs: list[Node] = []
    for child in node.children:
        inner = canonical(child)
        inputs.append(_moved(inner, taken) if inputs else inner)
        taken.update(_counts(inner))
    return _over(node, inputs, lambda leaf: leaf.name, lambda _: f"({taken[_PROJECTIONS] + 1})")


def _counts(node: Node) -> Counter[str]:
    """How often each source is named in a plan, and how many projections there are."""
    counts: Counter[str] = Counter()
    for below in node.walk():
        if isinstance(below, Leaf):
            counts[below.name] += 1
        elif isinstance(below, algebra.Project):
            counts[_PROJECTIONS] += 1
    return counts


def _moved(node: Node, taken: Counter[str]) -> Node:
    """A canonical plan whose sources and projections are numbered on from those that are taken."""
    if not any(taken[name] for name in _counts(node)):
        return node

    def qualifier(leaf: Leaf) -> str:
        number = int(leaf.qualifier[len(leaf.name) + 1 :] or 1) + taken[leaf.name]
        return leaf.name if number == 1 else f"{leaf.name}#{number}"

    def label(project: algebra.Project) -> str:
        found = re.match(r"\((\d+)\)", project.names[0])
        assert found is not None
        return f"({int(found[1]) + taken[_PROJECTIONS]})"

    inputs = [_moved(child, taken) for child in node.children]
    return _over(node, inputs, qualifier, label)


# --------------------------------------------------------------------------- one operator


def _over(
    node: Node,
    inputs: Sequence[Node],
    qualifier: Callable[[Leaf], str],
    label: Callable[[algebra.Project], str],
) -> Node:
    """The operator over other inputs, with its expressions in their one form."""
    if isinstance(node, Leaf):
        return _leaf(node, qualifier(node))
    sides = [
        dict(zip(old.names, new.names, strict=True)) for old, new in zip(node.children, inputs, strict=True)
    ]
    names = {name: new for side in sides for name, new in side.items()}
    match node:
        case algebra.Window():
            partition = tuple(sorted(names[column] for column in node.spec.partition))
            return algebra.Window(inputs[0], replace(node.spec, partition=partition))
        case algebra.Select():
            return algebra.Select(inputs[0], _scalar(node.predicate, names))
        case algebra.Project():
            outputs = (
                Named(f"{label(node)}.c{i}", _scalar(output.scalar, names))
                for i, output in enumerate(node.outputs)
            )
            return algebra.Project(inputs[0], tuple(outputs))
        case algebra.Join():
            found = dict.fromkeys(_equality(equality, sides) for equality in node.equalities)
            residual = None if node.residual is None else _scalar(node.residual, names)
            return algebra.Join(tuple(inputs), tuple(sorted(found, key=_by_place)), residual)
        case algebra.RelationJoin():
            relation = inputs[1]
            assert isinstance(relation, algebra.Relation)
            left, right = _keys(node.left_keys, node.right_keys, sides)
            residual = None if node.residual is None else _scalar(node.residual, names)
            return algebra.RelationJoin(inputs[0], relation, left, right, residual, node.is_outer)
        case algebra.SemiJoin():
            # The first pair of NOT IN is not like the others.
            fixed = 1 if node.nulls_match else 0
            left, right = _keys(node.left_keys, node.right_keys, sides, fixed)
            return algebra.SemiJoin(inputs[0], inputs[1], left, right, node.is_anti, node.nulls_match)
        case algebra.Aggregate():
            calls = tuple(
                replace(call, argument=None if call.argument is None else _scalar(call.argument, names))
                for call in node.calls
            )
            return algebra.Aggregate(inputs[0], tuple(_scalar(key, names) for key in node.keys), calls)
        case algebra.Limit():
            order = tuple(replace(key, scalar=_scalar(key.scalar, names)) for key in node.order)
            return algebra.Limit(inputs[0], order, node.count)
        case algebra.Output():
            watched = (canonical(window) for window in node.watched)
            windows = tuple(window for window in watched if isinstance(window, algebra.Window))
            return replace(node, input=inputs[0], watched=windows)
    return node.with_children(tuple(inputs))


def _leaf(node: Leaf, qualifier: str) -> Node:
    names = {
        field.name: f"{qualifier}.{field.name.removeprefix(node.qualifier + '.')}" for field in node.fields
    }
    columns = tuple(Field(names[field.name], field.type) for field in node.fields)
    if isinstance(node, algebra.Relation):
        key = tuple(names[name] for name in node.key)
        return replace(node, qualifier=qualifier, columns=columns, key=key)
    return replace(node, qualifier=qualifier, columns=columns)


def _equality(equality: Equality, sides: Sequence[Names]) -> Equality:
    left = equality.left_input, _scalar(equality.left, sides[equality.left_input])
    right = equality.right_input, _scalar(equality.right, sides[equality.right_input])
    first, second = sorted((left, right), key=lambda side: (side[0], side[1].sql))
    return Equality(*first, *second)


def _by_place(equality: Equality) -> tuple[int, str, int, str]:
    return equality.left_input, equality.left.sql, equality.right_input, equality.right.sql


def _keys(
    left: tuple[Scalar, ...], right: tuple[Scalar, ...], sides: Sequence[Names], fixed: int = 0
) -> tuple[tuple[Scalar, ...], tuple[Scalar, ...]]:
    """The keys of both sides, the pairs after the first `fixed` ones in order."""
    pairs = [(_scalar(a, sides[0]), _scalar(b, sides[1])) for a, b in zip(left, right, strict=True)]
    pairs[fixed:] = sorted(pairs[fixed:], key=lambda pair: (pair[0].sql, pair[1].sql))
    return tuple(a for a, _ in pairs), tuple(b for _, b in pairs)


# --------------------------------------------------------------------------- expressions


def _scalar(scalar: Scalar, names: Names) -> Scalar:
    moved = renamed(scalar, {name: names.get(name, name) for name in scalar.inputs})
    return replace(_normal(moved), text=scalar.text)


@lru_cache(maxsize=16_384)
def _normal(scalar: Scalar) -> Scalar:
    """Conditions each once and in order, and comparisons from the lesser side to the greater."""
    tree = tree_of(scalar.sql)
    if _is_normal(tree):
        return scalar
    parts = list(dict.fromkeys(scalar_of(_mirrored(part), scalar.type) for part in parts_of(tree)))
    if len(parts) > 1 and all(isinstance(node, _SAFE) or _is_safe(node) for node in tree.dfs()):
        parts.sort(key=lambda part: part.sql)
    whole = conjunction(parts)
    assert whole is not None
    return whole


def _is_normal(tree: exp.Expr) -> bool:
    """Whether it is a column, or one compared with a constant: what is quoted comes before all constants."""
    if isinstance(tree, exp.EQ | exp.NEQ | exp.LT | exp.LTE) and is_plain(tree.expression):
        tree = tree.this
    return isinstance(tree, exp.Column)


def _is_safe(node: exp.Expr) -> bool:
    """Whether it is a constant, or the cast of one that is known to work."""
    return is_plain(node) or (node.parent is not None and is_plain(node.parent))


def _mirrored(tree: exp.Expr) -> exp.Expr:
    def turned(node: exp.Expr) -> exp.Expr:
        other = _MIRRORED.get(type(node))
        if other is None:
            return node
        sides = node.this, node.expression
        if other is type(node) and sides[0].sql(dialect="duckdb") <= sides[1].sql(dialect="duckdb"):
            return node
        return other(this=sides[1].copy(), expression=sides[0].copy())

    return tree.copy().transform(turned)
