"""Every rewrite, shown: `rules/RULE.golden` holds queries with their plans before and after the rule.

    -- what the example shows
    > a query that the rule changes, or
    = a query that it must leave alone
    before                    (or: unchanged)
      its plan as the rule finds it, after the rules that come before it
    after
      its plan as the rule leaves it

`pytest tests/golden --regenerate` writes the plans anew from the queries. Both plans are also executed: they
give the same answer at every instant, over random data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.lang.plan_kit import call, window
from tests.unit.plan.cql_kit import STATISTICS, plan, tables
from tests.unit.plan.kit import SECOND

from sash.lang import algebra
from sash.lang.algebra import Node
from sash.lang.bound import Scalar
from sash.plan.optimize import reorder_joins
from sash.plan.rules import RULES, Rule
from sash.plan.rules.move_negation import pull_up_negation, push_down_negation
from sash.plan.scalars import readable, tree_of
from sash.testing.relational import answer_at

HERE = Path(__file__).parent / "rules"
# The optimizer's alternatives start from what all rules have made of a plan.
ALTERNATIVES: dict[str, Rule] = {
    "pull_up_negation": pull_up_negation,
    "push_down_negation": push_down_negation,
    "reorder_joins": partial(reorder_joins, statistics=STATISTICS),
}
NAMES = (*(rule.__name__ for rule in RULES), *ALTERNATIVES)


@dataclass(frozen=True)
class Example:
    rule: str
    comment: str
    query: str
    fires: bool

    @property
    def before(self) -> Node:
        found: Node = plan(self.query)
        for rule in RULES:
            if rule.__name__ == self.rule:
                break
            found = rule(found)
        return found

    @property
    def after(self) -> Node:
        rules: dict[str, Rule] = {rule.__name__: rule for rule in RULES}
        return {**rules, **ALTERNATIVES}[self.rule](self.before)

    def written(self) -> str:
        head = f"{self.comment}\n{'>' if self.fires else '='} {self.query}\n"
        if not self.fires:
            return f"{head}unchanged\n{drawn(self.after)}"
        return f"{head}before\n{drawn(self.before)}after\n{drawn(self.after)}"


def examples(rule: str) -> list[Example]:
    text = (HERE / f"{rule}.golden").read_text(encoding="utf-8")
    found = []
    for block in text.strip().split("\n\n"):
        comment, query, *_ = block.splitlines()
        assert comment.startswith("-- ")
        assert query[:2] in ("> ", "= ")
        found.append(Example(rule, comment, query[2:], query.startswith(">")))
    return found


EVERY = [example for rule in NAMES for example in examples(rule)]


def drawn(node: Node, margin: str = "  ") -> str:
    """The plan as an indented tree, with expressions as they are computed."""
    parts = ", ".join(details(node))
    name = "" if isinstance(node, algebra.Stream | algebra.Relation) else type(node).__name__
    line = f"{margin}{name}{' ' if name and parts else ''}{parts}\n"
    return line + "".join(drawn(child, margin + "  ") for child in node.children)


def details(node: Node) -> Iterator[str]:
    match node:
        case algebra.Stream() | algebra.Relation():
            yield node.qualifier
        case algebra.Window():
            yield f"[{window(node.spec)}]"
        case algebra.Select():
            yield shown(node.predicate)
        case algebra.Project():
            for output in node.outputs:
                is_same = output.scalar.column == output.name
                yield output.name if is_same else f"{shown(output.scalar)} AS {output.name}"
        case algebra.Join():
            yield from (f"{shown(e.left)} = {shown(e.right)}" for e in node.equalities)
            yield from () if node.residual is None else [shown(node.residual)]
        case algebra.RelationJoin() | algebra.SemiJoin():
            if isinstance(node, algebra.SemiJoin) and node.is_anti:
                yield "anti"
            for left, right in zip(node.left_keys, node.right_keys, strict=True):
                yield f"{shown(left)} = {shown(right)}"
        case algebra.Aggregate():
            yield from (f"by {shown(key)}" for key in node.keys)
            yield from (call(found).replace('"', "") for found in node.calls)
        case algebra.Output():
            yield node.kind.value


def shown(scalar: Scalar) -> str:
    return readable(tree_of(scalar.sql))


@pytest.mark.parametrize("rule", NAMES)
def test_a_rule_gives_its_golden_plans(rule, regenerate):
    written = "\n".join(example.written() for example in examples(rule))
    path = HERE / f"{rule}.golden"
    if regenerate:
        path.write_text(written, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == written


def test_every_rule_has_its_golden_file():
    assert {path.stem for path in HERE.glob("*.golden")} == set(NAMES)


@pytest.mark.parametrize("rule", NAMES)
def test_a_rule_is_shown_where_it_fires_and_where_it_must_not(rule):
    found = examples(rule)
    assert sum(example.fires for example in found) >= 2
    assert any(not example.fires for example in found)


@pytest.mark.parametrize("example", EVERY, ids=lambda example: f"{example.rule}: {example.query}")
def test_a_rule_fires_where_it_is_said_to_and_nowhere_else(example):
    assert (example.before != example.after) is example.fires


@pytest.mark.parametrize(
    "example", [each for each in EVERY if each.fires], ids=lambda example: f"{example.rule}: {example.query}"
)
def test_both_plans_give_the_same_answer(example):
    before, after = example.before, example.after

    @given(data=tables(), instant=st.integers(0, 25))
    @settings(max_examples=10)
    def same(data, instant):
        assert answer_at(after, instant * SECOND, data) == answer_at(before, instant * SECOND, data)

    same()
