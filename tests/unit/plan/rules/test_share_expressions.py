"""Repeated expressions are computed once, where it saves work and raises no new error."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.lang.plan_kit import outline, plan
from tests.unit.plan import cql_kit
from tests.unit.plan.kit import SECOND

from sash.lang.algebra import Node
from sash.plan.cost import Statistics, StreamStatistics, estimate
from sash.plan.rules import apply_rules
from sash.plan.rules.share_expressions import share_expressions
from sash.testing.relational import answer_at


def rewritten(query: str) -> Node:
    """The plan after all rules, below its output."""
    return apply_rules(plan(query)).plan.children[0]


def test_two_outputs_share_what_both_compute():
    assert outline(rewritten("SELECT a * a + 1 AS x, (a * a + 1) * 2 AS y FROM s [ROWS 3]")) == (
        'Project(Project(Project(s | s.a: "s.a")[ROWS 3] | e0: ("s.a" * "s.a") + CAST(1 AS BIGINT))'
        ' | x: "e0", y: "e0" * CAST(2 AS BIGINT))'
    )


def test_a_projection_reads_what_the_selection_below_its_window_has_computed():
    assert outline(
        rewritten("SELECT LOWER(c) || '!' AS x FROM s [RANGE 1 MIN] WHERE LOWER(c) LIKE 'a%'")
    ) == ('Project(Select(Project(s | e0: LOWER("s.c")) | "e0" LIKE \'a%\')[RANGE 1 MIN] | x: "e0" || \'!\')')


def test_keys_and_arguments_of_a_grouping_share():
    after = rewritten("SELECT SUM(b * b * 2) AS x, AVG(b * b * 2) AS y FROM s [NOW] GROUP BY a")
    assert 'SUM("e0"), AVG("e0")' in outline(after)


def test_every_use_counts_also_behind_a_guard_once_one_stands_in_the_open():
    after = rewritten("SELECT CASE WHEN d THEN a * a * a END AS x, a * a * a AS y FROM s [NOW]")
    assert outline(after).endswith('| x: CASE WHEN "s.d" THEN "e0" END, y: "e0")')


@pytest.mark.parametrize(
    ("why", "query"),
    [
        ("guarded by CASE", "CASE WHEN d THEN a * a * a END AS x, CASE WHEN a > 1 THEN a * a * a END AS y"),
        ("guarded by COALESCE", "COALESCE(b, SQRT(b + b)) AS x, COALESCE(1.0, SQRT(b + b)) AS y"),
        ("too cheap", "a + 1 AS x, (a + 1) * 2 AS y"),
        ("nothing but a column", "a AS x, a AS y"),
        ("nothing but a constant", "LENGTH('abc') AS x, LENGTH('abc') AS y"),
    ],
)
def test_it_is_not_shared(why, query):
    assert '"e0"' not in outline(rewritten(f"SELECT {query} FROM s [NOW]")), why


def test_what_a_condition_guards_is_not_shared_and_what_stands_first_is():
    guarded = rewritten("SELECT a FROM s [NOW] WHERE d AND a * a * a > 3 AND a * a * a < 9")
    assert '"e0"' not in outline(guarded)
    first = rewritten("SELECT a FROM s [NOW] WHERE a * a * a > 3 AND a * a * a < 9")
    assert 'Select(Project(s | s.a: "s.a", e0: "s.a" * "s.a" * "s.a")' in outline(first)


def test_a_projection_above_a_selection_is_guarded_by_it():
    after = rewritten("SELECT a * a * a AS x FROM s [ROWS 2] WHERE d AND a * a * a < 9")
    assert '"e0"' not in outline(after)


def test_a_window_does_not_get_wider():
    """c is selected, too, so the window would hold c and LOWER(c)."""
    after = rewritten("SELECT LOWER(c) || '!' AS x, c FROM s [RANGE 1 MIN] WHERE LOWER(c) LIKE 'a%'")
    assert '"e0"' not in outline(after)


def test_a_name_that_is_taken_is_not_given_again():
    after = rewritten("SELECT a * a * a AS e0, a * a * a AS e1 FROM s [NOW]")
    assert outline(after).endswith('e2: "s.a" * "s.a" * "s.a") | e0: "e2", e1: "e2")')


def test_sharing_again_changes_nothing():
    after = rewritten("SELECT a * a + 1 AS x, (a * a + 1) * 2 AS y FROM s [ROWS 3] WHERE a * a + 1 > 0")
    assert share_expressions(after) == after


def test_an_expression_that_fails_for_every_row_fails_when_it_runs_not_when_it_is_planned():
    failing = "CAST('x' AS BIGINT) * a * a"
    after = rewritten(f"SELECT {failing} AS x, {failing} AS y FROM s [NOW]")
    assert outline(after).endswith('| x: "e0", y: "e0")')


def test_declared_selectivities_hold_for_shared_expressions():
    statistics = Statistics({"s": StreamStatistics(1000, selectivity={"c": 0.5})})
    query = "SELECT LOWER(c) || '!' AS x FROM s [RANGE 1 MIN] WHERE LOWER(c) LIKE 'a%'"
    assert estimate(rewritten(query), statistics).rate_out == pytest.approx(500)


EXPRESSIONS = st.recursive(
    st.sampled_from(["k", "v", "2", "LENGTH(s)"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        st.tuples(inner, inner).map(lambda p: f"CASE WHEN {p[0]} > 1 THEN {p[1]} ELSE 0 END"),
        st.tuples(inner, inner).map(lambda p: f"COALESCE({p[0]}, {p[1]})"),
    ),
    max_leaves=4,
)


@st.composite
def queries(draw: st.DrawFn) -> str:
    """Queries over the stream a that say the same few expressions again and again."""
    few = st.sampled_from(draw(st.lists(EXPRESSIONS, min_size=1, max_size=2)))
    use = st.one_of(few, few.map(lambda e: f"({e} + 1)"), few.map(lambda e: f"CASE WHEN v > 0 THEN {e} END"))
    outputs = draw(st.lists(use, min_size=1, max_size=3))
    form = draw(st.sampled_from(["{}", "SUM({})"]))
    selected = ", ".join(f"{form.format(output)} AS o{n}" for n, output in enumerate(outputs))
    conditions = draw(st.lists(st.tuples(use, st.integers(-2, 2)), max_size=3))
    where = " AND ".join(f"{condition} > {least}" for condition, least in conditions) or "TRUE"
    window = draw(st.sampled_from(["[RANGE 5 SEC]", "[ROWS 2]", "[PARTITION BY k ROWS 1]"]))
    return f"SELECT {selected} FROM a {window} WHERE {where}"


@given(query=queries(), data=cql_kit.tables(), instant=st.integers(0, 25))
@settings(max_examples=200)
def test_sharing_changes_no_answer(query, data, instant):
    before = cql_kit.plan(query)
    after = apply_rules(before).plan
    assert answer_at(after, instant * SECOND, data) == answer_at(before, instant * SECOND, data)
