"""However deeply a query is nested, it has an answer, or an error that shows its place."""

from __future__ import annotations

import json

import pytest

from sash.errors import BindError, UserError
from sash.lang import bind_program, parse, unparse
from sash.operators.build import build
from sash.plan.explain.text import explain_program
from sash.plan.run_plan import plan_run
from sash.runtime.run import run_program
from sash.synopses.joined.aggregates import join_operators

STREAMS = """
CREATE STREAM s (t BIGINT, a INT, b DOUBLE, c STRING, d BOOLEAN) TIMESTAMP BY t FROM 'json:s.jsonl';
CREATE STREAM u (t BIGINT, a INT, c STRING, d BOOLEAN) TIMESTAMP BY t FROM 'json:s.jsonl';
CREATE RELATION r (a INT, n STRING) KEY (a) FROM 'json:r.jsonl';
"""
ROW = {"t": 1, "a": 1, "b": 0.5, "c": "x", "d": True}
SLIDING = "[RANGE 5 SEC SLIDE 1 SEC]"


def nested(before, inner, after):
    return lambda depth: before * depth + inner + after * depth


def shown(before, inner, after):
    made = nested(before, inner, after)
    return lambda depth: f"SELECT {made(depth)} AS x FROM s [NOW]"


def where(before, inner, after):
    made = nested(before, inner, after)
    return lambda depth: f"SELECT a FROM s [NOW] WHERE {made(depth)}"


CONSTRUCTS = {
    "NOT": where("NOT ", "d", ""),
    "NOT ()": where("NOT (", "d", ")"),
    "NOT AND": where("NOT (a < 1 AND ", "d", ")"),
    "()": where("(", "d", ")"),
    "-": shown("- ", "a", ""),
    "-()": shown("-(", "a", ")"),
    "CASE ELSE": shown("CASE WHEN d THEN 1 ELSE ", "a", " END"),
    "CASE WHEN": where("CASE WHEN ", "d", " THEN d ELSE FALSE END"),
    "CASE x": shown("CASE ", "a", " WHEN 1 THEN 2 ELSE 3 END"),
    "ABS": shown("ABS(", "a", ")"),
    "COALESCE": shown("COALESCE(a, ", "a", ")"),
    "CAST": shown("CAST(CAST(", "a", " AS STRING) AS BIGINT)"),
    "1 + ()": shown("(1 + ", "a", ")"),
    "() + 1": shown("(", "a", " + 1)"),
    "() / 2": shown("(", "b", " / 2)"),
    "IN": where("d IN (TRUE, ", "d", ")"),
    "IS TRUE": where("(", "d", " IS TRUE)"),
    "OR AND": where("(d OR (a > 1 AND ", "d", "))"),
    "BETWEEN": shown("CASE WHEN a BETWEEN 0 AND ", "a", " THEN 1 ELSE 2 END"),
    "chain of AND": lambda n: f"SELECT a FROM s [NOW] WHERE {' AND '.join(['d'] * (n + 1))}",
    "chain of OR": lambda n: f"SELECT a FROM s [NOW] WHERE {' OR '.join(['d'] * (n + 1))}",
    "chain of +": lambda n: f"SELECT a{' + 1' * n} AS x FROM s [NOW]",
    "chain of + and -": lambda n: f"SELECT a{' + 1 - 1' * n} AS x FROM s [NOW]",
    "chain of chains": lambda n: f"SELECT {'(' * n}a{(' + 1 - 1' * 20 + ')') * n} AS x FROM s [NOW]",
    "chain of /": lambda n: f"SELECT b{' / 2' * n} AS x FROM s [NOW]",
    "chain of ||": lambda n: f"SELECT c{' || c' * n} AS x FROM s [NOW]",
    "sub-query": nested("SELECT a FROM (", "SELECT a FROM s [NOW]", ") z WHERE a > 0"),
    "sub-queries of expressions": nested(
        "SELECT ABS(ABS(ABS(a))) AS a FROM (", "SELECT a FROM s [NOW]", ") z"
    ),
    "sub-queries of deep expressions": nested(
        f"SELECT {'ABS(' * 50}a{')' * 50} AS a FROM (", "SELECT a FROM s [NOW]", ") z"
    ),
    "sub-queries that count": nested("SELECT COUNT(*) AS a FROM (", "SELECT a FROM s [NOW]", ") z"),
    "windows over sub-queries": nested("SELECT a FROM (Istream(", "SELECT a FROM s [NOW]", ")) [NOW]"),
    "parentheses around queries": nested("(", "SELECT a FROM s [NOW]", ")"),
    "UNION ALL": lambda n: " UNION ALL ".join(["SELECT a FROM s [NOW]"] * (n + 1)),
    "UNION ()": nested("SELECT a FROM s [NOW] UNION (", "SELECT a FROM s [NOW]", ")"),
    "EXCEPT": lambda n: " EXCEPT ".join(["SELECT a FROM s [NOW]"] * (n + 1)),
    "EXISTS": nested("SELECT a FROM s [NOW] WHERE EXISTS (", "SELECT a FROM u [NOW]", ")"),
    "NOT IN (SELECT)": nested("SELECT a FROM s [NOW] WHERE a NOT IN (", "SELECT a FROM u [NOW]", ")"),
    "of an aggregate": lambda n: f"SELECT {nested('ABS(', 'SUM(a)', ')')(n)} AS x FROM s {SLIDING}",
    "HAVING": lambda n: f"SELECT a FROM s {SLIDING} GROUP BY a HAVING {'NOT (' * n}SUM(b) > 1{')' * n}",
    "GROUP BY": lambda n: f"SELECT COUNT(*) AS n FROM s {SLIDING} GROUP BY {'ABS(' * n}a{')' * n}",
    "of groups": lambda n: f"SELECT COUNT(*) AS n FROM s {SLIDING} WHERE {'NOT ' * n}d",
    "ORDER BY": lambda n: f"SELECT a FROM s {SLIDING} ORDER BY {'ABS(' * n}a{')' * n} LIMIT 2",
    "of a join": lambda n: f"SELECT s.a FROM s [NOW], u [NOW] WHERE {'NOT (s.a > u.a OR ' * n}s.d{')' * n}",
    "of a join's aggregate": lambda n: (
        f"SELECT COUNT(*) AS n FROM s {SLIDING}, u {SLIDING} "
        f"WHERE s.a = u.a AND {'NOT (s.a > u.a OR ' * n}s.d{')' * n}"
    ),
    "of a relation": lambda n: (
        f"SELECT s.a FROM s [NOW] LEFT JOIN r ON s.a = r.a AND {'NOT (s.a > r.a OR ' * n}s.d{')' * n}"
    ),
}
DEPTHS = (1, 12, 25, 31, 49, 55, 61, 63, 64, 100, 500)


