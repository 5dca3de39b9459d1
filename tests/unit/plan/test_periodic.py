"""Which queries share a synopsis, and what a shared synopsis keeps."""

from __future__ import annotations

from sash.lang import bind_program
from sash.plan.panes import Panes
from sash.plan.periodic import PeriodicPlan, plan_periodic

STREAMS = """
CREATE STREAM s (t BIGINT, k STRING, g INT, n BIGINT, x DOUBLE) TIMESTAMP BY t FROM 'csv:s.csv';
CREATE STREAM r (t BIGINT, k STRING, n BIGINT) TIMESTAMP BY t FROM 'csv:r.csv';
"""


def plan_of(*selects: str) -> PeriodicPlan:
    text = "".join(
        f"CREATE QUERY q{number} INTO 'noop:q{number}' AS {select};\n"
        for number, select in enumerate(selects)
    )
    program = bind_program(STREAMS + text)
    return plan_periodic(program.streams, program.queries)


def synopses_of(*selects: str) -> list[str]:
    return [query.synopsis for query in plan_of(*selects).queries]


def test_windows_aggregates_having_and_output_operator_do_not_hinder_sharing():
    assert (
        synopses_of(
            "SELECT k, SUM(n) AS a FROM s [RANGE 10 SEC SLIDE 5 SEC] GROUP BY k",
            "SELECT k, MAX(x) AS a FROM s [RANGE 60 SEC SLIDE 2 SEC] GROUP BY k HAVING COUNT(*) > 1",
            "Rstream(SELECT COUNT(*) AS a FROM s [RANGE 1 MIN SLIDE 1 MIN] GROUP BY k)",
            "SELECT DISTINCT k FROM s [RANGE 7 SEC SLIDE 1 SEC]",
            "SELECT k FROM s [RANGE 7 SEC SLIDE 1 SEC]",
        )
        == ["s0"] * 5
    )


def test_spelling_does_not_hinder_sharing():
    assert synopses_of(
        "SELECT UPPER(k) AS u, COUNT(*) AS a FROM s [RANGE 10 SEC SLIDE 5 SEC] WHERE n > 1 GROUP BY u",
        "SELECT COUNT(*) AS a FROM s [RANGE 10 SEC SLIDE 5 SEC] AS p WHERE (p.n>1) GROUP BY upper(p.k)",
    ) == ["s0", "s0"]


def test_another_stream_filter_or_grouping_is_another_synopsis():
    window = "[RANGE 10 SEC SLIDE 5 SEC]"
    assert synopses_of(
        f"SELECT COUNT(*) AS a FROM s {window}",
        f"SELECT COUNT(*) AS a FROM r {window}",
        f"SELECT COUNT(*) AS a FROM s {window} WHERE n > 1",
        f"SELECT COUNT(*) AS a FROM s {window} WHERE n > 2",
        f"SELECT COUNT(*) AS a FROM s {window} GROUP BY k",
        f"SELECT COUNT(*) AS a FROM s {window} GROUP BY g, k",
        f"SELECT COUNT(*) AS a FROM s {window} GROUP BY k, g",
        f"SELECT COUNT(*) AS a FROM s {window}",
    ) == ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s0"]


def test_a_shared_synopsis_keeps_the_union_of_panes_and_measures_each_once():
    plan = plan_of(
        "SELECT SUM(n) AS a, COUNT(*) AS b FROM s [RANGE 4 SEC SLIDE 2 SEC]",
        "SELECT AVG(n) AS a, MIN(x) AS b FROM s [RANGE 9 SEC SLIDE 3 SEC]",
    )
    (spec,) = plan.synopses
    first, *others = [str(measure) for measure in spec.measures]
    assert first == "rows"
    assert sorted(others) == ["min(x)", "nulls(n)", "nulls(x)", "sum(n)"]
    assert spec.panes == Panes(6_000_000, (2_000_000, 3_000_000, 4_000_000, 6_000_000))
    assert spec.longest == 9_000_000


def test_slides_without_fine_enough_common_panes_get_synopses_of_their_own():
    plan = plan_of(
        "SELECT COUNT(*) AS a FROM s [RANGE 10007 SEC SLIDE 10007 SEC]",
        "SELECT COUNT(*) AS a FROM s [RANGE 10009 SEC SLIDE 10009 SEC]",
        "SELECT SUM(n) AS a FROM s [RANGE 10007 SEC SLIDE 10007 SEC]",
    )
    assert len(plan.synopses) == 2
    names = [query.synopsis for query in plan.queries]
    assert names[0] == names[2] != names[1]


