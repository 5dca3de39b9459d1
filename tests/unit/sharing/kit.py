"""Conditions over one small stream, its rows in all combinations of telling values, and what DuckDB says."""

from __future__ import annotations

import itertools
import math
from datetime import datetime
from functools import cache

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from sash.lang import bind_program
from sash.lang.bound import QueryDefinition, Scalar
from sash.operators.evaluate import evaluate_mask

STREAM = (
    "CREATE STREAM s (t BIGINT, n BIGINT, m BIGINT, x DOUBLE, k STRING, b BOOLEAN, at TIMESTAMP) "
    "TIMESTAMP BY t FROM 'csv:s.csv' WITH (unit = 'us');\n"
)
MOMENT = datetime(2026, 1, 31, 12)
VALUES = {
    "n": (None, -(2**63), -1, 0, 1, 2, 3, 2**63 - 1),
    "m": (None, 0, 2),
    "x": (None, -math.inf, -0.0, 0.0, 1.5, 2.0, math.inf, math.nan),
    "k": (None, "", "a", "ab", "b", "é"),
    "b": (None, False, True),
    "at": (None, MOMENT, datetime(2026, 1, 31, 12, 0, 1)),
}
TYPES = {
    "n": pa.int64(),
    "m": pa.int64(),
    "x": pa.float64(),
    "k": pa.string(),
    "b": pa.bool_(),
    "at": pa.timestamp("us"),
}


@cache
def rows() -> pa.Table:
    """Every combination of values, once."""
    columns = zip(*itertools.product(*VALUES.values()), strict=True)
    return pa.table(
        {name: pa.array(list(values), TYPES[name]) for name, values in zip(VALUES, columns, strict=True)}
    )


def query(text: str, name: str = "q") -> QueryDefinition:
    return bind_program(f"{STREAM}CREATE QUERY {name} AS {text};").queries[-1]


@cache
def where(condition: str) -> Scalar:
    select = query(f"SELECT COUNT(*) AS c FROM s [RANGE 4 US SLIDE 2 US] WHERE {condition}").select
    assert select is not None
    assert select.where is not None
    return select.where


@cache
def selected(condition: str) -> np.ndarray:
    """Which of the rows the condition selects, by DuckDB."""
    return np.asarray(evaluate_mask(rows(), where(condition)))


_ATOMS = (
    *(f"{c} {op} {v}" for c in ("n", "m") for op in ("=", "<>", "<", "<=", ">", ">=") for v in (-1, 0, 2)),
    *(f"x {op} {v}" for op in ("=", "<>", "<", "<=", ">", ">=") for v in ("0.0", "1.5", "2.0")),
    *(f"k {op} '{v}'" for op in ("=", "<>", "<", "<=", ">", ">=") for v in ("", "a", "é")),
    *("b", "b = TRUE", "b <> TRUE", "b IS TRUE", "b IS FALSE", "b > FALSE"),
    *(f"{column} IS {negation}NULL" for column in VALUES for negation in ("", "NOT ")),
    *("n IN (0, 1)", "n NOT IN (1, 2)", "k IN ('a', 'b')", "n IN (0, CAST(NULL AS BIGINT))"),
    *("n NOT IN (0, CAST(NULL AS BIGINT))", "n BETWEEN 0 AND 2", "x NOT BETWEEN 0.0 AND 1.5"),
    *("n BETWEEN 2 AND 0", "n < m", "n >= m", "m > n", "n = m", "m <> n", "k LIKE 'a%'", "k NOT LIKE 'a%'"),
    *("m + 1 > 2 * 1", "n > 1.5", "m BETWEEN n AND 2", "(n < 2) IS NULL", "(n < 2) IS NOT TRUE"),
    *("at > TIMESTAMP '2026-01-31 12:00:00'", "at = TIMESTAMP '2026-01-31 12:00:00'", "1 = 1", "1 > 2"),
    *("n = CAST(NULL AS BIGINT)", "5 > n", "n < 9223372036854775807", "n <= 9223372036854775807"),
)


def conditions() -> st.SearchStrategy[str]:
    """Conditions of CQL over the stream, with AND, OR and NOT."""
    return st.recursive(
        st.sampled_from(_ATOMS),
        lambda inner: st.one_of(
            st.builds("({} AND {})".format, inner, inner),
            st.builds("({} OR {})".format, inner, inner),
            st.builds("(NOT {})".format, inner),
        ),
        max_leaves=5,
    )
