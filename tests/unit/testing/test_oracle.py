"""The oracle on examples that were worked out by hand from the definition."""

from __future__ import annotations

import pytest
from tests.unit.testing.oracle_kit import ask

from sash.errors import InternalError

S = [(1, "a", 10), (4, "b", 20), (12, "a", 5), (20, "a", 1)]


# ----------------------------------------------------------------- instants


def test_all_tuples_of_one_timestamp_come_at_one_instant():
    assert ask("SELECT SUM(n) AS n FROM s [RANGE 5 SEC]", s=[(1, "a", 1), (1, "b", 2), (9, "a", 4)]) == (
        "1 + 3; 6 - 3, + NULL; 9 - NULL, + 4"
    )


def test_an_aggregate_without_groups_has_one_row_from_the_first_tuple_on():
    assert ask(
        "SELECT COUNT(*) AS n FROM s [RANGE 2 SEC], u [RANGE 2 SEC]", s=[(3, "a", 1)], u=[(1, "a", 1)]
    ) == ("1 + 0")


def test_expiry_between_two_units_of_integer_time_is_seen_at_the_next():
    assert ask("SELECT n FROM s [RANGE 1500 MS]", s=[(1, "a", 7), (9, "b", 8)]) == "1 + 7; 3 - 7; 9 + 8"
    assert ask("SELECT n FROM ms [RANGE 1500 MS]", ms=[(1000, "a", 7), (9000, "b", 8)]) == (
        "1000 + 7; 2500 - 7; 9000 + 8"
    )


def test_now_lives_for_one_unit_of_integer_time_and_for_a_microsecond_otherwise():
    assert ask("SELECT n FROM s [NOW]", s=S) == "1 + 10; 2 - 10; 4 + 20; 5 - 20; 12 + 5; 13 - 5; 20 + 1"
    assert ask("SELECT n FROM at [NOW]", at=[(5, "a", 1), (9, "a", 2)]) == "5 + 1; 6 - 1; 9 + 2"


def test_streams_of_different_units_share_a_clock_of_microseconds():
    query = "SELECT s.n, ms.n AS m FROM s [NOW], ms [RANGE 2 SEC] WHERE s.k = ms.k"
    assert ask(query, s=[(1, "a", 1), (9, "a", 1)], ms=[(500, "a", 7)]) == "1000000 + 1 7; 1000001 - 1 7"


def test_rows_later_than_slack_are_not_there():
    assert ask("SELECT n FROM s [ROWS 1]", s=[(5, "a", 1), (4, "a", 2), (3, "a", 3), (6, "a", 4)]) == (
        "4 + 2; 5 - 2, + 1; 6 - 1, + 4"
    )


# ------------------------------------------------------------------ windows


def test_rows_of_one_timestamp_are_counted_in_the_order_of_arrival():
    assert ask("SELECT n FROM s [ROWS 2]", s=[(1, "a", 1), (2, "a", 2), (2, "b", 3), (2, "c", 4)]) == (
        "1 + 1; 2 - 1, + 3, + 4"
    )


def test_a_partition_of_null_is_a_partition():
    assert ask("SELECT n FROM s [PARTITION BY k ROWS 1]", s=[(1, None, 1), (2, "a", 2), (3, None, 3)]) == (
        "1 + 1; 2 + 2; 3 - 1, + 3"
    )


def test_a_slide_of_rows_is_seen_when_it_is_full():
    #  n      1  2  3  4  5
    #  last   0  2  2  4  4      the window holds the 3 rows before and with `last`
    rows = [(t, "a", t) for t in range(1, 6)]
    assert ask("SELECT n FROM s [ROWS 3 SLIDE 2]", s=rows) == "2 + 1, + 2; 4 - 1, + 3, + 4"


def test_a_lifetime_is_cut_at_the_greatest_and_null_means_that_one():
    rows = [(1, "a", 3), (1, "b", None), (1, "c", 0), (1, "d", -5), (2, "e", 99), (30, "f", 1)]
    assert ask("SELECT k FROM l", l=rows) == "1 + a, + b; 2 + e; 4 - a; 11 - b; 12 - e; 30 + f"


def test_a_row_lives_as_long_as_its_window_and_its_lifetime_allow():
    assert ask("SELECT k FROM l [RANGE 2 SEC]", l=[(1, "a", 1), (1, "b", 9), (9, "c", 1)]) == (
        "1 + a, + b; 2 - a; 3 - b; 9 + c"
    )
    # A row whose life is over still counts as one of the newest.
    assert ask("SELECT k FROM l [ROWS 1]", l=[(1, "a", 9), (2, "b", 1), (4, "c", 9)]) == (
        "1 + a; 2 - a, + b; 3 - b; 4 + c"
    )


