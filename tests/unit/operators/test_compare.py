"""Comparisons without DuckDB: where they answer at all, they answer what DuckDB answers."""

from __future__ import annotations

import math

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.lang import bind_program
from sash.lang.bound import Scalar
from sash.operators.compare import compare

STREAM = (
    "CREATE STREAM s (t BIGINT, n BIGINT, x DOUBLE, k STRING, b BOOLEAN, at TIMESTAMP) "
    "TIMESTAMP BY t FROM 'csv:s';\n"
)
OPERATORS = ("=", "<>", "<", "<=", ">", ">=")
PLAIN = [f"{c} {op} {v}" for op in OPERATORS for c, v in (("n", "1"), ("n", "-2"), ("x", "0.5"), ("x", "-1"))]
PLAIN += [f"k {op} 'a'" for op in ("=", "<>")]
PLAIN += [
    "n > 0 AND k = 'a'",
    "(n > 0) AND (x <= 0.5) AND k <> 'b'",
    "n >= -9223372036854775808",
    "n < 9223372036854775807",
    "k = 'it''s'",
    "k = ''",
    "k = '1'",
    "x > 1e300",
    "n = 0 AND n <> 0",
    "n BETWEEN 0 AND 2",
    "n BETWEEN -1 AND -2",
    "x BETWEEN -1 AND 0.5",
    "n IN (1, -2)",
    "k IN ('a', '') AND n IN (0)",
]
OTHERS = [
    "n > 0 OR x > 0",
    "NOT n > 0",
    "1 < n",
    "n > x",
    "n > 0.5",
    "n + 1 > 0",
    "k < 'b'",
    "k LIKE 'a%'",
    "k IS NULL",
    "n NOT IN (1, 2)",
    "n IN (1, 0.5)",
    "x IN (0.5, 1)",
    "k BETWEEN 'a' AND 'b'",
    "n BETWEEN 0 AND x",
    "b",
    "b = TRUE",
    "at = TIMESTAMP '2026-01-01 00:00:00'",
    "at > TIMESTAMP '2026-01-01 00:00:00' AND n = 1",
    "LENGTH(k) = 1",
    "CAST(k AS BIGINT) = 1 AND n > 0",
    "(n > 0) AND (x <= 0.5 OR k <> 'b')",
]


def condition_of(text: str) -> Scalar:
    program = bind_program(f"{STREAM}EXPLAIN SELECT n FROM s [RANGE 1 SEC SLIDE 1 SEC] WHERE {text};")
    select = program.explains[0].select
    assert select is not None
    assert select.where is not None
    return select.where


def duckdb_says(table: pa.Table, condition: Scalar) -> list[bool | None]:
    with duckdb.connect(":memory:") as connection:
        rows = connection.from_arrow(table).project(condition.sql).fetchall()
    return [value for (value,) in rows]


def table_of(rows: list[tuple[object, ...]], *, encoded: bool = False) -> pa.Table:
    columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[], [], []]
    words = pa.chunked_array([pa.array(columns[2], pa.string())])
    return pa.table(
        {
            "n": pa.array(columns[0], pa.int64()),
            "x": pa.array(columns[1], pa.float64()),
            "k": words.dictionary_encode() if encoded else words,
            "b": pa.array([None] * len(rows), pa.bool_()),
            "at": pa.array([None] * len(rows), pa.timestamp("us")),
        }
    )


rows = st.lists(
    st.tuples(
        st.one_of(st.none(), st.sampled_from([-(2**63), -2, 0, 1, 2, 2**63 - 1])),
        st.one_of(st.none(), st.sampled_from([-1.0, -0.0, 0.5, 1e301, math.inf, -math.inf])),
        st.one_of(st.none(), st.sampled_from(["", "a", "b", "it's", "1", "A"])),
    ),
    max_size=12,
)


@settings(max_examples=12)
@pytest.mark.parametrize("text", PLAIN)
@given(rows=rows, encoded=st.booleans())
def test_plain_comparisons_are_answered_as_duckdb_answers_them(text, rows, encoded):
    table, condition = table_of(rows, encoded=encoded), condition_of(text)
    mask = compare(table, condition)
    assert mask is not None
    assert mask.to_pylist() == duckdb_says(table, condition)


@pytest.mark.parametrize("text", OTHERS)
def test_other_forms_are_left_to_the_evaluator(text):
    table = table_of([(1, 0.5, "a"), (None, None, None), (-2, 2.0, "1")])
    condition = condition_of(text)
    assert compare(table, condition) is None


def test_a_column_with_nan_is_left_to_the_evaluator_because_sql_orders_nan():
    table = table_of([(1, math.nan, "a"), (1, 0.5, "a")])
    assert compare(table, condition_of("x > 0.25")) is None
    assert duckdb_says(table, condition_of("x > 0.25")) == [True, True]
    assert compare(table, condition_of("n = 1")) is not None


def test_words_of_several_dictionaries_are_compared_by_value():
    chunks = [pa.array(["b", "a", None]).dictionary_encode(), pa.array(["a", "c"]).dictionary_encode()]
    table = pa.table({"k": pa.chunked_array(chunks)})
    mask = compare(table, condition_of("k = 'a'"))
    assert mask is not None
    assert mask.to_pylist() == [False, True, None, True, False]
