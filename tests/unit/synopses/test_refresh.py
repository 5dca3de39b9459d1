"""Answers at boundaries: which instants are answered, what an empty window says, what cancels."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.synopses.synopsis_kit import Fed, Row, feed_all

from sash.engine.periodic.groups import answer_together
from sash.errors import DataError
from sash.synopses import refresh

VIEW = "SELECT COUNT(*) AS c, SUM(n) AS total FROM s [RANGE %d US SLIDE %d US]"


def rows_at(*times: int, n: int = 1) -> list[Row]:
    return [(t, "w", t % 3, n, 0.5) for t in times]


def answers(fed: Fed, query: str = "q0") -> list[tuple[object, ...]]:
    return [tuple(row.values()) for table in fed.tables[query] for row in table.to_pylist()]


# ------------------------------------------------------------------------ when


def test_there_is_no_answer_before_the_first_tuple_and_one_at_the_first_boundary_after_it():
    #  SLIDE 5       0    5    10
    #  rows                 x
    #  answered                 ^      nothing at 0 and 5, though COUNT is 0 there
    fed = Fed(f"Rstream({VIEW % (5, 5)})", VIEW % (5, 5))
    feed_all(fed, [rows_at(7), rows_at(12)])
    assert answers(fed) == [(10, 1, 1)]
    assert answers(fed, "q1") == [(10, "+", 1, 1)]


def test_a_first_tuple_on_a_boundary_is_answered_at_that_boundary():
    #  SLIDE 5       0    5
    #  rows               x
    #  answered           ^
    fed = Fed(f"Rstream({VIEW % (5, 5)})")
    feed_all(fed, [rows_at(5)])
    assert answers(fed) == [(5, 1, 1)]


def test_a_first_tuple_that_where_drops_is_a_first_tuple_all_the_same():
    #  SLIDE 5, n > 1     0    5    10
    #  rows (n)              1    2
    #  answered                ^    ^     COUNT 0 at 5: the stream has begun
    fed = Fed("Rstream(SELECT COUNT(*) AS c FROM s [RANGE 5 US SLIDE 5 US] WHERE n > 1)")
    feed_all(fed, [rows_at(3), rows_at(8, n=2), rows_at(10, n=1)])
    assert answers(fed) == [(5, 0), (10, 1)]


def test_an_empty_window_of_an_aggregate_without_keys_has_count_0_and_sum_null():
    #  RANGE 5 SLIDE 5     0    5    10   15   20
    #  rows                  x              x
    #  window at 10             (....]
    fed = Fed(f"Rstream({VIEW % (5, 5)})", VIEW % (5, 5))
    feed_all(fed, [rows_at(3), rows_at(17), rows_at(20)])
    assert answers(fed) == [(5, 1, 1), (10, 0, None), (15, 0, None), (20, 2, 2)]
    assert answers(fed, "q1") == [
        (5, "+", 1, 1),
        (10, "-", 1, 1),
        (10, "+", 0, None),
        (20, "-", 0, None),
        (20, "+", 2, 2),
    ]


def test_an_empty_window_of_groups_and_of_a_bag_has_no_rows():
    grouped = "SELECT k, COUNT(*) AS c FROM s [RANGE 5 US SLIDE 5 US] GROUP BY k"
    bag = "SELECT k FROM s [RANGE 5 US SLIDE 5 US]"
    fed = Fed(f"Rstream({grouped})", f"Rstream({bag})", grouped)
    feed_all(fed, [rows_at(3, 4), rows_at(17), rows_at(20)])
    assert answers(fed) == [(5, "w", 2), (20, "w", 2)]
    assert answers(fed, "q1") == [(5, "w"), (5, "w"), (20, "w"), (20, "w")]
    assert answers(fed, "q2") == [(5, "+", "w", 2), (10, "-", "w", 2), (20, "+", "w", 2)]


def test_boundaries_are_multiples_of_the_slide_on_both_sides_of_zero():
    #  SLIDE 10       −20   −10    0    10
    #  rows              x           x
    fed = Fed("Rstream(SELECT COUNT(*) AS c FROM s [RANGE 10 US SLIDE 10 US])")
    feed_all(fed, [rows_at(-15), rows_at(4), rows_at(10)])
    assert answers(fed) == [(-10, 1), (0, 0), (10, 2)]


def test_the_last_boundary_that_the_end_reaches_is_answered_and_the_next_is_not():
    fed = Fed(f"Rstream({VIEW % (5, 5)})")
    feed_all(fed, [rows_at(1), rows_at(14)])
    assert [row[0] for row in answers(fed)] == [5, 10]


def test_an_instant_is_answered_only_when_nothing_more_can_come_for_it():
    fed = Fed(f"Rstream({VIEW % (5, 5)})")
    fed.feed(rows_at(5))
    assert answers(fed) == [], "another row may come at 5"
    fed.feed(rows_at(5))
    assert answers(fed) == []
    fed.feed(rows_at(6))
    assert answers(fed) == [(5, 2, 2)]


# ------------------------------------------------------------------------ what


def test_a_row_that_leaves_while_an_equal_one_enters_shows_in_neither():
    #  RANGE 2 SLIDE 2      1 2 3 4
    #  group                a   b        both have COUNT 1, and the key is not shown
    view = "SELECT COUNT(*) AS c FROM s [RANGE 2 US SLIDE 2 US] GROUP BY g"
    fed = Fed(view, f"Istream({view})", f"Dstream({view})")
    feed_all(fed, [[(1, None, 1, 1, None), (4, None, 2, 1, None)]])
    assert answers(fed) == [(2, "+", 1)]
    assert answers(fed, "q1") == [(2, 1)]
    assert answers(fed, "q2") == []


def test_an_aggregate_that_only_having_reads_changes_nothing_while_the_group_stays_in():
    select = "SELECT g FROM s [RANGE 4 US SLIDE 2 US] GROUP BY g HAVING SUM(n) > 1"
    fed = Fed(select)
    feed_all(
        fed, [[(1, None, 1, 1, None), (3, None, 1, 1, None), (5, None, 1, 5, None), (9, None, 2, 0, None)]]
    )
    assert answers(fed) == [(4, "+", 1)]
    feed_all(fed := Fed(select), [[(1, None, 1, 5, None), (8, None, 2, 0, None)]])
    assert answers(fed) == [(2, "+", 1), (6, "-", 1)]


def test_a_bag_shows_by_how_many_copies_it_changes():
    fed = Fed("SELECT k FROM s [RANGE 4 US SLIDE 2 US]")
    feed_all(fed, [rows_at(1, 1, 2), rows_at(3), rows_at(8)])
    assert answers(fed) == [
        (2, "+", "w"),
        (2, "+", "w"),
        (2, "+", "w"),
        (4, "+", "w"),
        (6, "-", "w"),
        (6, "-", "w"),
        (6, "-", "w"),
    ]


# ------------------------------------------------------------------------ flushing


BATCHES = st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=6), min_size=1, max_size=6)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(BATCHES, st.sampled_from([1, 2, 5]))
def test_flushing_after_every_few_rows_gives_the_same_answers(monkeypatch, steps, flush_rows):
    monkeypatch.setattr(refresh, "FLUSH_ROWS", flush_rows)
    fed = Fed(
        "SELECT g, COUNT(*) AS c, MAX(k) AS m, SUM(x) AS z FROM s [RANGE 7 US SLIDE 2 US] GROUP BY g",
        "Rstream(SELECT COUNT(*) AS c FROM s [RANGE 7 US SLIDE 2 US] GROUP BY g)",
        "Istream(SELECT COUNT(*) AS c FROM s [RANGE 5 US SLIDE 3 US])",
        "Rstream(SELECT MIN(n) AS c FROM s [RANGE 5 US SLIDE 3 US])",
        "SELECT DISTINCT k FROM s [RANGE 3 US SLIDE 4 US]",
    )
    time, batches = 0, []
    for batch in steps:
        rows: list[Row] = []
        for step in batch:
            time += step
            rows.append((time, "abc"[step % 3], step % 2, step - 3, step * 0.25))
        batches.append(rows)
    feed_all(fed, batches)
    fed.check()


# ------------------------------------------------------------------------ time jumps


def test_a_jump_over_more_empty_slides_than_allowed_is_taken_for_a_wrong_timestamp(monkeypatch):
    monkeypatch.setattr(refresh, "MOST_EMPTY_ANSWERS", 10)
    fed = Fed(f"Rstream({VIEW % (1, 1)})")
    fed.feed(rows_at(1))
    with pytest.raises(DataError, match="q0 would give 11 answers in a row") as caught:
        fed.feed(rows_at(14))
    assert caught.value.id == "time-jump"
    assert "Rstream" in str(caught.value.hint)


def test_a_jump_over_as_many_empty_slides_as_allowed_is_answered(monkeypatch):
    monkeypatch.setattr(refresh, "MOST_EMPTY_ANSWERS", 10)
    fed = Fed(f"Rstream({VIEW % (1, 1)})")
    feed_all(fed, [rows_at(1), rows_at(12), rows_at(23)])
    assert [row[0] for row in answers(fed)] == list(range(1, 24))


def test_a_jump_costs_views_and_groups_nothing():
    fed = Fed(VIEW % (1, 1), "Rstream(SELECT g, COUNT(*) AS c FROM s [RANGE 1 US SLIDE 1 US] GROUP BY g)")
    feed_all(fed, [rows_at(1), rows_at(10**15)])
    assert [row[0] for row in answers(fed)] == [1, 2, 2, 10**15, 10**15]
    assert [row[0] for row in answers(fed, "q1")] == [1, 10**15]


def test_a_jump_is_refused_whatever_the_size_of_the_steps_in_which_time_goes_on(monkeypatch):
    monkeypatch.setattr(refresh, "MOST_EMPTY_ANSWERS", 10)
    for instants in ([40], [8, 16, 24, 40], list(range(2, 41))):
        fed = Fed(f"Rstream({VIEW % (1, 1)})")
        fed.feed(rows_at(1))
        (group,) = fed.executor.groups.values()
        answered = (list(answer_together([group], through)) for through in instants)
        with pytest.raises(DataError, match="answers in a row"):
            list(answered)
