"""Printing a tree and reading the text again gives the same tree."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sash.lang import parse, unparse

NAMES = st.sampled_from(["a", "b", "src", "Length", '"Mixed Case"', '"select"', '"quo""te"', "größe"])
LITERALS = st.one_of(
    st.integers(0, 10**20).map(str),
    st.floats(0, 1e9).map(repr),
    st.sampled_from(["1.", ".5", "1e5", "2.5E-3", "NULL", "TRUE", "FALSE", "TIMESTAMP '2026-01-31'"]),
    st.text("ab'\\\n%\"-/*; é", max_size=6).map(lambda text: "'" + text.replace("'", "''") + "'"),
)
LEAVES = LITERALS | NAMES | st.tuples(NAMES, NAMES).map(".".join)
BINARY = ["+", "-", "*", "/", "%", "DIV", "||", "=", "<>", "!=", "<", "<=", ">", ">=", "AND", "OR", "LIKE"]
TYPES = st.sampled_from(["BIGINT", "int", "DOUBLE", "real", "STRING", "text", "BOOLEAN", "TIMESTAMP"])
INTERVALS = st.tuples(
    st.integers(1, 10**6).map(str), st.sampled_from(["us", "MS", "sec", "MINUTES", "h", "day", "weeks"])
).map(" ".join)


def _compound(inner):
    # Operands are put in parentheses half of the time, so that both shapes of a tree come up.
    operand = inner | inner.map(lambda text: f"({text})")
    safe = inner.map(lambda text: f"({text})")
    return st.one_of(
        st.tuples(safe, st.sampled_from(BINARY), safe).map(" ".join),
        st.tuples(LEAVES, st.sampled_from(BINARY[:7]), operand.filter(lambda t: "=" not in t)).map(" ".join),
        safe.map(lambda text: f"-{text}"),
        safe.map(lambda text: f"NOT {text}"),
        st.tuples(safe, st.sampled_from(["IS NULL", "IS NOT NULL", "is true", "IS NOT FALSE"])).map(" ".join),
        st.tuples(safe, st.sampled_from(["IN", "NOT IN"]), inner, inner).map(
            lambda t: f"{t[0]} {t[1]} ({t[2]}, {t[3]})"
        ),
        st.tuples(safe, safe, safe).map(lambda t: f"{t[0]} NOT BETWEEN {t[1]} AND {t[2]}"),
        st.tuples(st.sampled_from(["SUM", "coalesce", "f"]), inner, inner).map(
            lambda t: f"{t[0]}({t[1]}, {t[2]})"
        ),
        st.tuples(inner, inner, inner).map(lambda t: f"CASE {t[0]} WHEN {t[1]} THEN {t[2]} END"),
        st.tuples(inner, inner, inner).map(lambda t: f"CASE WHEN {t[0]} THEN {t[1]} ELSE {t[2]} END"),
        st.tuples(inner, TYPES).map(lambda t: f"CAST({t[0]} AS {t[1]})"),
        inner.map(lambda text: f"EXTRACT(hour FROM {text})"),
        st.just("COUNT(*)"),
    )


EXPRESSIONS = st.recursive(LEAVES, _compound, max_leaves=12)


@st.composite
def selects(draw):
    items = draw(
        st.lists(st.just("*") | EXPRESSIONS | EXPRESSIONS.map(lambda e: f"{e} AS x"), min_size=1, max_size=4)
    )
    text = f"SELECT {draw(st.sampled_from(['', 'DISTINCT ']))}{', '.join(items)} FROM {draw(NAMES)}"
    text += f" [{draw(st.sampled_from(['RANGE', 'window']))} {draw(INTERVALS)} SLIDE {draw(INTERVALS)}]"
    text += draw(st.just("") | NAMES.map(lambda name: f" AS {name}"))
    text += draw(st.just("") | EXPRESSIONS.map(lambda e: f" WHERE {e}"))
    text += draw(
        st.just("") | st.lists(EXPRESSIONS, min_size=1, max_size=3).map(lambda k: f" GROUP BY {', '.join(k)}")
    )
    text += draw(st.just("") | EXPRESSIONS.map(lambda e: f" HAVING {e}"))
    operator = draw(st.sampled_from(["", "Istream", "DSTREAM", "rstream"]))
    return f"{operator}({text})" if operator else text


@st.composite
def streams(draw):
    columns = draw(st.lists(st.tuples(NAMES, TYPES).map(" ".join), min_size=1, max_size=4))
    slack = draw(st.just("") | INTERVALS.map(lambda i: f" SLACK {i}"))
    values = st.one_of(LITERALS.filter(lambda x: x != "NULL" and "TIMESTAMP" not in x), st.just("-7"))
    options = draw(st.lists(st.tuples(NAMES, values).map(" = ".join), max_size=3))
    with_ = f" WITH ({', '.join(options)})" if options else ""
    head = f"CREATE STREAM {draw(NAMES)} ({', '.join(columns)}) TIMESTAMP BY {draw(NAMES)}"
    return f"{head}{slack} FROM 'csv:x'{with_}"


STATEMENTS = st.one_of(
    selects().map(lambda text: f"EXPLAIN {text}"),
    st.tuples(NAMES, selects()).map(lambda t: f"CREATE QUERY {t[0]} INTO 'jsonl:o' AS {t[1]}"),
    streams(),
)


@given(STATEMENTS)
@settings(derandomize=True, deadline=None, max_examples=400)
def test_a_printed_statement_reads_back_as_the_same_tree(text):
    (statement,) = parse(f"{text};")
    printed = unparse(statement.node)
    (again,) = parse(f"{printed};")
    assert again.node == statement.node
    assert unparse(again.node) == printed
