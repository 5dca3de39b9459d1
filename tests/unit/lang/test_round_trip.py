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
        inner.map(lambda text: f"COUNT(DISTINCT {text})"),
        INTERVALS.map(lambda length: f"t + INTERVAL {length}"),
    )


EXPRESSIONS = st.recursive(LEAVES, _compound, max_leaves=12)


COUNTS = st.integers(1, 999).map(str)


def maybe(strategy, before=""):
    """The text after a keyword, or nothing."""
    return st.just("") | strategy.map(lambda text: f" {before}{text}")


@st.composite
def windows(draw):
    kind = draw(
        st.sampled_from(["RANGE", "window", "NOW", "UNBOUNDED", "RANGE UNBOUNDED", "ROWS", "PARTITION"])
    )
    slide = INTERVALS
    if kind in ("RANGE", "window"):
        kind += " " + draw(INTERVALS)
    elif kind in ("ROWS", "PARTITION"):
        by = "" if kind == "ROWS" else f"PARTITION BY {draw(NAMES)}, {draw(NAMES)} "
        kind, slide = f"{by}ROWS {draw(COUNTS)}", COUNTS | COUNTS.map(lambda n: f"{n} ROWS")
    clauses = [
        draw(maybe(slide, "SLIDE ")),
        draw(maybe(INTERVALS, "OFFSET ")),
        draw(maybe(st.just("INTERNAL"))),
    ]
    return f"[{kind}{''.join(draw(st.permutations(clauses)))}]"


OUTPUTS = st.sampled_from(["Istream", "DSTREAM", "rstream", "Istream-restore", "RSTREAM-RESTORE"])


def _conditions(queries):
    return st.one_of(
        EXPRESSIONS,
        queries.map(lambda q: f"EXISTS ({q})"),
        st.tuples(NAMES, queries).map(lambda t: f"{t[0]} NOT IN ({t[1]}) AND NOT EXISTS ({t[1]})"),
    )


def _selects(queries):
    @st.composite
    def select(draw):
        item = st.one_of(
            st.just("*"), EXPRESSIONS, EXPRESSIONS.map(lambda e: f"{e} AS x"), NAMES.map(lambda n: f"{n}.*")
        )
        items = ", ".join(draw(st.lists(item, min_size=1, max_size=3)))
        shape = draw(st.integers(0, 9))
        if shape == 0:
            items = f"{draw(OUTPUTS)}({draw(st.sampled_from(['', 'DISTINCT ']))}{items})"
        elif shape == 1:
            items = f"Wstream({items})[ROWS {draw(COUNTS)}]"
        elif shape == 2:
            items = f"SUM(Wstream({draw(EXPRESSIONS)})[RANGE {draw(INTERVALS)}]) AS x"
        elif shape == 3:
            items = "DISTINCT " + items
        source = st.one_of(NAMES, NAMES, queries.map(lambda q: f"({q})"))
        sources = st.tuples(source, maybe(windows()), maybe(NAMES, "AS ")).map("".join)
        text = f"SELECT {items} FROM {draw(sources)}"
        for kind in draw(
            st.lists(st.sampled_from([", ", " JOIN ", " LEFT JOIN ", " CROSS JOIN "]), max_size=2)
        ):
            text += kind + draw(sources)
            text += f" ON {draw(EXPRESSIONS)}" if kind in (" JOIN ", " LEFT JOIN ") else ""
        text += draw(maybe(_conditions(queries), "WHERE "))
        text += draw(maybe(st.lists(EXPRESSIONS, min_size=1, max_size=2).map(", ".join), "GROUP BY "))
        return text + draw(maybe(EXPRESSIONS, "HAVING "))

    return select()


@st.composite
def ordered(draw, query):
    key = st.tuples(EXPRESSIONS, st.sampled_from(["", " ASC", " DESC", " DESC NULLS LAST", " NULLS FIRST"]))
    keys = st.lists(key.map("".join), min_size=1, max_size=2).map(", ".join)
    return draw(query) + draw(maybe(keys, "ORDER BY ")) + draw(maybe(COUNTS, "LIMIT "))


def _compose(queries):
    closed = queries.map(lambda q: f"({q})")
    operators = st.sampled_from([" UNION ", " UNION ALL ", " EXCEPT ", " EXCEPT ALL ", " INTERSECT ALL "])
    return st.one_of(
        ordered(_selects(queries)),
        st.tuples(closed | _selects(queries), operators, closed, operators, closed).map("".join),
        st.tuples(OUTPUTS, queries).map(lambda t: f"{t[0]}({t[1]})"),
        queries.map(lambda q: f"Wstream({q})[ROWS 3]"),
    )