# ---------------------------------------------------------- output operators


def test_istream_and_dstream_are_differences_of_bags():
    #  τ        1   2    3    4
    #  window   x   xx   xx   x     the third x comes as the first goes
    rows = [(1, "x", 0), (2, "x", 0), (3, "x", 0), (9, "y", 0)]
    assert ask("SELECT Istream(k) FROM s [RANGE 2 SEC]", s=rows) == "1 x; 2 x; 9 y"
    assert ask("SELECT Dstream(k) FROM s [RANGE 2 SEC]", s=rows) == "4 x; 5 x"


def test_rstream_speaks_at_every_boundary_or_at_every_change():
    assert (
        ask("SELECT Rstream(k) FROM s [RANGE 8 SEC SLIDE 4 SEC]", s=S) == "4 a, b; 8 a, b; 12 a; 16 a; 20 a"
    )
    assert ask("SELECT Rstream(k) FROM s [RANGE 4 SEC]", s=S) == "1 a; 4 a, b; 5 b; 12 a; 20 a"


def test_restore_gives_what_came_and_went_between_two_boundaries():
    #  x lives on [1, 3), y on [9, 11): x came and went before 10, and y was seen there
    rows = [(1, "x", 0), (9, "y", 0), (20, "z", 0)]
    assert ask("SELECT Istream-restore(k) FROM s [RANGE 2 SEC SLIDE 10 SEC]", s=rows) == "10 x, y; 20 z"
    assert ask("SELECT Rstream-restore(k) FROM s [RANGE 2 SEC SLIDE 10 SEC]", s=rows) == "10 x, y; 20 z"


def test_restore_counts_what_left_more_often_than_it_had_been_there():
    #  at 10 there is one x; until 20 two more come and all three go
    rows = [(9, "x", 0), (12, "x", 0), (16, "x", 0), (20, "y", 0)]
    assert ask("SELECT Istream-restore(k) FROM s [RANGE 2 SEC SLIDE 10 SEC]", s=rows) == "10 x; 20 x, x, y"


def test_restore_in_rows_has_no_meaning():
    with pytest.raises(InternalError):
        ask("SELECT Istream-restore(k) FROM s [ROWS 2 SLIDE 2]", s=S)


def test_results_over_internal_windows_are_never_taken_back():
    assert ask("SELECT n FROM s [RANGE 2 SEC INTERNAL]", s=S) == "1 + 10; 4 + 20; 12 + 5; 20 + 1"
    assert ask("SELECT COUNT(*) AS n FROM s [RANGE 2 SEC INTERNAL]", s=S[:2]) == "1 + 1; 3 + 0; 4 + 1"
    assert ask("SELECT Dstream(n) FROM s [RANGE 2 SEC INTERNAL]", s=S) == ""


def test_a_periodic_aggregate_over_internal_windows_speaks_every_time():
    rows = [(1, "a", 3), (11, "a", 3), (30, "a", 9)]
    query = "SELECT SUM(n) AS n FROM s [RANGE 10 SEC SLIDE 10 SEC INTERNAL]"
    assert ask(query, s=rows) == "10 + 3; 20 + 3; 30 + 9"
    assert ask(query.replace(" INTERNAL", ""), s=rows) == "10 + 3; 30 - 3, + 9"


def test_where_some_windows_are_internal_a_result_goes_with_the_others():
    #  s internal, lives on [1, 3)    u on [2, 7) and [4, 9): the second comes too late for s
    query = "SELECT s.n, u.n AS m FROM s [RANGE 2 SEC INTERNAL], u [RANGE 5 SEC] WHERE s.k = u.k"
    assert ask(query, s=[(1, "a", 1)], u=[(2, "a", 7), (4, "a", 8), (9, "b", 0)]) == "2 + 1 7; 7 - 1 7"
    rows = [(1, "a", 1), (2, "b", 2), (3, "a", 3)]
    query = "SELECT s.n, u.n AS m FROM s [ROWS 1 INTERNAL], u [RANGE 5 SEC] WHERE s.k = u.k"
    assert ask(query, s=rows, u=[(2, "a", 7), (3, "a", 8), (9, "b", 0)]) == "3 + 3 7, + 3 8; 7 - 3 7; 8 - 3 8"


