"""Update patterns of operators and plans, by the rules of the thesis and where ours are stricter."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.plan.kit import (
    SECOND,
    Distinct,
    Except,
    Intersect,
    RelationJoin,
    Select,
    Union,
    anti,
    column,
    condition,
    count_by,
    equi_join,
    project,
    relation,
    rows_window,
    stream,
    time_window,
)

from sash.lang import algebra
from sash.lang.algebra import Output, OutputKind, WindowKind, WindowSpec
from sash.plan.patterns import Pattern, output_pattern, pattern_of

A, B, C = (time_window(stream(name)) for name in "abc")
INTERNAL_A, INTERNAL_B = (time_window(stream(name), is_internal=True) for name in "ab")
MON, WKS, WK, STR = Pattern


def with_relation(node: algebra.Node, *, is_retroactive: bool) -> RelationJoin:
    key = next(name for name in node.names if name.endswith(".k"))
    return RelationJoin(node, relation(is_retroactive=is_retroactive), (column(key),), (column("r.k"),))


def keys(node: algebra.Node, name: str) -> algebra.Project:
    return project(node, k=column(f"{name}.k"))


def lasting(name: str) -> algebra.Stream:
    """A stream whose source says how long each row lives."""
    return replace(stream(name), has_lifetime=True)


LASTING = algebra.Window(lasting("a"), WindowSpec(WindowKind.UNBOUNDED))


@pytest.mark.parametrize(
    ("plan", "pattern"),
    [
        (stream("a"), MON),
        (algebra.Window(stream("a"), WindowSpec(WindowKind.UNBOUNDED)), MON),
        (A, WKS),
        (algebra.Window(stream("a"), WindowSpec(WindowKind.NOW)), WKS),
        (time_window(stream("a"), offset=5 * SECOND), WKS),
        (LASTING, WK),
        (Distinct(LASTING), WK),
        (time_window(lasting("a")), WK),
        (time_window(Select(keys(lasting("a"), "a"), condition('"k" > 1', "k"))), WK),
        (algebra.Window(lasting("a"), WindowSpec(WindowKind.NOW)), WKS),
        (rows_window(lasting("a")), STR),
        (Union(keys(A, "a"), keys(time_window(lasting("b")), "b")), WK),
        (rows_window(stream("a")), STR),
        (Select(A, condition('"a.v" > 1', "a.v")), WKS),
        (keys(rows_window(stream("a")), "a"), STR),
        (equi_join(A, B), WK),
        (equi_join(A, rows_window(stream("b"))), STR),
        (equi_join(stream("a"), stream("b")), MON),
        (Distinct(A), WK),
        (Distinct(rows_window(stream("a"))), STR),
        (Distinct(stream("a")), MON),
        (anti(A, B, "a.k", "b.k"), STR),
        (algebra.SemiJoin(A, B, (column("a.k"),), (column("b.k"),), is_anti=False), WK),
        (equi_join(anti(A, C, "a.k", "c.k"), B), STR),
        (count_by(A, "a.k"), STR),
        (Union(keys(A, "a"), keys(B, "b")), WKS),
        (Union(keys(A, "a"), keys(equi_join(B, C), "b")), WK),
        (Union(keys(A, "a"), keys(rows_window(stream("b")), "b")), STR),
        (Except(keys(A, "a"), keys(B, "b")), STR),
        (Intersect(keys(A, "a"), keys(B, "b")), STR),
        (with_relation(A, is_retroactive=False), WKS),
        (with_relation(stream("a"), is_retroactive=False), MON),
        (with_relation(A, is_retroactive=True), STR),
    ],
)
def test_the_pattern_of_an_operator(plan, pattern):
    assert pattern_of(plan) is pattern


def test_a_union_of_windows_of_different_lengths_is_weak_because_rows_expire_out_of_order():
    assert pattern_of(Union(keys(A, "a"), keys(time_window(stream("b"), 20), "b"))) is WK


def test_a_join_of_a_window_with_an_endless_stream_is_weak_because_late_matches_live_shorter():
    assert pattern_of(equi_join(A, stream("b"))) is WK


def test_a_row_of_a_window_with_lifetimes_may_outlive_the_next_so_it_is_not_weakest():
    """
    row with lifetime 9   ├────────┤
    row with lifetime 2      ├─┤
    """
    assert pattern_of(equi_join(LASTING, B)) is WK
    assert output_pattern(algebra.Window(lasting("a"), replace(LASTING.spec, is_internal=True))) is MON


class TestInternalWindows:
    """INTERNAL: results never expire, state is maintained as if they did."""

    def test_the_result_of_a_join_of_internal_windows_is_monotonic(self):
        assert output_pattern(equi_join(INTERNAL_A, INTERNAL_B)) is MON

    def test_its_inner_edges_are_those_of_external_windows(self):
        assert pattern_of(equi_join(INTERNAL_A, INTERNAL_B)) is WK

    def test_two_external_windows_make_the_join_weak(self):
        assert output_pattern(equi_join(INTERNAL_A, B, C)) is WK

    def test_an_aggregate_over_an_internal_window_is_append_only(self):
        assert output_pattern(count_by(INTERNAL_A, "a.k")) is MON
        assert output_pattern(count_by(A, "a.k")) is STR


@pytest.mark.parametrize(
    ("kind", "pattern"),
    [
        (OutputKind.VIEW, WK),
        (OutputKind.ISTREAM, MON),
        (OutputKind.DSTREAM, MON),
        (OutputKind.RSTREAM, MON),
    ],
)
def test_the_output_operator_decides_what_leaves(kind, pattern):
    assert pattern_of(Output(equi_join(A, B), kind)) is pattern


def test_an_output_window_of_rows_is_strict_and_of_time_weakest():
    rows, time = WindowSpec(WindowKind.ROWS, rows=10), WindowSpec(WindowKind.RANGE, range=SECOND)
    assert pattern_of(Output(equi_join(A, B), OutputKind.WSTREAM, rows)) is STR
    assert pattern_of(Output(equi_join(A, B), OutputKind.WSTREAM, time)) is WKS
