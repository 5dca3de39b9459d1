"""The sources of a FROM and the conditions over them, put together as joins.

Streams, archives and sub-queries make one n-way `Join`; then each relation is joined in the order of
the text. An equality between two inputs becomes a key, any other condition over several inputs the
residual; a condition over one input stays above, where rewrites find it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sash.lang import algebra
from sash.lang.conjuncts import Conjunct, combined
from sash.lang.context import Context
from sash.lang.growth import grows
from sash.lang.scopes import Source
from sash.lang.values import Scalar


def assemble(
    sources: Sequence[Source],
    conjuncts: Sequence[Conjunct],
    outer: dict[int, Sequence[Conjunct]],
    ctx: Context,
) -> algebra.Node:
    """`outer` holds the ON conditions of LEFT JOINs by the position of their relation."""
    others = [index for index, source in enumerate(sources) if source.kind != "relation"]
    relations = [index for index, source in enumerate(sources) if source.kind == "relation"]
    if not others:
        others, relations = relations[:1], relations[1:]
    left_over = list(conjuncts)
    node = sources[others[0]].node
    if len(others) > 1:
        for index in others:
            if grows(sources[index].node):
                ctx.refuse_growth(f"a join with all of {_named(sources[index])}", sources[index].place)
        node, left_over = _join(sources, others, left_over)
    available = frozenset(others)
    for index in relations:
        source = sources[index]
        assert isinstance(source.node, algebra.Relation)
        relation = source.node
        if relation.is_revised and grows(node):
            hint = "declare the relation NON RETROACTIVE, or bound the windows of the query"
            ctx.refuse_growth(f"a join with the changing relation '{relation.name}'", source.place, hint)
        if index in outer:
            node = _relation_join(node, relation, index, available, outer[index], is_outer=True)
        else:
            chosen = [
                conjunct
                for conjunct in left_over
                if index in conjunct.owners
                and len(conjunct.owners) > 1
                and conjunct.owners <= available | {index}
                and not conjunct.owners & outer.keys()
            ]
            left_over = [conjunct for conjunct in left_over if conjunct not in chosen]
            node = _relation_join(node, relation, index, available, chosen, is_outer=False)
        available |= {index}
    predicate = combined(left_over)
    return node if predicate is None else algebra.Select(node, predicate)


def _join(
    sources: Sequence[Source], positions: Sequence[int], conjuncts: Sequence[Conjunct]
) -> tuple[algebra.Node, list[Conjunct]]:
    inputs = frozenset(positions)
    equalities: list[algebra.Equality] = []
    residual: list[Conjunct] = []
    rest: list[Conjunct] = []
    for conjunct in conjuncts:
        if len(conjunct.owners) < 2 or not conjunct.owners <= inputs:
            rest.append(conjunct)
            continue
        equality = _equality(conjunct, positions)
        if equality is None:
            residual.append(conjunct)
        else:
            equalities.append(equality)
    nodes = tuple(sources[position].node for position in positions)
    return algebra.Join(nodes, tuple(dict.fromkeys(equalities)), combined(residual)), rest


def _equality(conjunct: Conjunct, positions: Sequence[int]) -> algebra.Equality | None:
    if conjunct.sides is None or any(len(side.owners) != 1 for side in conjunct.sides):
        return None
    placed = [(positions.index(next(iter(side.owners))), side.scalar) for side in conjunct.sides]
    (left, left_scalar), (right, right_scalar) = sorted(placed, key=lambda pair: pair[0])
    return algebra.Equality(left, left_scalar, right, right_scalar)


def _relation_join(
    node: algebra.Node,
    relation: algebra.Relation,
    index: int,
    available: frozenset[int],
    conjuncts: Sequence[Conjunct],
    *,
    is_outer: bool,
) -> algebra.RelationJoin:
    keys: list[tuple[Scalar, Scalar]] = []
    residual: list[Conjunct] = []
    for conjunct in conjuncts:
        pair = None
        if conjunct.sides is not None:
            for mine, theirs in (conjunct.sides, conjunct.sides[::-1]):
                if mine.owners == {index} and theirs.owners and theirs.owners <= available:
                    pair = theirs.scalar, mine.scalar
        if pair is None:
            residual.append(conjunct)
        else:
            keys.append(pair)
    return algebra.RelationJoin(
        node,
        relation,
        tuple(left for left, _ in keys),
        tuple(right for _, right in keys),
        combined(residual),
        is_outer,
    )


def _named(source: Source) -> str:
    return "the sub-query" if source.kind == "query" and source.alias is None else f"'{source.label}'"
