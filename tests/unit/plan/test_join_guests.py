"""Which join synopsis a query that comes into a run reads, and how long synopses are for their readers."""

from __future__ import annotations

import pytest

from sash.lang import bind_program
from sash.plan.join_guests import JoinHosts, served
from sash.plan.run_plan import plan_run

SECOND = 1_000_000


def streams(retain=""):
    return "".join(
        f"CREATE STREAM {name} (t BIGINT, k STRING, n BIGINT) TIMESTAMP BY t{retain} FROM 'csv:{name}.csv';\n"
        for name in ("a", "b")
    )


def query(shown="a.k, SUM(b.n) AS x", first=8, second=8, slide=2, where="a.k = b.k", keys="a.k"):
    windows = (f"[RANGE {length} SEC SLIDE {slide} SEC]" for length in (first, second))
    group = f" GROUP BY {keys}" if keys else ""
    return f"SELECT {shown} FROM a {next(windows)}, b {next(windows)} WHERE {where}{group}"


def plan(*selects, number=0, hosts=None, retain=""):
    text = "".join(f"CREATE QUERY q{number}{i} AS {select};\n" for i, select in enumerate(selects))
    program = bind_program(streams(retain) + text)
    return plan_run(program, number, join_hosts=hosts or JoinHosts())


def coming(select, *, through=21 * SECOND, host=None, retain=""):
    joins = plan(host or query(), retain=retain).joins
    return plan(select, number=1, hosts=JoinHosts(joins, through), retain=retain)


@pytest.mark.parametrize(
    "select",
    [
        query("a.k, COUNT(*) AS c"),
        query("a.k, AVG(b.n) AS c, COUNT(b.n) AS d", 4, 4, 4),
        query("a.k AS key, SUM(b.n) AS c", 2, 2),
        query() + " HAVING COUNT(*) > 1",
        f"Rstream({query()})",
    ],
)
def test_a_query_that_a_synopsis_has_in_full_reads_it(select):
    found = coming(select)
    (guest,) = found.guests
    assert (guest.spec.name, guest.queries) == ("j0", ("q10",))
    assert (guest.reader.since, guest.reader.after) == (21 * SECOND, None)
    assert not found.joins
    assert not found.scans


@pytest.mark.parametrize(
    "select",
    [
        query(where="a.k = b.k AND a.n > 1"),
        query(where="a.n = b.n"),
        query("a.n, SUM(b.n) AS x", keys="a.n"),
        query("SUM(b.n) AS x", keys=""),
        query("a.k, MAX(b.n) AS x"),
        query("a.k, SUM(a.n) AS x"),
        query(first=7, second=7, slide=1),
        query(first=8, second=6),
        query(first=10_000, second=10_000, slide=10_000),
    ],
)
def test_what_a_synopsis_cannot_give_has_one_of_its_own(select):
    found = coming(select)
    assert not found.guests
    assert [join.name for join in found.joins] == ["1.j0"]


@pytest.mark.parametrize(
    ("host", "g", "guests", "others"),
    [
        # The second window is taken for two panes longer.
        ([(12, 8)], 0, [(12, 8), (8, 4), (20, 16)], [(8, 8), (12, 10)]),
        ([(12, 8), (12, 12)], 2, [(8, 8), (6, 10), (10, 6), (16, 12)], [(6, 12), (20, 12)]),
    ],
)
def test_windows_may_differ_by_what_classes_tell_apart(host, g, guests, others):
    joins = plan(*(query(first=first, second=second) for first, second in host)).joins
    assert joins[0].spec.g == g
    for first, second in (*guests, *others):
        found = plan(query(first=first, second=second), number=1, hosts=JoinHosts(joins, SECOND))
        assert bool(found.guests) is ((first, second) in guests), (first, second)


def test_a_longer_window_is_known_from_the_oldest_pane_that_was_kept():
    #  panes of 2 s, now is 21: pane 10 is (20, 22]. Four panes are kept: 7 to 10, all after 14.
    (guest,) = coming(query(first=20, second=20)).guests
    reader = guest.reader
    assert (reader.lengths, reader.after) == ((10, 10), 6)
    assert [reader.lengths_at(newest) for newest in (10, 11, 15, 16, 30)] == [
        *((4, 4), (5, 5), (9, 9), (10, 10), (10, 10))
    ]


def test_who_comes_later_knows_no_more_than_who_made_it_longer():
    joins = plan(query()).joins
    (first,) = plan(query(first=20, second=20), number=1, hosts=JoinHosts(joins, 21 * SECOND)).guests
    joins = served(joins, (), [first])
    (second,) = plan(query(first=16, second=16), number=2, hosts=JoinHosts(joins, 23 * SECOND)).guests
    assert second.reader.after == first.reader.after == 6
    (third,) = plan(query(first=30, second=30), number=3, hosts=JoinHosts(joins, 43 * SECOND)).guests
    assert third.reader.after == 21 - 10
    (fourth,) = plan(query(first=30, second=30), number=3, hosts=JoinHosts(joins, 25 * SECOND)).guests
    assert fourth.reader.after == 6


def test_kept_rows_give_more_than_a_synopsis_that_is_too_short():
    assert not coming(query(first=20, second=20), retain=" RETAIN 1 MIN").guests
    assert coming(query(first=4, second=4), retain=" RETAIN 1 MIN").guests


def test_before_anything_has_come_nothing_is_missing():
    (guest,) = coming(query(first=20, second=20), through=None).guests
    assert (guest.reader.since, guest.reader.after) == (None, None)


def test_a_synopsis_is_as_long_as_those_who_read_it():
    own = plan(query(), query(first=4, second=4)).joins
    (guest,) = plan(query(first=20, second=20), number=1, hosts=JoinHosts(own, SECOND)).guests

    def lengths(dropped, guests):
        return [(join.spec.b, join.join.windows[0] // SECOND) for join in served(own, dropped, guests)]

    assert lengths((), []) == [(4, 8)]
    assert lengths((), [guest]) == [(10, 20)]
    assert lengths(("q00",), [guest]) == [(10, 20)]
    assert lengths(("q00",), []) == [(2, 4)]
    assert lengths(("q00", "q01"), [guest]) == [(10, 20)]
    assert lengths(("q00", "q01"), []) == []


def test_one_join_is_as_long_as_the_longest_of_its_synopses():
    own = plan(query(), query("COUNT(*) AS c", 4, 4, keys="")).joins
    (guest,) = plan(query("COUNT(*) AS c", 12, 12, keys=""), number=1, hosts=JoinHosts(own, SECOND)).guests
    assert [(j.spec.b, j.join.stretch // SECOND) for j in served(own, (), [guest])] == [(4, 4), (6, 4)]
    assert [(j.spec.b, j.join.stretch // SECOND) for j in served(own, ("q00",), [])] == [(2, -4)]