def test_only_columns_that_are_read_are_asked_of_the_source():
    plan = plan_of("SELECT g + 1 AS a, SUM(x) AS b FROM s [RANGE 10 SEC SLIDE 5 SEC] WHERE n > 1 GROUP BY a")
    (spec,) = plan.synopses
    assert set(spec.columns) == {"g", "n", "x"}


def test_queries_keep_their_order_and_find_their_synopses():
    plan = plan_of(
        "SELECT COUNT(*) AS a FROM s [RANGE 1 SEC SLIDE 1 SEC]",
        "SELECT COUNT(*) AS a FROM r [RANGE 1 SEC SLIDE 1 SEC]",
        "SELECT COUNT(*) AS a FROM s [RANGE 9 SEC SLIDE 9 SEC]",
    )
    assert [query.name for query in plan.queries] == ["q0", "q1", "q2"]
    assert [query.name for query in plan.queries_of("s0")] == ["q0", "q2"]
    assert [spec.name for spec in plan.synopses_of("r")] == ["s1"]


def covers_of(*selects: str) -> dict[str, str]:
    plan = plan_of(*selects)
    return {spec.name: "own" if spec.cover is None else str(spec.cover) for spec in plan.synopses}


WHERE = "SELECT g, {} AS a FROM s [RANGE 10 SEC SLIDE 5 SEC] WHERE {} GROUP BY g".format


def test_a_union_of_others_is_read_from_them_and_they_keep_its_measures():
    plan = plan_of(
        WHERE("SUM(n)", "k = 'a' OR k = 'b'"), WHERE("COUNT(*)", "k = 'a'"), WHERE("COUNT(*)", "k = 'b'")
    )
    union, *parts = plan.synopses
    assert str(union.cover) == "s1 + s2"
    assert all(set(union.measures) <= set(part.measures) for part in parts)
    assert plan.synopses_of("s") == tuple(parts)


def test_what_others_have_less_the_rest_is_read_from_them_if_they_have_its_measures():
    count, total = "COUNT(*)", "SUM(n)"
    # Its panes are finer than those of the others, so it is not put together from them.
    whole = "SELECT g, SUM(n) AS a FROM s [RANGE 10 SEC SLIDE 1 SEC] GROUP BY g"
    rest = "k <> 'a' OR k IS NULL"
    assert covers_of(whole, WHERE(total, "k = 'a'"), WHERE(count, rest))["s2"] == "s0 − s1"
    assert covers_of(whole, WHERE(count, "k = 'a'"), WHERE(total, rest))["s2"] == "own"


def test_a_union_is_put_together_from_its_parts_in_whatever_order_they_are_written():
    selects = [WHERE("MAX(n)", where) for where in ("k IN ('a', 'b')", "k = 'b'", "", "k = 'a'", "k IS NULL")]
    selects[2] = selects[2].replace("WHERE  ", "")
    covers = covers_of(*selects, WHERE("MAX(n)", "k NOT IN ('a', 'b')"))
    assert covers["s0"] == "s1 + s3"
    assert covers["s2"] == "s1 + s3 + s4 + s5"


def test_conditions_of_one_meaning_are_one_synopsis():
    assert synopses_of(WHERE("SUM(n)", "n < 3"), WHERE("COUNT(n)", "NOT n >= 3")) == ["s0", "s0"]


def test_what_cannot_be_put_together_is_kept():
    parts = ("k = 'a'", "k = 'b'", "k IN ('a', 'b')")
    for call in ("MEDIAN(n)", "COUNT(DISTINCT n)", "MIN(k)"):
        assert set(covers_of(*(WHERE(call, part) for part in parts)).values()) == {"own"}
    finer = WHERE("COUNT(*)", parts[2]).replace("SLIDE 5", "SLIDE 2")
    assert set(covers_of(*(WHERE("COUNT(*)", part) for part in parts[:2]), finer).values()) == {"own"}


def test_parts_of_a_union_overlap_only_where_rows_are_not_counted():
    parts = ("n < 4", "n > 2", "n IS NOT NULL")
    assert covers_of(*(WHERE("MAX(n)", part) for part in parts))["s2"] == "s0 + s1"
    assert set(covers_of(*(WHERE("COUNT(*)", part) for part in parts)).values()) == {"own"}
