"""Bound expressions, run by DuckDB over an Arrow table: exact types, and the values that were promised."""

from __future__ import annotations

import datetime as dt
import functools

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.lang import bind_program
from sash.lang.types import Type

MIN, MAX = -(2**63), 2**63 - 1
ROWS = pa.table(
    {
        "at": pa.array([dt.datetime(2026, 1, 31, 12, 30, 15, 250_000), None], pa.timestamp("us")),
        "s": pa.array(["Añ b", None], pa.string()),
        "t": pa.array(["x%", "y"], pa.string()),
        "i": pa.array([7, None], pa.int64()),
        "j": pa.array([-3, 5], pa.int64()),
        "z": pa.array([0, 0], pa.int64()),
        "low": pa.array([MIN, MIN], pa.int64()),
        "high": pa.array([MAX, MAX], pa.int64()),
        "d": pa.array([2.5, None], pa.float64()),
        "e": pa.array([-0.25, 1e10], pa.float64()),
        "b": pa.array([True, None], pa.bool_()),
        "c": pa.array([False, True], pa.bool_()),
    }
)
STREAM = (
    "CREATE STREAM rows (at TIMESTAMP, s STRING, t STRING, i INT, j INT, z INT, low INT, high INT, d DOUBLE,"
    " e DOUBLE, b BOOLEAN, c BOOLEAN) TIMESTAMP BY at FROM 'csv:x';"
)
ARROW = {
    Type.BIGINT: pa.int64(),
    Type.DOUBLE: pa.float64(),
    Type.STRING: pa.string(),
    Type.BOOLEAN: pa.bool_(),
    Type.TIMESTAMP: pa.timestamp("us"),
}


def bound(expression):
    program = bind_program(f"{STREAM} EXPLAIN SELECT {expression} AS x FROM rows [RANGE 1 MIN SLIDE 1 SEC];")
    select = program.explains[0].select
    assert select is not None
    return select.keys[0]


@functools.cache
def connection():
    made = duckdb.connect()
    made.execute("SET threads = 1")
    made.register("rows", ROWS)
    return made


def run(scalar):
    return connection().sql(f"SELECT {scalar.sql} AS x FROM rows").to_arrow_table().column("x")


