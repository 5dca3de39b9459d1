"""Sub-plans of one meaning have one canonical form, and the form means what the plan means."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.lang.plan_kit import outline, plan
from tests.unit.plan.kit import SECOND, plans, tables

from sash.lang import algebra
from sash.lang.algebra import Node
from sash.plan.canonical import canonical
from sash.plan.rules import apply_rules
from sash.testing.relational import answer_at


def bare(query: str) -> Node:
    """A query's plan below its output."""
    return plan(query).input


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT a FROM s [RANGE 1 MIN] x", "SELECT a AS b FROM s [WINDOW 60 SEC]"),
        ("SELECT a FROM s [NOW] WHERE a > 1 AND c = 'x'", "SELECT a FROM s [NOW] WHERE 'x' = c AND 1 < a"),
        ("SELECT a FROM s [NOW] WHERE a > 1", "SELECT a FROM s [NOW] WHERE a > 1 AND a > 1"),
        (
            "SELECT x.a FROM s [NOW] x, u [NOW] y WHERE x.a = y.a AND x.c = y.e",
            "SELECT p.a FROM s [NOW] p, u [NOW] q WHERE q.e = p.c AND q.a = p.a",
        ),
        (
            "SELECT a FROM s [NOW] WHERE EXISTS (SELECT * FROM u [NOW] WHERE u.a = s.a AND e = c)",
            "SELECT a FROM s [NOW] WHERE EXISTS (SELECT 1 FROM u [NOW] WHERE e = c AND u.a = s.a)",
        ),
        ("SELECT a FROM s [PARTITION BY a, c ROWS 2]", "SELECT a FROM s [PARTITION BY c, a ROWS 2]"),
        (
            "SELECT n FROM (SELECT a, COUNT(*) AS n FROM s [NOW] GROUP BY a) x WHERE n > 1",
            "SELECT y.m FROM (SELECT a AS k, COUNT(*) AS m FROM s [NOW] GROUP BY a) y WHERE y.m > 1",
        ),
    ],
)
def test_what_makes_no_difference_to_the_rows_makes_none_to_the_form(one, other):
    assert canonical(bare(one)) == canonical(bare(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT a FROM s [RANGE 1 MIN]", "SELECT a FROM s [RANGE 2 MIN]"),
        ("SELECT a FROM s [NOW]", "SELECT a FROM u [NOW]"),
        ("SELECT a, c FROM s [NOW]", "SELECT c, a FROM s [NOW]"),
        ("SELECT a FROM s [NOW] WHERE a < 1", "SELECT a FROM s [NOW] WHERE a > 1"),
        ("SELECT x.a FROM s [NOW] x, s [NOW] y WHERE x.a = y.a", "SELECT x.a FROM s [NOW] x, s [NOW] y"),
        (
            "SELECT x.a FROM s [NOW] x, s [NOW] y WHERE x.a > y.a",
            "SELECT x.a FROM s [NOW] x, s [NOW] y WHERE y.a > x.a",
        ),
    ],
)
def test_what_makes_a_difference_is_kept(one, other):
    assert canonical(bare(one)) != canonical(bare(other))


def test_a_condition_that_guards_another_from_an_error_stays_before_it():
    guarded = bare("SELECT a FROM s [NOW] WHERE c = '1' AND CAST(c AS BIGINT) > 0")
    open_ = bare("SELECT a FROM s [NOW] WHERE CAST(c AS BIGINT) > 0 AND c = '1'")
    assert canonical(guarded) != canonical(open_)


def test_both_uses_of_one_windowed_stream_have_one_form():
    join = bare("SELECT x.a FROM s [RANGE 1 MIN] x, s [RANGE 1 MIN] y WHERE x.a = y.a")
    first, second = (node for node in join.walk() if isinstance(node, algebra.Window))
    assert first != second
    assert canonical(first) == canonical(second) == first


def test_sources_are_numbered_in_the_order_of_a_sub_plan():
    """x, y, z are three uses of s; the inner query names the second and the third."""
    whole = bare(
        "SELECT x.a FROM s [NOW] x, (SELECT y.a, z.c FROM s [NOW] y, s [NOW] z WHERE y.a = z.a) i"
        " WHERE x.a = i.a"
    )
    inner = next(node for node in whole.walk() if isinstance(node, algebra.Project) and node is not whole)
    alone = bare("SELECT y.a, z.c FROM s [NOW] y, s [NOW] z WHERE y.a = z.a")
    assert canonical(inner) == canonical(alone)
    assert outline(canonical(inner)) == (
        'Project(Join(s[NOW] | s#2[NOW] | 0."s.a" = 1."s#2.a") | (1).c0: "s.a", (1).c1: "s#2.c")'
    )


def test_the_sources_of_a_later_input_are_numbered_on():
    both = bare("SELECT a FROM s [NOW] WHERE a > 1 EXCEPT ALL SELECT a FROM s [NOW] WHERE a > 1")
    assert outline(canonical(both)) == (
        'Except(Project(Select(s[NOW] | CAST(1 AS BIGINT) < "s.a") | (1).c0: "s.a")'
        ' | Project(Select(s#2[NOW] | CAST(1 AS BIGINT) < "s#2.a") | (2).c0: "s#2.a"))'
    )
    left, right = both.children
    assert canonical(left) == canonical(right)


@given(plan=plans(), data=tables(), instant=st.integers(0, 25))
@settings(max_examples=40)
def test_the_form_means_the_same_column_by_column(plan, data, instant):
    for node in (plan, apply_rules(plan).plan):
        form = canonical(node)
        assert [field.type for field in form.fields] == [field.type for field in node.fields]
        assert answer_at(form, instant * SECOND, data) == answer_at(node, instant * SECOND, data)


@given(plan=plans())
def test_a_form_is_its_own_form(plan):
    for node in plan.walk():
        assert canonical(canonical(node)) == canonical(node)
