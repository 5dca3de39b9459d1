"""Grammar: what is CQL, what is refused, and where the refusal points."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from sash.errors import CqlSyntaxError
from sash.lang import Cql, nodes, parse, unparse

STREAM = "CREATE STREAM s (t BIGINT, a INT) TIMESTAMP BY t FROM 'csv:s.csv';"


def one(text):
    (statement,) = parse(text)
    return statement.node


def select(body):
    return one(f"EXPLAIN {body};").this


def refusal(text, error=CqlSyntaxError):
    with pytest.raises(error) as caught:
        parse(text)
    return caught.value


def pointed_at(error):
    return error.place.text[error.place.start : error.place.end]


def test_statements_keep_their_exact_text_and_their_place_in_the_program():
    text = f"-- first\n{STREAM}\n\n/* then ; */ EXPLAIN SELECT a FROM s [RANGE 1 MIN SLIDE 1 SEC] ;\n"
    first, second = parse(text)
    assert first.source == STREAM
    assert second.source == "EXPLAIN SELECT a FROM s [RANGE 1 MIN SLIDE 1 SEC] ;"
    assert second.place.line == 4


def test_no_text_and_lone_semicolons_are_no_statements():
    assert parse("") == parse(" \n -- nothing\n") == parse(";;") == []


def test_keywords_and_names_do_not_depend_on_case_but_quoted_names_do():
    assert one("create Stream S (T bigint) TimeStamp By T from 'csv:x';") == one(
        "CREATE STREAM s (t BIGINT) TIMESTAMP BY t FROM 'csv:x';"
    )
    assert select('SELECT "A b" FROM s [RANGE 1 MIN SLIDE 1 SEC]').expressions[0].name == "A b"


def test_clauses_of_a_stream_come_in_any_order():
    orders = [
        "SLACK 2 SEC FROM 'csv:x' WITH (header = TRUE)",
        "WITH (header = TRUE) FROM 'csv:x' SLACK 2 SEC",
        "FROM 'csv:x' WITH (header = TRUE) SLACK 2 SEC",
    ]
    trees = {one(f"CREATE STREAM s (t BIGINT) TIMESTAMP BY t {order};") for order in orders}
    assert len(trees) == 1


def test_words_of_the_language_can_be_column_names_where_no_doubt_arises():
    node = select("SELECT count, range, timestamp, window, extract, sum FROM rows [RANGE 1 MIN SLIDE 1 SEC]")
    assert [column.name for column in node.expressions] == [
        "count",
        "range",
        "timestamp",
        "window",
        "extract",
        "sum",
    ]


def test_window_is_a_synonym_of_range_and_intervals_have_many_spellings():
    spellings = [
        "RANGE 1 MIN SLIDE 10 SEC",
        "WINDOW 60 s slide INTERVAL '10' SECOND",
        "RANGE 1.0min SLIDE 1e",
    ]
    first, second = (select(f"SELECT a FROM s [{spelling}]") for spelling in spellings[:2])
    assert first == second
    assert pointed_at(refusal(f"EXPLAIN SELECT a FROM s [{spellings[2]}];")) == "]"


@pytest.mark.parametrize("alias", ["AS p", "p", 'AS "p"'])
def test_a_stream_may_have_an_alias(alias):
    source = select(f"SELECT p.a FROM s [RANGE 1 MIN SLIDE 1 SEC] {alias}").args["from_"].this
    assert source.args["alias"].name == "p"


def test_output_operators_wrap_a_select():
    for kind in ("istream", "dstream", "rstream"):
        node = select(f"{kind}(SELECT a FROM s [RANGE 1 MIN SLIDE 1 SEC])")
        assert isinstance(node, nodes.OutputClause)
        assert node.args["kind"] == kind


@pytest.mark.parametrize(
    ("text", "grouped"),
    [
        ("a + b * c", "a + (b * c)"),
        ("a - b - c", "(a - b) - c"),
        ("a / b % c DIV d", "((a / b) % c) DIV d"),
        ("-a + b", "(-a) + b"),
        ("a || b + c", "a || (b + c)"),
        ("a OR b AND c", "a OR (b AND c)"),
        ("NOT a = b AND c", "(NOT (a = b)) AND c"),
        ("NOT a IS NULL OR b", "(NOT (a IS NULL)) OR b"),
        ("a BETWEEN 1 + 1 AND 2 AND c", "(a BETWEEN (1 + 1) AND 2) AND c"),
        ("a NOT IN (1, 2) AND b NOT LIKE 'x'", "(NOT (a IN (1, 2))) AND (NOT (b LIKE 'x'))"),
        ("a + b < c - d", "(a + b) < (c - d)"),
    ],
)
def test_operators_bind_as_in_sql(text, grouped):
    def bare(expression):
        tree = select(f"SELECT {expression} FROM s [RANGE 1 MIN SLIDE 1 SEC]").expressions[0]
        for paren in list(tree.find_all(exp.Paren)):
            paren.replace(paren.this)
        return tree

    assert bare(text) == bare(grouped)


def test_every_node_of_an_expression_knows_its_text():
    text = "EXPLAIN SELECT  a+SUM( b )*2 AS x FROM s [RANGE 1 MIN SLIDE 1 SEC];"
    item = one(text).this.expressions[0].this
    assert nodes.source_of(item, text) == "a+SUM( b )*2"
    assert nodes.source_of(item.expression, text) == "SUM( b )*2"
    assert nodes.source_of(item.expression.this, text) == "SUM( b )"


def test_the_dialect_serves_sqlglot_itself():
    tree = sqlglot.parse_one("EXPLAIN SELECT a FROM s [RANGE 1 MIN SLIDE 1 SEC]", dialect=Cql)
    assert tree.sql(dialect=Cql) == "EXPLAIN SELECT a FROM s [RANGE 1 MIN SLIDE 1 SEC]"


def test_printing_gives_canonical_text():
    text = "create stream S (T int, n text) timestamp by T with (unit='ms') from 'csv:x' slack 1500 ms;"
    assert unparse(one(text)) == (
        "CREATE STREAM s (t BIGINT, n STRING) TIMESTAMP BY t SLACK 1500 MS FROM 'csv:x' WITH (unit = 'ms')"
    )


def test_a_missing_final_semicolon_points_at_the_end():
    error = refusal(STREAM + "\n" + STREAM[:-1] + "  -- the end")
    assert (error.place.line, error.place.column) == (2, len(STREAM))
    assert error.expected == "';'"


W = "[RANGE 1 MIN SLIDE 1 SEC]"


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("CREATE STREAM s (t BIGINT) TIMESTAMP BY t;", ";", "FROM"),
        ("CREATE STREAM s (t NUMBER) TIMESTAMP BY t FROM 'x';", "NUMBER", "a type: BIGINT"),
        ("CREATE STREAM s (t BIGINT) FROM 'x';", "FROM", "TIMESTAMP BY"),
        ("CREATE STREAM s () TIMESTAMP BY t FROM 'x';", ")", "a column name"),
        ("CREATE STREAM select (t BIGINT) TIMESTAMP BY t FROM 'x';", "select", "a name for the stream"),
        ("CREATE STREAM s (t BIGINT) TIMESTAMP BY t FROM 'x' FROM 'y';", "FROM", "each clause once"),
        ("CREATE STREAM s (t BIGINT) TIMESTAMP BY t FROM 'x' WITH (a = b);", "b", "a string, a number"),
        ("CREATE TABLE x;", "TABLE", "STREAM, RELATION, QUERY"),
        ("CREATE QUERY q SELECT a FROM s;", "SELECT", "INTO or AS"),
        ("INSERT INTO x;", "INSERT", "a statement"),
        (f"EXPLAIN SELECT a b FROM s {W};", "b", "',' or FROM"),
        (f"EXPLAIN SELECT a, FROM s {W};", "FROM", "an expression"),
        (f"EXPLAIN SELECT a FROM s {W} WHERE;", ";", "an expression"),
        (f"EXPLAIN SELECT a FROM s {W} WHERE a < b < c;", "<", "AND, OR"),
        (f"EXPLAIN SELECT a FROM s {W} WHERE a ==;", "=", "an expression"),
        (f"EXPLAIN SELECT a FROM s {W} GROUP a;", "a", "BY"),
        (f"EXPLAIN SELECT (a FROM s {W};", "FROM", "')'"),
        (f"EXPLAIN SELECT f(a,) FROM s {W};", ")", "an expression"),
        (f"EXPLAIN SELECT CASE END FROM s {W};", "END", "an expression"),
        (f"EXPLAIN SELECT CAST(a AS DECIMAL) FROM s {W};", "DECIMAL", "a type"),
        (f"EXPLAIN SELECT a NOT 3 FROM s {W};", "3", "IN, BETWEEN or LIKE"),
        (f"EXPLAIN SELECT a IS 3 FROM s {W};", "3", "NULL, TRUE or FALSE"),
        ("EXPLAIN SELECT a FROM s [RANGE 10 SLIDE 1 SEC];", "SLIDE", "the length of the window"),
        ("EXPLAIN SELECT a FROM s [RANGE 1 m SLIDE 1 SEC];", "m", "the length of the window"),
        ("EXPLAIN SELECT a FROM s [RANGE -1 SEC SLIDE 1 SEC];", "-", "the length of the window"),
        ("EXPLAIN SELECT a FROM s [SLIDE 1 SEC];", "SLIDE", "RANGE"),
        ("EXPLAIN SELECT a FROM s AS x [RANGE 1 MIN SLIDE 1 SEC];", "[", "the window right after"),
        (f"EXPLAIN SELECT a FROM s {W} extra words;", "words", "WITH, ALLOW"),
        (f"EXPLAIN SELECT 1e FROM s {W};", "1e", "a number"),
        (f"EXPLAIN SELECT N'x' FROM s {W};", "N'x'", "an expression"),
    ],
)
def test_what_is_not_cql_is_refused_at_its_place(text, place, expected):
    error = refusal(text)
    assert pointed_at(error) == place
    assert error.expected.startswith(expected)
    assert error.id == "syntax"


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("EXPLAIN SELECT 'abc;", 16),
        ('EXPLAIN SELECT "abc;', 16),
        ("EXPLAIN /* abc;", 9),
        ("EXPLAIN SELECT a::INT;", 17),
        ("EXPLAIN SELECT `a`;", 16),
        ("EXPLAIN SELECT {# a #};", 16),
        ("EXPLAIN SELECT 'a\0b';", 18),
        ("EXPLAIN SELECT '\ud800';", 17),
    ],
)
def test_what_cannot_be_read_is_refused_at_its_first_character(text, column):
    error = refusal(text)
    assert (error.place.line, error.place.column) == (1, column)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("SELECT a FROM s", "SELECT a FROM s"),
        ("select A from S [range unbounded]", "SELECT a FROM s [UNBOUNDED]"),
        ("SELECT a FROM s [ROWS UNBOUNDED]", "SELECT a FROM s [UNBOUNDED]"),
        (
            "SELECT a FROM s [INTERNAL]",
            None,
        ),
        (
            "SELECT a FROM s [RANGE 10s INTERNAL OFFSET 5 secs SLIDE interval '1 second'] p",
            "SELECT a FROM s [RANGE 10 SEC SLIDE 1 SEC OFFSET 5 SEC INTERNAL] AS p",
        ),
        ("SELECT a FROM s [ROWS 5 SLIDE 2 ROWS]", "SELECT a FROM s [ROWS 5 SLIDE 2]"),
        (
            "SELECT a FROM s [partition by a, b rows 3] as x",
            "SELECT a FROM s [PARTITION BY a, b ROWS 3] AS x",
        ),
        ("SELECT Rstream(*) FROM s [NOW]", "Rstream(SELECT * FROM s [NOW])"),
        (
            "SELECT ISTREAM(a, b AS c) FROM s [NOW] WHERE a > 1",
            "Istream(SELECT a, b AS c FROM s [NOW] WHERE a > 1)",
        ),
        ("SELECT Istream(a) AS x, Istream(b) FROM s", "Istream(SELECT a AS x, b FROM s)"),
        ("SELECT Rstream(DISTINCT a) FROM s [NOW]", "Rstream(SELECT DISTINCT a FROM s [NOW])"),
        ("SELECT Wstream(*)[rows 10] FROM s", "Wstream(SELECT * FROM s)[ROWS 10]"),
        (
            "SELECT Rstream-restore(a) FROM s ORDER BY a desc nulls first, 1 asc LIMIT 07",
            "Rstream-restore(SELECT a FROM s ORDER BY a DESC NULLS FIRST, 1 LIMIT 7)",
        ),
        (
            "SELECT SUM(Wstream(SUM(a))[ROWS 10]) FROM s",
            "SELECT SUM(Wstream(SUM(a))[ROWS 10]) FROM s",
        ),
        (
            "SELECT p.*, q.a FROM s p INNER JOIN u q ON p.a = q.a LEFT OUTER JOIN r ON TRUE, x CROSS JOIN y",
            "SELECT p.*, q.a FROM s AS p JOIN u AS q ON p.a = q.a LEFT JOIN r ON TRUE, x CROSS JOIN y",
        ),
        (
            "SELECT a FROM (SELECT a FROM s) [ROWS 2] q, ((SELECT a FROM u))",
            "SELECT a FROM (SELECT a FROM s) [ROWS 2] AS q, ((SELECT a FROM u))",
        ),
        (
            "SELECT a FROM s UNION DISTINCT SELECT a FROM u"
            " INTERSECT ALL (SELECT a FROM v EXCEPT SELECT 1 FROM w)",
            "SELECT a FROM s UNION SELECT a FROM u INTERSECT ALL (SELECT a FROM v EXCEPT SELECT 1 FROM w)",
        ),
        (
            "SELECT a FROM s WHERE not exists (select 1 from u) AND a not in (select b from v)",
            "SELECT a FROM s WHERE NOT EXISTS (SELECT 1 FROM u) AND NOT a IN (SELECT b FROM v)",
        ),
        (
            "SELECT COUNT(DISTINCT a), QUANTILE(a, .5) FROM s",
            "SELECT COUNT(DISTINCT a), QUANTILE(a, 0.5) FROM s",
        ),
        ("SELECT t + INTERVAL '90' SECOND FROM s", "SELECT t + INTERVAL 90 SEC FROM s"),
    ],
)
def test_queries_have_one_canonical_text(text, canonical):
    if canonical is None:
        assert refusal(f"{text};").expected.startswith("RANGE, ROWS")
    else:
        assert unparse(one(f"{text};")) == canonical


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (
            "create stream s (t int, l int) timestamp by t max lifetime 1 h lifetime by l retain 2 min"
            " from 'c:x'",
            "CREATE STREAM s (t BIGINT, l BIGINT) TIMESTAMP BY t RETAIN 2 MIN LIFETIME BY l"
            " MAX LIFETIME 1 HOUR FROM 'c:x'",
        ),
        (
            "create relation r (k int, o string) from 'c:x' op by o timestamp by k non retroactive key (k)",
            "CREATE RELATION r (k BIGINT, o STRING) KEY (k) NON RETROACTIVE TIMESTAMP BY k OP BY o"
            " FROM 'c:x'",
        ),
        (
            "create query q as select a from s allow unbounded state with (strategy = 'nt')",
            "CREATE QUERY q AS SELECT a FROM s WITH (strategy = 'nt') ALLOW UNBOUNDED STATE",
        ),
        (
            "create archive x key (a, b) using rebuild 4 x 2 every 2 min into 'd' as select a, b from s",
            "CREATE ARCHIVE x KEY (a, b) USING REBUILD 4x2 EVERY 2 MIN INTO 'd' AS SELECT a, b FROM s",
        ),
        ("create index i on s (a) using uh-index", "CREATE INDEX i ON s (a) USING UH-INDEX"),
        (
            "create index i on s (a) using g (50) with (x = 1)",
            "CREATE INDEX i ON s (a) USING G(50) WITH (x = 1)",
        ),
        ("create index i on s (a) using ring db", "CREATE INDEX i ON s (a) USING RING DB"),
        (
            "create archive x key (a) every 2 min into 'd' as select a from s",
            "CREATE ARCHIVE x KEY (a) EVERY 2 MIN INTO 'd' AS SELECT a FROM s",
        ),
        ("drop archive x", "DROP ARCHIVE x"),
        ("show indexes", "SHOW INDEXES"),
        ("show queries", "SHOW QUERIES"),
        ("explain analyze format json q", "EXPLAIN ANALYZE FORMAT JSON q"),
        ("explain format", "EXPLAIN format"),
        ("explain select a from s allow unbounded state", "EXPLAIN SELECT a FROM s ALLOW UNBOUNDED STATE"),
    ],
)
def test_statements_have_one_canonical_text(text, canonical):
    assert unparse(one(f"{text};")) == canonical


@pytest.mark.parametrize(
    "deep",
    ["(" * 5000 + "1" + ")" * 5000, "-" * 1 + " -" * 5000 + "1", "NOT " * 5000 + "a", "ABS(" * 5000],
)
def test_deep_nesting_is_an_error_and_no_crash(deep):
    error = refusal(f"EXPLAIN SELECT {deep} FROM s {W};")
    assert "nested too deeply" in error.message


def test_hundreds_of_operators_in_a_row_are_fine_and_thousands_are_an_error():
    fine = " OR ".join(["a = 1"] * 400)
    node = select(f"SELECT a FROM s {W} WHERE {fine}")
    assert one(f"EXPLAIN {unparse(node)};").this == node
    assert "too long" in refusal(f"EXPLAIN SELECT {'+'.join('1' * 3000)} FROM s {W};").message