def value(expression):
    """The expression's value in the first row."""
    scalar = bound(expression)
    column = run(scalar)
    assert column.type == ARROW[scalar.type]
    return column[0].as_py()


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("i + j * 2", 1),
        ("i / j", 7 / -3),
        ("i / 2", 3.5),
        ("i / z", None),
        ("d / 0", None),
        ("i % j", 1),
        ("j % i", -3),
        ("i % z", None),
        ("d % z", None),
        ("MOD(i, 4)", 3),
        ("i DIV j", -2),
        ("i DIV z", None),
        ("-i", -7),
        ("- -i", 7),
        ("-d", -2.5),
        ("-9223372036854775808", MIN),
        ("9223372036854775807", MAX),
        ("007", 7),
        ("1.5", 1.5),
        (".1", 0.1),
        ("1e-5", 1e-5),
        ("0.1 + 0.2", 0.1 + 0.2),
        ("1.7976931348623157e308", 1.7976931348623157e308),
        ("s || '!'", "Añ b!"),
        ("'it''s' || ' \\n'", "it's \\n"),
        ("CONCAT(s, NULLIF(t, 'x%'), '-')", "Añ b-"),
        ("LENGTH(s)", 4),
        ("UPPER(s)", "AÑ B"),
        ("LOWER(s)", "añ b"),
        ("TRIM('  x ')", "x"),
        ("SUBSTRING(s, 2, 2)", "ñ "),
        ("SUBSTRING(s, 3)", " b"),
        ("REPLACE(s, ' ', '_')", "Añ_b"),
        ("i > d", True),
        ("i <> j AND NOT c", True),
        ("i != 7 OR b", True),
        ("i BETWEEN 1 AND 7.5", True),
        ("i NOT BETWEEN 8 AND 9", True),
        ("i IN (1, 7, 8.5)", True),
        ("s NOT IN ('a', 'b')", True),
        ("s LIKE 'A%'", True),
        ("s LIKE '_'", False),
        ("i IS NULL", False),
        ("NULL IS NULL", True),
        ("c IS NOT TRUE", True),
        ("c IS FALSE", True),
        ("CASE WHEN i > 100 THEN 1 ELSE 2.5 END", 2.5),
        ("CASE j WHEN -3 THEN 'minus three' END", "minus three"),
        ("CASE WHEN c THEN i END", None),
        ("CASE WHEN c THEN NULL ELSE i END", 7),
        ("COALESCE(NULL, NULLIF(i, 7), 9)", 9),
        ("NULLIF(i, 7.0)", None),
        ("CAST(d AS BIGINT)", 2),
        ("CAST(i AS DOUBLE)", 7.0),
        ("CAST('12' AS INT)", 12),
        ("CAST(b AS INT)", 1),
        ("CAST(i AS BOOLEAN)", True),
        ("CAST(i AS STRING)", "7"),
        ("CAST(NULL AS DOUBLE)", None),
        ("ABS(j)", 3),
        ("ABS(e)", 0.25),
        ("ROUND(d)", 3.0),
        ("ROUND(1234.567, 2)", 1234.57),
        ("ROUND(i)", 7),
        ("ROUND(1234, -2)", 1200),
        ("FLOOR(d)", 2.0),
        ("CEIL(d)", 3.0),
        ("CEIL(i)", 7),
        ("SQRT(i + 2)", 3.0),
        ("SQRT(e)", None),
        ("LN(1)", 0.0),
        ("LN(z)", None),
        ("LN(j)", None),
        ("LN(NULLIF(i, 7))", None),
        ("EXP(0)", 1.0),
        ("POWER(2, 10)", 1024.0),
        ("POWER(j, 0.5)", None),
        ("GREATEST(i, d)", 7.0),
        ("LEAST(i, j, NULLIF(z, 0))", -3),
        ("GREATEST(s, t)", "x%"),
        ("EXTRACT(YEAR FROM at)", 2026),
        ("EXTRACT(hour FROM at)", 12),
        ("EXTRACT(SECOND FROM at)", 15),
        ("EXTRACT(DOW FROM at)", 6),
        ("EXTRACT(EPOCH FROM TIMESTAMP '1970-01-01 00:00:01.5')", 1.5),
        ("TIMESTAMP '2026-01-31T14:00:00+02:00'", dt.datetime(2026, 1, 31, 12)),
        ("at > TIMESTAMP '2026-01-31'", True),
        ("at", dt.datetime(2026, 1, 31, 12, 30, 15, 250_000)),
    ],
)
def test_an_expression_has_the_promised_value_and_type(expression, expected):
    assert value(expression) == expected


@pytest.mark.parametrize(
    "expression",
    ["high + 1", "low - 1", "high * 2", "-low", "ABS(low)", "low DIV -1", "3000000000 * 3000000000 * 3"],
)
def test_integer_overflow_is_an_error_of_duckdb(expression):
    scalar = bound(expression)
    with pytest.raises(duckdb.OutOfRangeException):
        run(scalar)


def test_integers_past_32_bits_do_not_overflow():
    assert value("2147483647 + 1") == 2**31
    assert value("100000 * 100000") == 10**10


def test_hundreds_of_terms_run():
    assert value(" + ".join(["1"] * 400)) == 400
    assert value(" OR ".join(["i = 0"] * 400)) is False


