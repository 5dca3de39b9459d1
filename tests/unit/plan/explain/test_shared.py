"""EXPLAIN tells which sub-plans are computed once, within a query and for several."""

from __future__ import annotations

from sash.lang import bind_program
from sash.plan.explain.shared import sharing
from sash.plan.explain.text import explanations
from sash.plan.explain.tree import Step

STREAMS = """
CREATE STREAM s (t BIGINT, a INT, b INT) TIMESTAMP BY t FROM 'csv:s';
CREATE STREAM u (t BIGINT, a INT, c INT) TIMESTAMP BY t FROM 'csv:u';
"""


def told(*statements: str) -> list[list[str]]:
    """For each query or EXPLAIN, the operators that say something of sharing, and what."""
    return [
        [f"{step.operator}: {sharing(step)}" for step in explained.tree.walk() if sharing(step)]
        for explained in explanations(bind_program(STREAMS + "".join(f"{text};" for text in statements)))
    ]


def test_a_window_that_a_query_uses_twice_is_computed_once():
    found = told("CREATE QUERY q AS SELECT x.a FROM s [RANGE 1 MIN] x, s [RANGE 1 MIN] y WHERE x.a = y.a")
    assert found == [["Window: computed once for 2 uses"] * 2]


def test_equal_queries_share_all_but_their_outputs():
    query = "SELECT DISTINCT a FROM s [RANGE 1 MIN] WHERE b > 1"
    assert told(f"CREATE QUERY q1 AS {query}", f"CREATE QUERY q2 AS Istream({query})") == [
        ["Distinct: shared with q2"],
        ["Distinct: shared with q1"],
    ]


def test_a_part_with_more_sharers_than_the_whole_is_told_apart():
    assert told(
        "CREATE QUERY q1 AS SELECT DISTINCT a FROM s [RANGE 1 MIN]",
        "CREATE QUERY q2 AS SELECT DISTINCT a FROM s [RANGE 1 MIN]",
        "CREATE QUERY q3 AS SELECT l.a FROM s [RANGE 1 MIN] l, s [NOW] r WHERE l.a = r.a",
    ) == [
        ["Distinct: shared with q2", "Window: shared with q2, q3"],
        ["Distinct: shared with q1", "Window: shared with q1, q3"],
        ["Window: shared with q1, q2"],
    ]


def test_reading_a_stream_is_not_worth_telling():
    found = told("CREATE QUERY q1 AS SELECT a FROM s [NOW]", "CREATE QUERY q2 AS SELECT a FROM s [ROWS 1]")
    assert found == [[], []]


def test_a_forced_strategy_is_not_shared_with_another():
    query = "SELECT DISTINCT a FROM s [RANGE 1 MIN]"
    assert told(f"CREATE QUERY q1 AS {query}", f"CREATE QUERY q2 AS {query} WITH (strategy = 'nt')") == [
        [],
        [],
    ]


def test_an_explain_shares_what_runs_but_nobody_shares_it():
    query = "SELECT DISTINCT a FROM s [RANGE 1 MIN]"
    assert told(f"CREATE QUERY q1 AS {query}", f"EXPLAIN {query}", "EXPLAIN q1") == [
        [],
        ["Distinct: shared with q1"],
        [],
    ]


def test_periodic_queries_share_synopses_and_say_so_in_their_notes():
    query = "SELECT a, COUNT(*) AS n FROM s [RANGE 1 MIN SLIDE 10 SEC] GROUP BY a"
    assert told(f"CREATE QUERY q1 AS {query}", f"CREATE QUERY q2 AS {query}") == [[], []]


def test_many_sharers_are_counted():
    step = Step("Window", "", "WKS", 1.0, shared_with=tuple(f"q{i}" for i in range(9)))
    assert sharing(step) == "shared with q0, q1, q2, q3 and 5 more"