def text_of(construct, depth):
    return f"{STREAMS}CREATE QUERY q INTO 'jsonl:q.jsonl' AS {CONSTRUCTS[construct](depth)};\n"


def refused(text):
    """Whether the text is refused, with its place; else it can be written, planned and explained."""
    try:
        program = bind_program(text)
    except UserError as error:
        refusal = error
    else:
        for statement in parse(text):
            assert parse(f"{unparse(statement.node)};")[0].node == statement.node
        build(plan_run(program), join_operators)
        explained = bind_program(text.replace("CREATE QUERY q INTO 'jsonl:q.jsonl' AS", "EXPLAIN"))
        assert explain_program(explained)
        return False
    assert refusal.place is not None
    said = f"{refusal.message} {refusal.expected}"
    assert any(words in said for words in ("nested", "too long", "set operations"))
    return True


def in_frames(count, call):
    """Call from that far down the stack, as a notebook does."""
    return call() if count == 0 else in_frames(count - 1, call)


@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_every_depth_has_a_plan_or_is_refused(construct):
    found = [(depth, in_frames(300, lambda d=depth: refused(text_of(construct, d)))) for depth in DEPTHS[:-2]]
    assert not found[0][1]
    # What is refused stays refused when it is nested more deeply.
    assert [no for _, no in found] == sorted(no for _, no in found)
    for depth in DEPTHS[-2:]:
        if found[-1][1] or depth == 500:
            assert in_frames(300, lambda d=depth: refused(text_of(construct, d))) or "chain" in construct


@pytest.mark.parametrize(
    "construct",
    ["NOT", "CASE ELSE", "CAST", "() / 2", "COALESCE", "UNION ALL", "HAVING", "GROUP BY", "of a join",
     "of a relation", "windows over sub-queries", "sub-queries of expressions"],
)  # fmt: skip
def test_the_deepest_that_is_accepted_runs(construct, tmp_path):
    (tmp_path / "s.jsonl").write_text(json.dumps(ROW) + "\n")
    (tmp_path / "r.jsonl").write_text(json.dumps({"a": 1, "n": "x"}) + "\n")
    depth = max(d for d in DEPTHS if d < 64 and not refused(text_of(construct, d)))
    assert depth > 8
    run_program(bind_program(text_of(construct, depth)), base_dir=tmp_path, runtime="inline")


def test_expressions_of_sub_queries_count_together():
    deep = "ABS(" * 50 + "a" + ")" * 50
    text = "SELECT a FROM s [NOW]"
    for _ in range(10):
        text = f"SELECT {deep} AS a FROM ({text}) z"
    with pytest.raises(BindError) as caught:
        bind_program(f"{STREAMS}CREATE QUERY q AS {text};")
    assert caught.value.message == "a query whose expressions are nested too deeply"
    assert caught.value.place is not None