def test_wstream_windows_the_results():
    assert ask("SELECT Wstream(k)[RANGE 3 SEC] FROM s [RANGE 9 SEC]", s=[(1, "a", 1), (5, "b", 1)]) == (
        "1 + a; 4 - a; 5 + b"
    )


def test_results_of_one_instant_enter_the_window_over_a_subquery_in_the_order_of_their_values():
    rows = [(1, "b", 2), (1, None, 3), (1, "a", 9), (1, "b", 1)]
    query = "SELECT k, n FROM (Istream(SELECT DISTINCT k, n FROM s [NOW])) [ROWS 2]"
    assert ask(query, s=rows) == "1 + b 2, + NULL 3"


def test_rows_that_a_subquery_only_selects_enter_the_window_over_it_as_they_arrived():
    rows = [(1, "b", 2), (1, None, 3), (1, "a", 9), (1, "b", 1)]
    assert ask("SELECT Wstream(k, n)[ROWS 2] FROM s [NOW]", s=rows) == "1 + a 9, + b 1"
    assert ask("SELECT k, n FROM (Istream(SELECT k, n FROM s [NOW])) [ROWS 2]", s=rows) == "1 + a 9, + b 1"
    assert (
        ask("SELECT k FROM (SELECT k, n FROM s [NOW INTERNAL]) [ROWS 3 SLIDE 3]", s=rows)
        == "1 + a, + b, + NULL"
    )


# ------------------------------------------------------------------ relations


def test_a_change_of_a_relation_changes_results_that_are_there():
    query = "SELECT s.k, name FROM s [RANGE 9 SEC], f WHERE s.k = f.k"
    feed = [
        (0, "insert", "a", "old"),
        (2, "update", "a", "new"),
        (3, "delete", "a", None),
        (4, "insert", "b", "x"),
    ]
    assert (
        ask(query, s=[(1, "a", 1), (4, "b", 1)], f=feed)
        == "1 + a old; 2 - a old, + a new; 3 - a new; 4 + b x"
    )


def test_changes_of_one_instant_take_effect_in_their_order():
    query = "SELECT name FROM s [RANGE 9 SEC], f WHERE s.k = f.k"
    feed = [
        (2, "insert", "a", "x"),
        (2, "update", "a", "y"),
        (3, "delete", "a", None),
        (3, "insert", "a", "z"),
    ]
    assert ask(query, s=[(1, "a", 1), (5, "b", 1)], f=feed) == "2 + y; 3 - y, + z"


def test_a_change_of_a_non_retroactive_relation_touches_only_later_rows():
    query = "SELECT s.n, name FROM s [RANGE 3 SEC], g WHERE s.k = g.k"
    feed = [(1, "insert", "a", "old"), (2, "update", "a", "new"), (4, "delete", "a", None)]
    rows = [(1, "a", 1), (2, "a", 2), (4, "a", 3), (9, "b", 0)]
    assert ask(query, s=rows, g=feed) == "1 + 1 old; 2 + 2 new; 4 - 1 old; 5 - 2 new"


def test_a_row_joins_a_non_retroactive_relation_as_it_was_when_the_row_arrived():
    feed = [(1, "insert", "a", "old"), (3, "update", "a", "new")]
    rows = [(1, "a", 1), (20, "b", 0)]
    for window, right in {
        "RANGE 9 SEC": "1 + old; 10 - old",
        "RANGE 9 SEC OFFSET 2 SEC": "3 + old; 10 - old",
        "RANGE 9 SEC SLIDE 5 SEC": "5 + old; 10 - old",
        "RANGE 9 SEC SLIDE 2 SEC": "2 + old; 10 - old",
    }.items():
        assert ask(f"SELECT name FROM s [{window}], g WHERE s.k = g.k", s=rows, g=feed) == right


def test_a_pair_joins_a_non_retroactive_relation_when_its_later_half_comes():
    query = "SELECT name FROM s [RANGE 9 SEC], u [RANGE 9 SEC], g WHERE s.k = u.k AND s.k = g.k"
    feed = [(1, "insert", "a", "old"), (3, "update", "a", "new")]
    assert ask(query, s=[(1, "a", 1)], u=[(3, "a", 1), (5, "b", 0)], g=feed) == "3 + new"


def test_a_row_without_a_match_stays_without_one():
    query = "SELECT s.k, name FROM s [RANGE 9 SEC] LEFT JOIN g ON s.k = g.k"
    assert ask(query, s=[(1, "a", 1), (4, "a", 1)], g=[(2, "insert", "a", "x")]) == "1 + a NULL; 4 + a x"