QUERIES = st.recursive(ordered(_selects(st.just("SELECT a FROM s"))), _compose, max_leaves=3)


@st.composite
def streams(draw):
    columns = draw(st.lists(st.tuples(NAMES, TYPES).map(" ".join), min_size=1, max_size=4))
    clauses = [
        draw(maybe(INTERVALS, "SLACK ")),
        draw(maybe(INTERVALS, "RETAIN ")),
        draw(maybe(NAMES, "LIFETIME BY ")),
        draw(maybe(INTERVALS, "MAX LIFETIME ")),
        draw(maybe(INTERVALS, "MAX AHEAD ")),
        " FROM 'csv:x'",
        draw(OPTIONS),
    ]
    head = f"CREATE STREAM {draw(NAMES)} ({', '.join(columns)}) TIMESTAMP BY {draw(NAMES)}"
    return head + "".join(draw(st.permutations(clauses)))


@st.composite
def relations(draw):
    columns = draw(st.lists(st.tuples(NAMES, TYPES).map(" ".join), min_size=1, max_size=4))
    clauses = [
        draw(maybe(NAMES, "KEY (").map(lambda text: text and f"{text}, a)")),
        draw(maybe(st.just("NON RETROACTIVE"))),
        draw(maybe(NAMES, "TIMESTAMP BY ")),
        draw(maybe(NAMES, "OP BY ")),
        " FROM 'csv:x'",
        draw(OPTIONS),
    ]
    return f"CREATE RELATION {draw(NAMES)} ({', '.join(columns)})" + "".join(draw(st.permutations(clauses)))


VALUES = st.one_of(LITERALS.filter(lambda x: x != "NULL" and "TIMESTAMP" not in x), st.just("-7"))
OPTIONS = maybe(
    st.lists(st.tuples(NAMES, VALUES).map(" = ".join), min_size=1, max_size=3).map(", ".join), "WITH ("
).map(lambda text: text and f"{text})")
ENDS = st.tuples(OPTIONS, maybe(st.just("ALLOW UNBOUNDED STATE"))).map("".join)
KINDS = st.sampled_from(["STREAM", "RELATION", "query", "ARCHIVE", "INDEX"])
INDEX_KINDS = ["ring", "uh-index(5)", "g(50)", "Ring dB", "H over HASH", "auto"]
STATEMENTS = st.one_of(
    QUERIES,
    st.tuples(
        maybe(st.just("ANALYZE")), maybe(st.sampled_from(["json", "SVG", "TEXT"]), "FORMAT "), QUERIES, ENDS
    ).map(lambda t: f"EXPLAIN{t[0]}{t[1]} {t[2]}{t[3]}"),
    st.tuples(NAMES, maybe(st.just("'jsonl:o'"), "INTO "), QUERIES, ENDS).map(
        lambda t: f"CREATE QUERY {t[0]}{t[1]} AS {t[2]}{t[3]}"
    ),
    st.tuples(NAMES, st.sampled_from(["REBUILD", "d-ins", "NOREBUILD 4x4"]), INTERVALS, QUERIES, OPTIONS).map(
        lambda t: f"CREATE ARCHIVE {t[0]} KEY (a, b) USING {t[1]} EVERY {t[2]} INTO 'd' AS {t[3]}{t[4]}"
    ),
    st.tuples(
        NAMES,
        NAMES,
        NAMES,
        st.sampled_from(INDEX_KINDS),
        OPTIONS,
    ).map(lambda t: f"CREATE INDEX {t[0]} ON {t[1]} ({t[2]}) USING {t[3]}{t[4]}"),
    st.tuples(KINDS, NAMES).map(lambda t: f"DROP {t[0]} {t[1]}"),
    st.sampled_from(["STREAMS", "RELATIONS", "queries", "ARCHIVES", "INDEXES"]).map(lambda k: f"SHOW {k}"),
    NAMES.map(lambda name: f"EXPLAIN {name}"),
    streams(),
    relations(),
)


@given(STATEMENTS)
@settings(derandomize=True, deadline=None, max_examples=150)
def test_a_printed_statement_reads_back_as_the_same_tree(text):
    (statement,) = parse(f"{text};")
    printed = unparse(statement.node)
    (again,) = parse(f"{printed};")
    assert again.node == statement.node
    assert unparse(again.node) == printed
