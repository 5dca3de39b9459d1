"""What plans promise beyond their golden text: equal meaning is equal value, bounded state, and what runs."""

from __future__ import annotations

import pickle
from dataclasses import fields

import pytest
from tests.unit.lang.plan_kit import plan

from sash.errors import BindError
from sash.lang import algebra, missing, not_yet, periodic_select
from sash.lang.growth import grows, is_append_only

PERIODIC = "[RANGE 1 MIN SLIDE 10 SEC]"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("SELECT a FROM s [RANGE 60 SEC] x WHERE x.a > 1", "select S.a from s [window 1 min] where (s.a>1)"),
        (
            "SELECT x.a FROM s [NOW] x, u [NOW] y WHERE x.a = y.a AND x.d",
            "SELECT p.a FROM s [NOW] AS p JOIN u [NOW] ON u.a = p.a WHERE d",
        ),
        ("SELECT Istream(a) FROM s [NOW]", "Istream(SELECT a FROM s [NOW])"),
        (
            "SELECT a FROM s [NOW] WHERE NOT (a IN (SELECT k FROM r)) AND d",
            "SELECT a FROM s [NOW] WHERE (d AND a NOT IN (SELECT r.k AS z FROM r))",
        ),
        (
            "SELECT x FROM (SELECT a AS x FROM s [NOW]) q WHERE q.x > 1",
            "SELECT y AS x FROM (SELECT a AS y FROM s [NOW]) WHERE y > 1",
        ),
        (
            "SELECT a FROM s [NOW] UNION ALL SELECT k FROM r",
            "(SELECT a FROM s [NOW]) UNION ALL (SELECT k AS other FROM r)",
        ),
        ("Wstream(SELECT a FROM s [NOW])[ROWS 3]", "Wstream(SELECT a FROM s [NOW INTERNAL])[ROWS 3]"),
        ("SELECT MEDIAN(a) AS m FROM s [NOW]", "SELECT QUANTILE(a, 0.50) AS m FROM s [NOW]"),
    ],
)
def test_equal_meaning_is_equal_value(first, second):
    assert plan(first) == plan(second)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a FROM s",
        "Istream(SELECT a FROM s)",
        "SELECT AVG(a), MAX(b), VAR(a) FROM s",
        "SELECT d, COUNT(*) FROM s GROUP BY d",
        "SELECT APPROX_QUANTILE(a, 0.9), APPROX_TOP(c, 3) FROM s [RANGE 1 DAY SLIDE 1 MIN]",
        "SELECT APPROX_COUNT_DISTINCT(a) FROM s ALLOW UNBOUNDED STATE",
        "SELECT a FROM s UNION ALL SELECT a FROM u",
        "SELECT a FROM s, n WHERE a = k",
        "SELECT a FROM s, r WHERE a = k",
        "SELECT DISTINCT a FROM v",
        "SELECT a, COUNT(*) FROM v GROUP BY a",
        "SELECT DISTINCT a FROM s [PARTITION BY a ROWS 1]",
        "SELECT x.a FROM s [ROWS 5] x, u [RANGE 1 DAY] y WHERE x.a = y.a",
        "Rstream(SELECT COUNT(*) FROM s)",
    ],
)
def test_bounded_state_is_taken(query):
    assert plan(query).fields


@pytest.mark.parametrize("window", ["", "[UNBOUNDED]", "[UNBOUNDED SLIDE 1 MIN]"])
@pytest.mark.parametrize(
    "call", ["APPROX_COUNT_DISTINCT(a)", "APPROX_QUANTILE(a, 0.9)", "APPROX_TOP(c, 3)", "MIN(c)", "MAX(c)"]
)
def test_what_keeps_every_value_of_a_whole_stream_is_refused(call, window):
    with pytest.raises(BindError) as refused:
        plan(f"SELECT {call} AS x FROM s {window}")
    assert refused.value.id == "unbounded-state"
    assert refused.value.place is not None


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT a FROM s", True),
        ("SELECT a FROM s [RANGE 1 MIN]", False),
        ("SELECT a FROM s [RANGE 1 MIN INTERNAL]", True),
        ("SELECT a FROM v", False),
        ("SELECT COUNT(*) FROM s", False),
        ("SELECT COUNT(*) FROM s [ROWS 5 INTERNAL]", True),
        ("SELECT a FROM s UNION ALL SELECT a FROM u", True),
        ("SELECT a FROM s, n WHERE a = k", True),
        ("SELECT a FROM s [NOW], w WHERE a = k", False),
        ("SELECT x.a FROM s [NOW INTERNAL] x, u [NOW] y WHERE x.a = y.a", False),
        ("SELECT x.a FROM s [NOW INTERNAL] x, u [NOW INTERNAL] y WHERE x.a = y.a", True),
    ],
)
def test_what_only_adds_results_is_known(query, expected):
    assert is_append_only(plan(query).input) is expected


def test_allow_unbounded_state_lets_state_grow():
    bound = plan("SELECT DISTINCT a FROM s ALLOW UNBOUNDED STATE")
    assert grows(bound.input)
    with pytest.raises(BindError):
        plan("SELECT DISTINCT a FROM s")