def _expressions():
    leaf = {
        Type.BIGINT: st.sampled_from(["i", "j", "z", "0", "3", "-12", "LENGTH(s)"]),
        Type.DOUBLE: st.sampled_from(["d", "e", "0.5", "-2e0", "1e300"]),
        Type.STRING: st.sampled_from(["s", "t", "'a'", "''"]),
        Type.BOOLEAN: st.sampled_from(["b", "c", "TRUE", "FALSE"]),
        Type.TIMESTAMP: st.sampled_from(["at", "TIMESTAMP '2026-01-01'"]),
    }

    def form(text, *kinds):
        return lambda draw, depth: text.format(*(expression(draw, kind, depth - 1) for kind in kinds))

    i, d, s, b, t = Type.BIGINT, Type.DOUBLE, Type.STRING, Type.BOOLEAN, Type.TIMESTAMP
    anything = [
        "COALESCE({0}, {1})",
        "GREATEST({0}, {1})",
        "LEAST({0}, {1})",
        "NULLIF({0}, {1})",
        "CASE WHEN ({0}) = ({1}) THEN {0} ELSE {1} END",
        "CASE {0} WHEN {1} THEN NULL ELSE {1} END",
    ]
    forms = {
        i: [
            *(form(f, i, i) for f in ("({0}) % ({1})", "({0}) DIV ({1})", "MOD({0}, {1})", "({0}) - ({1})")),
            *(form(f, i) for f in ("-({0})", "ABS({0})", "ROUND({0}, -1)", "FLOOR({0})", "({0}) + 1")),
            form("CAST({0} AS INT)", b),
            form("EXTRACT(MONTH FROM {0})", t),
        ],
        d: [
            *(form(f, d, i) for f in ("({0}) + ({1})", "({1}) * ({0})", "({0}) / ({1})", "({1}) % ({0})")),
            *(form(f, i) for f in ("CAST({0} AS DOUBLE)", "SQRT({0})", "LN({0})", "({0}) / 3")),
            *(form(f, d) for f in ("ROUND({0}, 1)", "CEIL({0})", "EXP({0})", "POWER({0}, 2)", "-({0})")),
            form("EXTRACT(EPOCH FROM {0})", t),
        ],
        s: [
            *(form(f, s, s) for f in ("({0}) || ({1})", "CONCAT({0}, {1})", "REPLACE({0}, {1}, 'x')")),
            *(form(f, s) for f in ("UPPER({0})", "TRIM({0})", "SUBSTRING({0}, 1, 2)")),
            *(form("CAST({0} AS STRING)", kind) for kind in (i, d, b, t)),
        ],
        b: [
            *(form("({0}) <= ({1})", kind, kind) for kind in (i, d, s, b, t)),
            *(form(f, b, b) for f in ("({0}) AND ({1})", "({0}) OR ({1})", "({0}) IS NOT TRUE")),
            *(form(f, i, d) for f in ("({0}) IN ({1}, 3)", "({0}) BETWEEN ({1}) AND ({0})", "({0}) IS NULL")),
            form("NOT ({0})", b),
            form("({0}) LIKE ({1})", s, s),
        ],
        t: [],
    }
    for kind, found in forms.items():
        found.extend(form(f, kind, kind) for f in anything)

    def expression(draw, kind, depth):
        if depth <= 0 or draw(st.integers(0, 3)) == 0:
            return draw(leaf[kind])
        return draw(st.sampled_from(forms[kind]))(draw, depth)

    @st.composite
    def expressions(draw):
        kind = draw(st.sampled_from(list(forms)))
        return kind, expression(draw, kind, 3)

    return expressions()


@given(_expressions())
@settings(derandomize=True, deadline=None, max_examples=300)
def test_the_type_of_a_result_is_exactly_the_type_that_was_bound(example):
    kind, text = example
    scalar = bound(text)
    assert scalar.type is kind
    try:
        column = run(scalar)
    except duckdb.OutOfRangeException:
        return  # An overflow, which is an error by design.
    assert column.type == ARROW[kind]


@given(_expressions())
@settings(derandomize=True, deadline=None, max_examples=100)
def test_the_same_meaning_gives_the_same_sql(example):
    _, text = example
    loud = text.replace("FROM at", "FROM rows.at").replace("(", "( /* and */ ")
    assert bound(loud) == bound(f"({text})")


@given(st.floats(allow_nan=False, allow_infinity=False))
@settings(derandomize=True, deadline=None, max_examples=100)
def test_a_double_literal_keeps_every_bit(number):
    written = repr(number)
    assert value(written if "." in written or "e" in written else f"{written}.0") == number


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20))
@settings(derandomize=True, deadline=None, max_examples=100)
def test_a_string_literal_keeps_every_character(text):
    assert value("'" + text.replace("'", "''") + "'") == text
