"""Whatever the language can say: rewriting keeps its columns, and its sub-plans have canonical forms."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.lang.plan_kit import once, plan

from sash.plan.canonical import canonical
from sash.plan.rules import apply_rules

GOLDEN = Path(__file__).parents[1] / "lang" / "plans.golden"
QUERIES = [line[2:] for line in GOLDEN.read_text(encoding="utf-8").splitlines() if line.startswith("> ")]


@pytest.mark.parametrize("query", QUERIES)
def test_rules_and_canonical_forms_take_every_plan(query):
    before = once(query[1:]) if query.startswith("!") else plan(query)
    after = apply_rules(before).plan
    assert after.fields == before.fields
    for node in after.walk():
        form = canonical(node)
        assert [field.type for field in form.fields] == [field.type for field in node.fields]
        assert canonical(form) == form
