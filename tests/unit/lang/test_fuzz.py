"""Whatever the text, only Sash's own errors come out, each with a place inside the text."""

from __future__ import annotations

import random

import pytest

from sash.errors import InternalError, SashError
from sash.lang import bind_program, parse, unparse

STREAM = (
    "CREATE STREAM s (t BIGINT, a INT, b DOUBLE, c STRING, d BOOLEAN) TIMESTAMP BY t SLACK 1 SEC "
    "FROM 'csv:x' WITH (unit = 'ms');\n"
)
MORE = (
    "CREATE STREAM u (t TIMESTAMP, a INT, e STRING, l INT) TIMESTAMP BY t RETAIN 1 MIN LIFETIME BY l "
    "MAX LIFETIME 1 h FROM 'csv:u';\n"
    "CREATE RELATION r (k INT, name STRING, o STRING, t INT) KEY (k) NON RETROACTIVE TIMESTAMP BY t "
    "OP BY o FROM 'csv:r' WITH (unit = 's');\n"
    "CREATE QUERY old INTO 'jsonl:o' AS SELECT a FROM s [NOW];\n"
    "CREATE ARCHIVE kept KEY (a) USING REBUILD 4x4 EVERY 2 MIN INTO 'x' AS "
    "SELECT a, c FROM s [RANGE 1 MIN];\n"
)
SEEDS = [
    STREAM,
    MORE,
    "CREATE QUERY q INTO 'jsonl:q' AS Istream(SELECT c, SUM(a * 2) AS n, COUNT(*) "
    "FROM s [RANGE 1 MIN SLIDE 10 SEC] AS p WHERE p.a BETWEEN 1 AND 5 OR c LIKE 'x%' "
    "GROUP BY c, 1 HAVING SUM(a) > 1.5 AND n IS NOT NULL);",
    "EXPLAIN SELECT DISTINCT *, CASE a WHEN 1 THEN b ELSE -a / 3 END AS x, CAST(c AS INT), ROUND(b, 2), "
    "NOT d FROM s [WINDOW 1.5 MIN SLIDE INTERVAL '10' SECOND] WHERE a NOT IN (1, 2) "
    "AND COALESCE(c, NULL) = 'y';",
    "EXPLAIN SELECT a % 3 AS k, MAX(EXTRACT(HOUR FROM TIMESTAMP '2026-01-01')) "
    "FROM s [RANGE 1 h SLIDE 1 MIN] GROUP BY k, a % 3 + 1 HAVING (a % 3) * 2 > 1;",
    "CREATE QUERY q AS SELECT x . * , y.e , name FROM s [ROWS 5 ] x , u [RANGE 1 MIN ] y LEFT JOIN r "
    "ON y.a = k AND name = 'n' WHERE x.a = y.a AND x.b > y.a WITH (strategy = 'nt') ALLOW UNBOUNDED STATE;",
    "CREATE QUERY q AS SELECT a FROM s [PARTITION BY a , c ROWS 3 SLIDE 2 ] WHERE NOT EXISTS ( "
    "SELECT * FROM u [ROWS 2 SLIDE 2 ] WHERE u.a = s.a ) AND a NOT IN ( SELECT k FROM r WHERE name = c );",
    "EXPLAIN ANALYZE FORMAT JSON ( SELECT a FROM s [NOW ] UNION ALL SELECT a FROM u ) EXCEPT SELECT k FROM r "
    "INTERSECT ALL SELECT a FROM s [RANGE 2 MIN OFFSET 1 MIN ];",
    "EXPLAIN SELECT c , COUNT(DISTINCT a) AS n , MEDIAN(b) , QUANTILE(b, 0.5) , TOP(c, 3) FROM s "
    "[RANGE 1 MIN SLIDE 1 SEC ] GROUP BY c ORDER BY n DESC NULLS LAST , 1 LIMIT 5;",
    "EXPLAIN SELECT Wstream(x.a, y.e AS e2)[ROWS 10] FROM s [RANGE 1 MIN INTERNAL ] x JOIN u "
    "[RANGE 1 MIN ] y ON x.a = y.a CROSS JOIN r;",
    "EXPLAIN SELECT SUM(Wstream(SUM(a))[ROWS 10]) AS n FROM s [RANGE 6 SEC SLIDE 6 SEC];",
    "EXPLAIN SELECT Rstream-restore(DISTINCT q.n) FROM ( SELECT c , SUM(a) AS n FROM s "
    "[RANGE 6 SEC SLIDE 6 SEC ] GROUP BY c ) q WHERE n > 1;",
    "EXPLAIN SELECT z.a FROM ( Istream(SELECT a FROM s [RANGE 6 SEC ]) ) [ROWS 10 ] z , ( SELECT a FROM u "
    "[RANGE 6 SEC INTERNAL ] ) [RANGE 1 DAY ] AS w WHERE z.a = w.a;",
    "SELECT a , name FROM kept [RANGE 1 MIN ] , r WHERE a = k ORDER BY name; SHOW QUERIES; DROP QUERY old;",
    "CREATE INDEX i ON s (a) USING uh-index(5) OVER hash; EXPLAIN old; DROP INDEX i; SHOW INDEXES;",
    "EXPLAIN SELECT u.t + INTERVAL '5' MIN FROM u [NOW ] WHERE u.t > TIMESTAMP '2026-01-01' - INTERVAL 2 h;",
]
_WORDS = r"""
'' '"' " `a` [ ] ( ) ; ;; -- /* */ , . .. + - * / % || | ! != <> = == < > <= >= 1 0 1e 1e5 .5 1.
99999999999999999999 :: @x $1 ? # {# {{ é 名 ² '\' NULL TRUE SELECT FROM WHERE GROUP BY HAVING AS AND OR
NOT IN IS LIKE BETWEEN CASE WHEN THEN ELSE END CAST EXISTS INTERVAL TIMESTAMP EXTRACT DISTINCT ROWS
RANGE SLIDE NOW UNION JOIN LEFT ORDER LIMIT Istream Rstream( Wstream CREATE STREAM QUERY EXPLAIN DROP
INTO WITH SLACK unit a b c d t s q nope SUM( COUNT( MEDIAN( ABS( x' n'x' 0x1F 1_000 div DIV "" "a" "A"
ts op k0 a0 UNBOUNDED INTERNAL OFFSET PARTITION [NOW] [ROWS 5] [UNBOUNDED] [RANGE u r k e name old kept x.a
y.a p.* ON CROSS OUTER INNER EXCEPT INTERSECT ALL EXISTS( DESC NULLS FIRST LAST Rstream-restore( Istream(
Wstream( )[ROWS KEY NON RETROACTIVE OP USING EVERY RETAIN LIFETIME MAX ANALYZE FORMAT JSON ALLOW STATE
ARCHIVE INDEX RELATION SHOW STREAMS QUERIES 4x4 x4 QUANTILE( TOP( APPROX_TOP( SEC MIN
"""
EXTRA = _WORDS.split()