@pytest.mark.parametrize(
    ("query", "construct"),
    [
        ("SELECT a FROM s", "the window [UNBOUNDED]"),
        ("SELECT a FROM s [NOW]", "the window [NOW]"),
        ("SELECT a FROM s [RANGE 1 MIN]", "a window without SLIDE"),
        ("SELECT a FROM s [ROWS 5]", "a window of ROWS"),
        ("SELECT a FROM s [PARTITION BY a ROWS 5]", "a window with PARTITION BY"),
        ("SELECT a FROM s [RANGE 2 MIN OFFSET 1 MIN SLIDE 1 SEC]", "a window with OFFSET"),
        ("SELECT a FROM s [RANGE 2 MIN SLIDE 1 SEC INTERNAL]", "a window with INTERNAL"),
        ("SELECT a FROM v [RANGE 2 MIN SLIDE 1 SEC]", "a stream with LIFETIME BY"),
        (f"SELECT x.a FROM s {PERIODIC} x, u {PERIODIC} y", "a join"),
        (f"SELECT a FROM s {PERIODIC}, r WHERE a = k", "a query over the relation 'r'"),
        (f"SELECT a FROM (SELECT a FROM s {PERIODIC}) q", "a sub-query in FROM"),
        (f"SELECT a FROM s {PERIODIC} WHERE a IN (SELECT a FROM u {PERIODIC})", "EXISTS and IN"),
        (f"SELECT a FROM s {PERIODIC} UNION ALL SELECT a FROM u {PERIODIC}", "UNION"),
        (f"SELECT a FROM s {PERIODIC} EXCEPT ALL SELECT a FROM u {PERIODIC}", "EXCEPT"),
        (f"SELECT a FROM s {PERIODIC} ORDER BY a", "ORDER BY"),
        (f"SELECT a FROM s {PERIODIC} LIMIT 3", "LIMIT"),
        (f"SELECT DISTINCT COUNT(*) FROM s {PERIODIC} GROUP BY a", "SELECT DISTINCT of groups"),
        (f"Rstream-restore(SELECT a FROM s {PERIODIC})", "Rstream-restore"),
    ],
)
def test_what_no_runtime_executes_yet_is_named(query, construct):
    bound = plan(query)
    assert periodic_select(bound) is None
    error = not_yet(bound)
    assert error.message.startswith(construct)
    assert error.id == "not-yet"


def test_a_periodic_select_reads_the_bare_columns_of_the_stream():
    bound = plan(f"SELECT c AS x, SUM(a) AS n FROM s {PERIODIC} WHERE c <> '\"s.c\"' GROUP BY c HAVING n > 1")
    assert missing(bound) is None
    select = periodic_select(bound)
    assert select is not None
    assert select.where is not None
    assert (select.where.sql, select.where.inputs) == ('"c" <> \'"s.c"\'', ("c",))
    assert [(key.sql, key.column) for key in select.keys] == [('"c"', "c")]
    assert [call.argument and call.argument.column for call in select.aggregates] == ["a"]


def test_the_text_of_a_condition_keeps_its_parentheses():
    select = periodic_select(plan(f"SELECT a FROM s {PERIODIC} WHERE (a = 1 OR d) AND b > 2"))
    assert select is not None
    assert select.where is not None
    assert select.where.text == "(a = 1 OR d) AND b > 2"


def test_nodes_can_be_rebuilt_over_other_inputs():
    node = plan("SELECT x.a FROM s [NOW] x, u [NOW] y WHERE x.a = y.a AND x.c = 'q'")

    def rebuilt(found: algebra.Node) -> algebra.Node:
        return found.with_children(tuple(rebuilt(child) for child in found.children))

    assert rebuilt(node) == node
    assert len(list(node.walk())) == 8


EVERY_OPERATOR = """
SELECT x.c FROM s [NOW] x, u [NOW] y, n WHERE x.a = y.a AND n.k = x.a AND x.c NOT IN (SELECT e FROM u [NOW])
UNION SELECT c FROM s [NOW] WHERE a > 1 EXCEPT SELECT e FROM u [ROWS 3]
INTERSECT SELECT c FROM s [NOW] GROUP BY c
"""


def test_children_are_all_fields_that_hold_nodes():
    for node in plan(EVERY_OPERATOR).walk():
        held = [getattr(node, field.name) for field in fields(node)]
        nodes = [
            item
            for value in held
            for item in (value if isinstance(value, tuple) else (value,))
            if isinstance(item, algebra.Node)
        ]
        assert node.children == tuple(nodes)


def test_equal_plans_have_equal_hashes_which_stay_at_home():
    """Texts are hashed differently in every process, so a remembered hash must not travel."""
    one, other = plan(EVERY_OPERATOR), plan(EVERY_OPERATOR)
    assert hash(one) == hash(other) == hash(one)
    copied = pickle.loads(pickle.dumps(one))
    assert not hasattr(copied, "_hash")
    assert (copied, hash(copied)) == (one, hash(one))
