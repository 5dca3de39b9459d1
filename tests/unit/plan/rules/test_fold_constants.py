"""Constants are folded to what DuckDB answers, of the same type; errors stay where they were."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.errors import SashError
from sash.lang import algebra, bind_program
from sash.lang.bound import Scalar
from sash.plan.rules.fold_constants import fold_constants, folded

STREAM = "CREATE STREAM s (t TIMESTAMP, a INT, b DOUBLE, c STRING, d BOOLEAN) TIMESTAMP BY t FROM 'csv:s';"
BIGGEST = 2**63 - 1
ROWS = pa.table(
    {
        "s.a": pa.array([7, BIGGEST, None, -1, 0], pa.int64()),
        "s.b": pa.array([0.5, -1e308, None, 3.0, -0.0], pa.float64()),
        "s.c": pa.array(["x", "12", None, "", "%"], pa.string()),
        "s.d": pa.array([True, False, None, True, False], pa.bool_()),
    }
)


def bound(expression: str) -> Scalar:
    program = bind_program(f"{STREAM} EXPLAIN SELECT {expression} AS x FROM s [NOW];")
    project = program.explains[0].plan.input
    assert isinstance(project, algebra.Project)
    return project.outputs[0].scalar


def answers(scalar: Scalar) -> tuple[object, ...]:
    """The type and the values of the scalar over all rows, or the kind of error."""
    with duckdb.connect(config={"threads": 1}) as connection:
        try:
            column = connection.from_arrow(ROWS).project(f"{scalar.sql} AS x").to_arrow_table().column("x")
        except duckdb.Error as error:
            return (type(error),)
    return (column.type, *(str(value) for value in column.to_pylist()))


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("a > 2 * 512", "s.a > 1024"),
        ("1 + 1", "2"),
        ("'a' || 'b' || c", "'ab' || s.c"),
        ("NOT TRUE", "FALSE"),
        ("NOT (1 > 2 AND d)", "TRUE"),
        ("b * (1.5 * 2)", "s.b * 3.0"),
        ("a IN (1, 1 + 1)", "s.a IN (1, 2)"),
        ("CAST('12' AS BIGINT) + a", "12 + s.a"),
        ("LENGTH('abc') - a", "3 - s.a"),
        ("CAST(2.5 AS BIGINT) * a", "2 * s.a"),
        ("CAST(7 AS STRING) || c", "'7' || s.c"),
        ("a - (1 - 3)", "s.a - -2"),
        ("b - (1.0 - 3)", "s.b - -2.0"),
        ("t > TIMESTAMP '2026-01-31 12:00:00' + INTERVAL '1' HOUR", "s.t > '2026-01-31 13:00:00.000000'"),
        ("d AND NOT FALSE AND a > 1 + 1", "s.d AND (s.a > 2)"),
        ("d OR 1 < 2", "TRUE"),
        ("CASE WHEN 1 > 2 THEN a ELSE a + 1 END", "s.a + 1"),
        ("CASE 3 WHEN 2 THEN a WHEN 3 THEN a + 2 END", "s.a + 2"),
        ("CASE WHEN a > 1 THEN 1 WHEN TRUE THEN 2 ELSE 3 END", "CASE WHEN s.a > 1 THEN 1 ELSE 2 END"),
        ("CASE WHEN CAST(NULL AS INT) > 1 THEN 1 ELSE a END", "s.a"),
        ("1 / 0", "CAST(NULL AS DOUBLE)"),
    ],
)
def test_a_constant_part_is_computed(expression, text):
    before = bound(expression)
    after = folded(before)
    assert after.text == text
    assert after.type is before.type


@pytest.mark.parametrize(
    "expression",
    [
        "9223372036854775807 + 1",
        "a + (9223372036854775807 + 1)",
        "CAST('x' AS BIGINT) + a",
        "a + 1 + 1",
        "CASE WHEN FALSE THEN a END",
        "1e308 * 10",
        "ROUND(b, 2)",
        "t + INTERVAL '1' HOUR",
        "a IS NULL OR NOT (a IS NULL)",
    ],
    ids=lambda expression: expression,
)
def test_an_error_a_number_without_end_and_what_depends_on_rows_stay_as_written(expression):
    scalar = bound(expression)
    assert folded(scalar) is scalar


def test_a_selection_that_lets_all_pass_is_gone_and_one_that_is_unknown_lets_none_pass():
    def selection(condition: str) -> algebra.Node:
        program = bind_program(f"{STREAM} EXPLAIN SELECT a FROM s [NOW] WHERE {condition};")
        plan = fold_constants(program.explains[0].plan)
        assert isinstance(plan, algebra.Output)
        assert isinstance(plan.input, algebra.Project)
        return plan.input.input

    assert isinstance(selection("2 > 1 OR a = 3"), algebra.Window)
    never = selection("CAST(NULL AS BOOLEAN)")
    assert isinstance(never, algebra.Select)
    assert never.predicate.sql == "FALSE"


def test_a_chain_of_hundreds_of_operators_is_folded():
    conditions = " OR ".join(["d", *(f"a = {number} + 0" for number in range(400))])
    assert folded(bound(conditions)).text.endswith("OR (s.a = 399)")


NUMBERS = st.sampled_from(["a", "1", "0", "3", "9223372036854775807", "-2", "CAST(NULL AS INT)", "LENGTH(c)"])
DOUBLES = st.sampled_from(["b", "0.5", "1e308", "0.0", "-1.5", "SQRT(-4)"])
STRINGS = st.sampled_from(["c", "'x'", "'12'", "''"])
TRUTHS = st.sampled_from(["d", "TRUE", "FALSE", "CAST(NULL AS BOOLEAN)", "a > 1", "c = 'x'"])


def grown(smaller):
    """Larger expressions of any type; those that do not bind are passed over."""
    both = st.tuples(smaller, smaller)
    return st.one_of(
        both.flatmap(lambda p: st.sampled_from(["+", "-", "*", "/", "%", "<", "=", "||"]).map(
            lambda o: f"({p[0]} {o} {p[1]})")),
        both.flatmap(lambda p: st.sampled_from(["AND", "OR"]).map(lambda o: f"({p[0]} {o} {p[1]})")),
        smaller.map(lambda x: f"(NOT {x})"),
        smaller.map(lambda x: f"(-{x})"),
        smaller.map(lambda x: f"CAST({x} AS BIGINT)"),
        st.tuples(smaller, smaller, smaller).map(lambda p: f"CASE WHEN {p[0]} THEN {p[1]} ELSE {p[2]} END"),
        st.tuples(smaller, smaller, smaller).map(lambda p: f"CASE {p[0]} WHEN {p[1]} THEN {p[2]} END"),
        both.map(lambda p: f"COALESCE({p[0]}, {p[1]})"),
    )  # fmt: skip


@given(expression=st.recursive(st.one_of(NUMBERS, DOUBLES, STRINGS, TRUTHS), grown, max_leaves=6))
@settings(max_examples=600)
def test_folding_changes_no_value_no_type_and_no_error(expression):
    try:
        before = bound(expression)
    except SashError:
        return
    after = folded(before)
    assert answers(after) == answers(before)
