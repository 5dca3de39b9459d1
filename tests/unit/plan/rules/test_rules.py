"""Each rule does what its picture shows, and both sides of every rewrite mean the same at every instant."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.plan.kit import (
    SECOND,
    Distinct,
    RelationJoin,
    Select,
    anti,
    column,
    condition,
    count_by,
    equi_join,
    plans,
    project,
    relation,
    rows_window,
    stream,
    tables,
    time_window,
)

from sash.lang import algebra
from sash.lang.algebra import Node
from sash.plan.rules import RULES, apply_rules
from sash.plan.rules.fold_constants import fold_constants
from sash.plan.rules.move_negation import pull_up_negation, push_down_negation
from sash.plan.rules.push_distinct import push_distinct
from sash.plan.rules.push_projections import push_projections
from sash.plan.rules.push_relation_joins import push_relation_joins
from sash.plan.rules.push_selections import push_selections
from sash.testing.relational import answer_at

A, B, C = (time_window(stream(name)) for name in "abc")
A_BIG = condition('"a.v" > 1', "a.v")
BOTH = condition('("a.v" > 1) AND ("b.s" = \'x\')', "a.v", "b.s")


def shape(node: Node) -> str:
    """The operators of a plan in one line."""
    inner = ", ".join(shape(child) for child in node.children)
    name = node.name if isinstance(node, algebra.Stream | algebra.Relation) else type(node).__name__
    return f"{name}({inner})" if inner else name


def test_a_selection_passes_a_time_window_and_a_join():
    after = push_selections(Select(equi_join(A, B), BOTH))
    assert shape(after) == "Join(Window(Select(a)), Window(Select(b)))"


def test_a_selection_does_not_pass_a_window_of_rows():
    plan = Select(rows_window(stream("a")), A_BIG)
    assert push_selections(plan) == plan


def test_a_selection_on_the_partition_passes_a_partitioned_window_and_no_other_does():
    window = rows_window(stream("a"), partition=("a.k",))
    plan = Select(window, condition('("a.k" = 1) AND ("a.v" > 1)', "a.k", "a.v"))
    after = push_selections(plan)
    assert shape(after) == "Select(Window(Select(a)))"
    assert isinstance(after, Select)
    assert after.predicate.inputs == ("a.v",)


def test_a_condition_over_two_inputs_stays_above_their_join():
    plan = Select(equi_join(A, B), condition('"a.v" < "b.v"', "a.v", "b.v"))
    assert push_selections(plan) == plan


def test_having_on_a_key_passes_the_grouping_and_on_a_count_does_not():
    having = condition('("k0" = 1) AND ("a0" > 2)', "k0", "a0")
    after = push_selections(Select(count_by(A, "a.k"), having))
    assert shape(after) == "Select(Aggregate(Window(Select(a))))"


def test_a_global_aggregate_keeps_its_selection_above():
    plan = Select(count_by(A), condition('"a0" > 2', "a0"))
    assert push_selections(plan) == plan


def test_a_condition_that_is_always_true_is_gone():
    assert fold_constants(Select(A, condition("TRUE AND TRUE"))) == A


def test_columns_that_nobody_reads_are_dropped_at_the_stream():
    after = push_projections(project(equi_join(A, B), x=column("a.v")))
    assert shape(after) == "Project(Join(Window(Project(a)), Window(Project(b))))"
    narrow = [node for node in after.walk() if isinstance(node, algebra.Project)][1:]
    assert [node.names for node in narrow] == [("a.k", "a.v"), ("b.k",)]


def test_duplicate_elimination_reduces_the_input_that_shows_few_columns():
    after = push_distinct(
        Distinct(project(equi_join(A, B), k=column("a.k"), v=column("a.v"), s=column("a.s")))
    )
    assert shape(after) == "Distinct(Project(Join(Window(a), Distinct(Project(Window(b))))))"


def test_a_relation_join_goes_below_negation():
    plan = RelationJoin(anti(A, B, "a.k", "b.k"), relation(), (column("a.k"),), (column("r.k"),))
    assert shape(push_relation_joins(plan)) == "SemiJoin(RelationJoin(Window(a), r), Window(b))"


def test_negation_is_pulled_above_a_join_and_pushed_back():
    below = equi_join(anti(A, C, "a.k", "c.k"), B)
    above = pull_up_negation(below)
    assert shape(above) == "SemiJoin(Join(Window(a), Window(b)), Window(c))"
    assert push_down_negation(above) == below


@pytest.mark.parametrize(
    "rule", [*RULES, pull_up_negation, push_down_negation], ids=lambda rule: rule.__name__
)
@given(plan=plans(), data=tables(), instant=st.integers(0, 25))
@settings(max_examples=40)
def test_both_sides_of_a_rewrite_give_the_same_answer_at_every_instant(rule, plan, data, instant):
    assert answer_at(rule(plan), instant * SECOND, data) == answer_at(plan, instant * SECOND, data)


@given(plan=plans(), data=tables(), instant=st.integers(0, 25))
def test_all_rules_together_keep_the_answer(plan, data, instant):
    after = apply_rules(plan).plan
    assert answer_at(after, instant * SECOND, data) == answer_at(plan, instant * SECOND, data)
