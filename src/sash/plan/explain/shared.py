"""Which sub-plans are equal, so that they are computed once: within a query, and with other queries.

Equality is that of canonical forms, and of what users forced for the query. A stream is read once anyway,
so sources, and projections that only drop columns of one, are not worth telling. Neither is a sub-plan whose
sharers are those of the plan that it is part of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace

from sash.lang import algebra
from sash.lang.algebra import Node
from sash.plan.canonical import canonical
from sash.plan.explain.tree import Explained, Step


@dataclass(frozen=True, slots=True)
class Planned:
    """A query's explanation and its plan. `choices` is what must be alike besides the plan.

    A query that does not run, because only EXPLAIN asks for it, can share what runs, but nobody shares it.
    """

    explained: Explained
    plan: Node
    choices: Hashable
    runs: bool = True


def with_sharing(queries: Iterable[Planned]) -> list[Explained]:
    """The explanations of the queries, in order, each with what it computes once and for whom."""
    queries = list(queries)
    owners: dict[Hashable, list[str]] = {}
    for query in queries:
        if query.runs:
            for key in dict.fromkeys(_keys(query)):
                owners.setdefault(key, []).append(query.explained.name)
    return [_noted(query, owners) for query in queries]


def _keys(query: Planned) -> list[Hashable]:
    return [(canonical(node), query.choices) for node in query.plan.walk() if _is_worth_telling(node)]


def _is_worth_telling(node: Node) -> bool:
    if isinstance(node, algebra.Project) and not node.input.children:
        return any(output.scalar.column != output.name for output in node.outputs)
    return bool(node.children) and not isinstance(node, algebra.Output)


def _noted(query: Planned, owners: dict[Hashable, list[str]]) -> Explained:
    uses = Counter(_keys(query))
    name = query.explained.name

    def visit(step: Step, node: Node, above: tuple[int, tuple[str, ...]]) -> Step:
        known = above
        if _is_worth_telling(node):
            key = canonical(node), query.choices
            others = tuple(other for other in owners.get(key, ()) if other != name)
            known = uses[key], others
            if known != above:
                step = replace(step, uses=uses[key], shared_with=others)
        inputs = tuple(
            visit(below, child, known) for below, child in zip(step.inputs, node.children, strict=True)
        )
        return replace(step, inputs=inputs)

    return replace(query.explained, tree=visit(query.explained.tree, query.plan, (1, ())))


def sharing(step: Step, most: int = 4) -> str:
    """Who else uses the result of an operator, in words; nothing if nobody does."""
    parts = [f"computed once for {step.uses} uses"] if step.uses > 1 else []
    if step.shared_with:
        names = ", ".join(step.shared_with[:most])
        more = len(step.shared_with) - most
        parts.append(f"shared with {names}" + (f" and {more} more" if more > 0 else ""))
    return ", ".join(parts)