def test_the_first_instant_shows_what_holds_then():
    query = "SELECT k FROM r EXCEPT SELECT k FROM s [RANGE 9 SEC]"
    assert ask(query, s=[(5, "a", 1)], r=[("a", "x"), ("b", "y")]) == "5 + b"


# ------------------------------------------------------------------ operators


def test_not_in_is_true_of_nothing_once_there_is_a_null():
    query = "SELECT k FROM s [RANGE 9 SEC] WHERE n NOT IN (SELECT n FROM u [RANGE 2 SEC])"
    rows = [(1, "a", 1), (1, "b", None), (9, "c", 3)]
    #  u          {}      {2}    {}       {NULL}
    assert ask(query, s=rows, u=[(2, "x", 2), (6, "x", None)]) == (
        "1 + a, + b; 2 - b; 4 + b; 6 - a, - b; 8 + a, + b; 9 + c"
    )


def test_a_null_in_a_correlation_of_not_in_keeps_a_row_out_of_the_subquery():
    query = "SELECT n FROM s [RANGE 9 SEC] WHERE n NOT IN (SELECT n FROM u [RANGE 9 SEC] WHERE u.k = s.k)"
    assert (
        ask(query, s=[(1, "a", 1), (1, "b", 2), (1, None, 3)], u=[(1, None, 1), (1, "b", None)])
        == "1 + 1, + 3"
    )


def test_a_key_that_is_null_joins_nothing():
    assert ask("SELECT s.n FROM s [NOW], u [NOW] WHERE s.k = u.k", s=[(1, None, 1)], u=[(1, None, 1)]) == ""


def test_set_operations_count():
    rows = {
        "s": [(1, "x", 0), (1, "x", 0), (1, "x", 0), (1, "y", 0)],
        "u": [(1, "x", 0), (1, "x", 0), (1, "z", 0)],
    }
    for operation, right in {
        "UNION ALL": "1 + x, + x, + x, + x, + x, + y, + z",
        "UNION": "1 + x, + y, + z",
        "EXCEPT ALL": "1 + x, + y",
        "EXCEPT": "1 + y",
        "INTERSECT ALL": "1 + x, + x",
        "INTERSECT": "1 + x",
    }.items():
        assert ask(f"SELECT k FROM s [NOW] {operation} SELECT k FROM u [NOW]", **rows) == right


def test_ties_under_limit_are_broken_by_all_columns_with_null_last():
    query = "Rstream(SELECT k, n FROM s [RANGE 9 SEC SLIDE 1 SEC] ORDER BY k DESC LIMIT 2)"
    assert ask(query, s=[(1, "b", None), (1, "b", 7), (1, "b", 3), (1, "a", 1)]) == "1 b 3, b 7"


def test_aggregates_of_each_value_once_and_by_rank():
    rows = [(1, "a", 4), (1, "b", 4), (1, "b", 1), (1, None, None), (1, "c", 9)]
    for call, right in {
        "COUNT(DISTINCT n)": "3",
        "SUM(DISTINCT n)": "14",
        "QUANTILE(n, 0.5)": "4",
        "QUANTILE(n, 0.75)": "4",
        "QUANTILE(n, 0.76)": "9",
        "QUANTILE(k, 0.01)": "a",
        "MEDIAN(k)": "b",
        "TOP(k, 2)": '[["b", 2], ["a", 1]]',
        "TOP(n, 9)": "[[4, 2], [1, 1], [9, 1]]",
        "VAR_POP(n)": "8.25",
    }.items():
        assert ask(f"SELECT {call} AS x FROM s [NOW]", s=rows) == f"1 + {right}"


def test_a_quantile_takes_p_as_it_is_written():
    """0.7 of ten values is the seventh, though the double 0.7 times ten may be a little more or less."""
    rows = [(1, "a", n) for n in range(1, 11)]
    for tenths in range(1, 11):
        assert ask(f"SELECT QUANTILE(n, {tenths / 10}) AS x FROM s [NOW]", s=rows) == f"1 + {tenths}"


def test_holistic_aggregates_of_nothing_are_null():
    query = "SELECT MEDIAN(n) AS m, TOP(k, 1) AS k, STDDEV(n) AS s, COUNT(DISTINCT n) AS d FROM s [NOW]"
    assert ask(query, s=[(1, None, None), (9, "a", 1)]) == (
        '1 + NULL NULL NULL 0; 9 - NULL NULL NULL 0, + 1 [["a", 1]] NULL 1'
    )
