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
SEEDS = [
    STREAM,
    "CREATE QUERY q INTO 'jsonl:q' AS Istream(SELECT c, SUM(a * 2) AS n, COUNT(*) "
    "FROM s [RANGE 1 MIN SLIDE 10 SEC] AS p WHERE p.a BETWEEN 1 AND 5 OR c LIKE 'x%' "
    "GROUP BY c, 1 HAVING SUM(a) > 1.5 AND n IS NOT NULL);",
    "EXPLAIN SELECT DISTINCT *, CASE a WHEN 1 THEN b ELSE -a / 3 END x, CAST(c AS INT), ROUND(b, 2), NOT d "
    "FROM s [WINDOW 1.5 MIN SLIDE INTERVAL '10' SECOND] WHERE a NOT IN (1, 2) AND COALESCE(c, NULL) = 'y';",
    "EXPLAIN SELECT a % 3 AS k, MAX(EXTRACT(HOUR FROM TIMESTAMP '2026-01-01')) "
    "FROM s [RANGE 1 h SLIDE 1 MIN] GROUP BY k, a % 3 + 1 HAVING (a % 3) * 2 > 1;",
]
_WORDS = r"""
'' '"' " `a` [ ] ( ) ; ;; -- /* */ , . .. + - * / % || | ! != <> = == < > <= >= 1 0 1e 1e5 .5 1.
99999999999999999999 :: @x $1 ? # {# {{ é 名 ² '\' NULL TRUE SELECT FROM WHERE GROUP BY HAVING AS AND OR
NOT IN IS LIKE BETWEEN CASE WHEN THEN ELSE END CAST EXISTS INTERVAL TIMESTAMP EXTRACT DISTINCT ROWS
RANGE SLIDE NOW UNION JOIN LEFT ORDER LIMIT Istream Rstream( Wstream CREATE STREAM QUERY EXPLAIN DROP
INTO WITH SLACK unit a b c d t s q nope SUM( COUNT( MEDIAN( ABS( x' n'x' 0x1F 1_000 div DIV "" "a" "A"
ts op k0 a0
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
    for statement in parse(text):
        (again,) = parse(unparse(statement.node) + ";")
        assert again.node == statement.node, text
    return True


def pieces(text):
    """The text in words and blanks, which is fine enough for mutation."""
    return [
        piece for word in text.replace("(", " ( ").replace(",", " , ").split(" ") for piece in (word, " ")
    ]


@pytest.mark.parametrize("seed", range(4))
def test_mutated_programs_raise_only_errors_of_ours(seed):
    rng = random.Random(seed)
    for _ in range(700):
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
        check(STREAM + "".join(words))


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


def test_soups_of_characters_raise_only_errors_of_ours():
    rng = random.Random(9)
    alphabet = "ab1.e+-*/%'\"()[]<>=!|,; \n\t\0\r\x85é²\ud800`{}#:\\_" + "SELECT"
    for _ in range(3000):
        check("".join(rng.choice(alphabet) for _ in range(rng.randint(0, 30))))


def test_each_prefix_of_a_program_is_a_program_or_an_error_of_ours():
    text = "".join(SEEDS)
    for end in range(len(text)):
        check(text[:end])


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
    ]
    for form in forms:
        for depth in (5, 40, 63, 64, 65, 200, 2000):
            text = "a"
            for _ in range(depth):
                text = form.format(text)
            source = "FROM s [RANGE 1 MIN SLIDE 1 SEC] GROUP BY a, b + 1"
            check(f"{STREAM}EXPLAIN SELECT {text} AS x, MAX(a) {source};")