def error_of(text):
    try:
        bind_program(text)
    except SashError as error:
        return error
    return None


def check(text):
    """Bind a text that may be anything; True if it was a program."""
    error = error_of(text)
    if error is not None:
        assert not isinstance(error, InternalError), text
        assert error.place is not None, text
        assert error.place.text == text
        assert 0 <= error.place.start <= len(text), text
        assert error.place.start < error.place.end, text
        assert error.render()
        return False
    printed = ""
    for statement in parse(text):
        canonical = unparse(statement.node) + ";"
        (again,) = parse(canonical)
        assert again.node == statement.node, text
        printed += canonical
    assert bind_program(printed) == bind_program(text), text
    return True


def pieces(text):
    """The text in words and blanks, which is fine enough for mutation."""
    return [
        piece for word in text.replace("(", " ( ").replace(",", " , ").split(" ") for piece in (word, " ")
    ]


def test_the_seeds_are_programs():
    for seed in SEEDS[2:]:
        assert check(STREAM + MORE + seed), error_of(STREAM + MORE + seed).render()


@pytest.mark.parametrize("seed", range(4))
def test_mutated_programs_raise_only_errors_of_ours(seed):
    rng = random.Random(seed)
    for _ in range(500):
        words = pieces(rng.choice(SEEDS))
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(words))
            action = rng.random()
            if action < 0.3:
                del words[at]
            elif action < 0.6:
                words[at] = rng.choice(EXTRA)
            elif action < 0.8:
                words.insert(at, rng.choice(EXTRA))
            else:
                other = rng.randrange(len(words))
                words[at], words[other] = words[other], words[at]
            if not words:
                break
        check(STREAM + MORE + "".join(words))


