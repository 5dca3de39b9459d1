"""Which queries over joins read one synopsis, with which parameters, and which need operators."""

from __future__ import annotations

import pytest

from sash.lang import bind_program
from sash.plan.join_synopses import JoinAggregate, join_aggregate_of
from sash.plan.kinds import Kind
from sash.plan.run_plan import plan_run

STREAMS = "".join(
    f"CREATE STREAM {name} (t BIGINT, k STRING, n BIGINT, x DOUBLE) TIMESTAMP BY t FROM 'csv:{name}.csv';\n"
    for name in ("a", "b")
)
PLAIN = "[RANGE 8 SEC SLIDE 2 SEC]"


def query(shown, first=PLAIN, second=PLAIN, where="a.k = b.k", end=""):
    return f"SELECT {shown} FROM a {first}, b {second} WHERE {where}{end}"


def joins(*selects):
    queries = (f"CREATE QUERY q{i} AS {select};\n" for i, select in enumerate(selects))
    return plan_run(bind_program(STREAMS + "".join(queries))).joins


def window(length, slide=2):
    return f"[RANGE {length} SEC SLIDE {slide} SEC]"


def test_queries_over_one_join_share_it_whatever_they_ask():
    found = joins(
        query("a.k, COUNT(*) AS c", end=" GROUP BY a.k"),
        query("a.k, SUM(b.n) AS s", window(12, 4), window(16, 4), end=" GROUP BY a.k"),
        query("MAX(b.x) AS m"),
        query("COUNT(*) AS c", where="a.k = b.k AND a.n > 1"),
    )
    assert [join.queries for join in found] == [("q1", "q0"), ("q2",), ("q3",)]
    assert found[0].join is found[1].join
    assert found[0].join.windows == (12_000_000, 16_000_000)
    spec = found[0].spec
    assert (spec.panes.period, spec.b, spec.g, spec.kind) == (2_000_000, 8, 2, Kind.RJ)
    assert found[1].spec.kind is Kind.IJ


def test_unequal_windows_of_one_shape_need_no_classes():
    """Both windows of the second query are one pane shorter than those of the first."""
    (join,) = joins(
        query("COUNT(*) AS c", window(4), window(20)), query("COUNT(*) AS c", window(2), window(18))
    )
    assert (join.spec.b, join.spec.g, join.spec.shifts) == (10, 0, (16_000_000, 0))
    assert [reader.lengths for reader in join.spec.readers] == [(10, 10), (9, 9)]


def test_many_queries_at_once_read_basic_intervals():
    (join,) = joins(*(query("MAX(b.x) AS m", window(n), window(n)) for n in range(2, 18, 2)))
    assert join.spec.kind is Kind.BIJ
    assert join.reason == "8 queries at once, b / log b = 2.67"


def test_equal_queries_are_one_reader_and_a_condition_on_keys_is_one_of_the_join():
    grouped = query("a.k, COUNT(*) AS c", end=" GROUP BY a.k")
    (one, other) = joins(grouped, grouped, f"{grouped} HAVING a.k <> 'x' AND COUNT(*) > 1")
    assert [reader.queries for reader in one.spec.readers] == [("q0", "q1")]
    assert other.queries == ("q2",)


def test_a_condition_on_keys_of_both_inputs_is_one_of_the_join():
    grouped = query("a.n, b.n AS m, COUNT(*) AS c", end=" GROUP BY a.n, b.n")
    one, other = joins(grouped, f"{grouped} HAVING a.n < b.n")
    assert one.join.source.residual is None
    assert other.join.source.residual is not None
    assert other.join.source.residual.sql == '"a.n" < "b.n"'


def test_windows_that_would_be_too_many_panes_have_a_synopsis_of_their_own():
    found = joins(query("COUNT(*) AS c", window(4000, 1000), window(4000, 1000)), query("COUNT(*) AS c"))
    assert len(found) == 1
    apart = joins(
        query("COUNT(*) AS c", window(40_000, 1000), window(40_000, 1000)),
        query("COUNT(*) AS c", window(3, 1), window(8, 1)),
    )
    assert [join.spec.b for join in apart] == [40, 8]


@pytest.mark.parametrize(
    ("select", "reason"),
    [
        (query("MEDIAN(b.n) AS m"), "QUANTILE needs the values"),
        (query("COUNT(DISTINCT b.n) AS m"), "COUNT needs the values"),
        (query("COUNT(*) AS c", "[ROWS 5 SLIDE 2]", "[ROWS 5 SLIDE 2]"), "not one of RANGE"),
        (query("COUNT(*) AS c", "[RANGE 8 SEC OFFSET 2 SEC SLIDE 2 SEC]"), "OFFSET"),
        (query("COUNT(*) AS c", window(8001, 1), window(8001, 1)), "8,001 panes"),
        (query("COUNT(*) AS c") + " WITH (join = 'eager')", "WITH (join)"),
        (
            f"SELECT COUNT(*) AS c FROM a {PLAIN} x, b {PLAIN} y, b {PLAIN} z WHERE x.k = y.k AND y.k = z.k",
            "two windows only",
        ),
    ],
)
def test_what_operators_answer_instead(select, reason):
    (definition,) = bind_program(f"{STREAMS}CREATE QUERY q AS {select};").queries
    told = join_aggregate_of(definition)
    assert isinstance(told, str)
    assert reason in told
    assert not joins(select)


def test_what_is_no_periodic_aggregate_of_a_join_is_not_spoken_of():
    for select in (
        query("a.k"),
        query("COUNT(*) AS c", "[RANGE 8 SEC]", "[RANGE 8 SEC]"),
        f"SELECT COUNT(*) AS c FROM a {PLAIN}",
    ):
        (definition,) = bind_program(f"{STREAMS}CREATE QUERY q AS {select};").queries
        assert join_aggregate_of(definition) is None
    (definition,) = bind_program(f"{STREAMS}CREATE QUERY q AS {query('COUNT(*) AS c')};").queries
    assert isinstance(join_aggregate_of(definition), JoinAggregate)