def test_soups_of_tokens_raise_only_errors_of_ours():
    rng = random.Random(7)
    for _ in range(2000):
        words = [rng.choice(EXTRA) for _ in range(rng.randint(1, 25))]
        check(rng.choice(["", " "]).join(words) if rng.random() < 0.2 else " ".join(words))


def test_soups_in_an_expression_raise_only_errors_of_ours():
    rng = random.Random(8)
    bound = 0
    for _ in range(3000):
        words = [rng.choice(EXTRA) for _ in range(rng.randint(1, 6))]
        bound += check(f"{STREAM}EXPLAIN SELECT {' '.join(words)} FROM s [RANGE 1 MIN SLIDE 1 SEC];")
    assert bound > 20


def test_soups_after_from_raise_only_errors_of_ours():
    rng = random.Random(10)
    bound = 0
    for _ in range(800):
        words = [rng.choice(EXTRA) for _ in range(rng.randint(1, 6))]
        bound += check(f"{STREAM}{MORE}EXPLAIN SELECT 1 AS one FROM s {' '.join(words)};")
    assert bound > 20


def test_soups_of_characters_raise_only_errors_of_ours():
    rng = random.Random(9)
    alphabet = "ab1.e+-*/%'\"()[]<>=!|,; \n\t\0\r\x85é²\ud800`{}#:\\_" + "SELECT"
    for _ in range(3000):
        check("".join(rng.choice(alphabet) for _ in range(rng.randint(0, 30))))


def test_each_prefix_of_a_program_is_a_program_or_an_error_of_ours():
    before = STREAM + MORE
    for text in SEEDS:
        for end in range(0, len(text), 3):
            check(text[:end] if text in before else before + text[:end])


def test_nesting_of_any_kind_is_refused_or_bound():
    forms = [
        "({})",
        "-{}",
        "- {}",
        "ABS({})",
        "LN({})",
        "COALESCE({}, 1)",
        "CASE WHEN {} > 1 THEN 1 END",
        "1 / ({})",
    ]
    forms += [
        "CAST({} AS DOUBLE)",
        "NULLIF({}, 1)",
        "CASE {} WHEN 1 THEN 2 END",
        "1 + ({})",
        "SUM({})",
        "NOT {}",
        "a IN (SELECT {} FROM s [NOW])",
    ]
    for form in forms:
        for depth in (5, 40, 63, 64, 65, 200, 2000):
            text = "a"
            for _ in range(depth):
                text = form.format(text)
            source = "FROM s [RANGE 1 MIN SLIDE 1 SEC] GROUP BY a, b + 1"
            check(f"{STREAM}EXPLAIN SELECT {text} AS x, MAX(a) {source};")


def test_nesting_of_queries_is_refused_or_bound():
    for form in (
        "SELECT a FROM ({}) q",
        "({})",
        "SELECT a FROM s [NOW] WHERE a IN ({})",
        "({}) UNION ALL SELECT a FROM s [NOW]",
        "SELECT a FROM (Istream({})) [NOW]",
    ):
        for depth in (3, 20, 60, 70, 1000):
            text = "SELECT a FROM s [NOW]"
            for _ in range(depth):
                text = form.format(text)
            check(f"{STREAM}EXPLAIN {text};")
    check(f"{STREAM}EXPLAIN {' UNION ALL '.join(['SELECT a FROM s [NOW]'] * 200)};")
    check(f"{STREAM}EXPLAIN SELECT 1 AS x FROM {', '.join(f's [NOW] AS s{i}' for i in range(100))};")
