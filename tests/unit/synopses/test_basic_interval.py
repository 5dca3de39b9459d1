"""The basic interval synopsis: totals of moving windows against recomputation, and state that stays small."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.synopses.synopsis_kit import Fed, Row, feed_all, partials_of, plan_of

from sash.lang.bound import AggregateFunction
from sash.synopses import basic_interval
from sash.synopses.basic_interval import BasicIntervalSynopsis, WindowKey
from sash.synopses.finalize import finalize

# With a sum of doubles a group is recomputed whenever a pane leaves; without one, only when an extremum does.
EXTREMA = "MIN(n) AS e, MAX(n) AS f, MIN(x) AS j, MAX(x) AS l, MIN(k) AS m, MAX(k) AS o"
INTEGERS = f"COUNT(*) AS a, COUNT(n) AS b, SUM(n) AS c, AVG(n) AS d, {EXTREMA}"
AGGREGATES = (INTEGERS, f"{INTEGERS}, SUM(x) AS h, AVG(x) AS i")
GROUPED = "SELECT g, %s FROM s [RANGE %d US SLIDE %d US] GROUP BY g"


def naive(function: AggregateFunction, values: list[object]) -> object:
    present = [value for value in values if value is not None]
    if function is AggregateFunction.COUNT:
        return len(present)
    if not present:
        return None
    match function:
        case AggregateFunction.SUM:
            return math.fsum(present) if isinstance(present[0], float) else sum(present)  # type: ignore[arg-type]
        case AggregateFunction.AVG:
            return math.fsum(present) / len(present)  # type: ignore[arg-type]
        case AggregateFunction.MIN:
            return min(present)  # type: ignore[type-var]
        case _:
            return max(present)  # type: ignore[type-var]


def row(time: int, rng: np.random.Generator, groups: int) -> Row:
    is_null = rng.random(3) < 0.2
    return (
        time,
        None if is_null[0] else str(rng.choice(["a", "b", "é", "", "zz", "m"])),
        int(rng.integers(0, groups)),
        None if is_null[1] else int(rng.integers(-5, 6)) * int(rng.choice([1, 2**45])),
        None if is_null[2] else float(rng.normal() * 10.0 ** rng.integers(-3, 4)),
    )


@settings(max_examples=60)
@given(
    st.integers(0, 2**32),
    st.sampled_from(AGGREGATES),
    st.tuples(st.integers(1, 30), st.integers(1, 9)),
    st.tuples(st.integers(1, 30), st.integers(1, 9)),
)
def test_totals_are_those_of_the_rows_in_the_window_whatever_comes_between(seed, listed, one, other):
    """Rows are absorbed out of order within a batch; sealing, moving, trimming and compacting interleave."""
    rng = np.random.default_rng(seed)
    plan = plan_of(GROUPED % (listed, *one), GROUPED % (listed, *other))
    (spec,) = plan.synopses
    synopsis = BasicIntervalSynopsis(spec)
    calls = plan.queries[0].select.aggregates
    past: list[Row] = []
    time = int(rng.integers(-30, 30))
    done = time - 1
    for _ in range(int(rng.integers(2, 8))):
        size = int(rng.integers(0, 9))
        fresh = [row(time + int(rng.integers(0, 12)), rng, 4) for _ in range(size)]
        for partial in partials_of(fresh, [spec]):
            synopsis.absorb(partial)
        past.extend(fresh)
        through = done + int(rng.integers(0, 15))
        time = max(time, through + 1)
        synopsis.seal(through)
        for boundary in range(done + 1, through + 1):
            for query in plan.queries:
                if boundary % query.window.slide:
                    continue
                synopsis.move_to(boundary)
                totals = synopsis.window(WindowKey(query.window.range))
                totals.advance(boundary)
                start = boundary - query.window.range
                check_totals(synopsis, totals, calls, [r for r in past if start < r[0] <= boundary])
        if synopsis.windows and rng.random() < 0.5:
            synopsis.trim(min(window.left for window in synopsis.windows.values()))
            logged = synopsis.log.slots_between(synopsis.log.base, synopsis.log.end)
            waiting = (rows.slots for rows in (synopsis._sealed, *synopsis._open))
            synopsis._compact(np.unique(np.concatenate([logged, *waiting])))
        done = through


def check_totals(synopsis, totals, calls, live):
    values = [finalize(c, synopsis.layout, totals.ints, totals.floats, synopsis.words) for c in calls]
    groups = synopsis.groups.keys_of(np.arange(synopsis.groups.size))[0].to_pylist()
    counts = totals.ints[:, 0]
    assert {g for slot, g in enumerate(groups) if counts[slot]} == {r[2] for r in live}
    columns = {"k": 1, "n": 3, "x": 4}
    for slot, group in enumerate(groups):
        mine = [r for r in live if r[2] == group]
        if not mine:
            continue
        for call, got in zip(calls, values, strict=True):
            index = 0 if call.argument is None else columns[call.argument.text]
            assert got.array[slot].as_py() == naive(call.function, [r[index] for r in mine]), call


def test_the_window_holds_what_is_after_its_left_edge_up_to_its_right_edge():
    #  RANGE 4 SLIDE 2         1 2 3 4 5 6 7 8
    #  rows (n)                1 2 4 8 . . . 16
    #  window at 4            (x x x x]
    #  window at 6                (x x . .]
    #  window at 8                    (. . . x]
    fed = Fed("Rstream(SELECT SUM(n) AS total FROM s [RANGE 4 US SLIDE 2 US])")
    rows: list[Row] = [(t, None, None, n, None) for t, n in ((1, 1), (2, 2), (3, 4), (4, 8), (8, 16))]
    feed_all(fed, [rows])
    assert [(r["ts"], r["total"]) for t in fed.tables["q0"] for r in t.to_pylist()] == [
        (2, 3),
        (4, 15),
        (6, 12),
        (8, 16),
    ]


def test_a_pane_that_enters_and_leaves_at_one_step_is_in_no_answer():
    #  RANGE 1 SLIDE 5       1 2 3 4 5 6 7 8 9 10
    #  rows                  x         x
    #  window at 5                    (x]
    #  window at 10                              (.]
    fed = Fed("SELECT g, COUNT(*) AS c, MAX(n) AS m FROM s [RANGE 1 US SLIDE 5 US] GROUP BY g")
    feed_all(fed, [[(1, None, 1, 9, None), (5, None, 2, 3, None), (10, None, 3, 1, None)]])
    assert [(r["ts"], r["op"], r["g"]) for t in fed.tables["q0"] for r in t.to_pylist()] == [
        (5, "+", 2),
        (10, "-", 2),
        (10, "+", 3),
    ]


# ------------------------------------------------------------------------ bounded state


def short_lived(batches: int, groups: int) -> list[list[Row]]:
    """Every batch has groups of its own, and one that is always there."""
    made: list[list[Row]] = []
    for b in range(batches):
        batch: list[Row] = [(b * 10 + i % 10, f"w{b % 7}", b * groups + i, i, i * 0.5) for i in range(groups)]
        made.append([*batch, (b * 10 + 9, "w", -1, 1, 1.0)])
    return made


@pytest.fixture
def early_compaction(monkeypatch):
    monkeypatch.setattr(basic_interval, "_LEAST_TO_COMPACT", 16)


SHORT_LIVED = (
    "SELECT g, COUNT(*) AS c, MAX(k) AS m FROM s [RANGE 20 US SLIDE 5 US] GROUP BY g",
    "Rstream(SELECT g, SUM(x) AS c FROM s [RANGE 7 US SLIDE 10 US] GROUP BY g)",
    "Dstream(SELECT MIN(n) AS c FROM s [RANGE 35 US SLIDE 5 US] GROUP BY g HAVING COUNT(*) > 0)",
)


def test_answers_stay_right_while_short_lived_groups_are_dropped(early_compaction):
    fed = Fed(*SHORT_LIVED)
    feed_all(fed, short_lived(25, 8))
    assert fed.synopsis().groups.size < 25 * 8 / 2, "groups were dropped"
    fed.check()


def test_state_does_not_grow_with_the_length_of_the_input(early_compaction):
    def most_state(batches: int) -> tuple[int, int, int]:
        fed = Fed(*SHORT_LIVED)
        rows = groups = capacity = 0
        for batch in short_lived(batches, 40):
            fed.feed(batch)
            synopsis = fed.synopsis()
            rows = max(rows, fed.executor.live_rows)
            groups = max(groups, synopsis.groups.size)
            capacity = max(
                capacity, len(synopsis.log.panes), *(len(window.ints) for window in synopsis.windows.values())
            )
        return rows, groups, capacity

    assert most_state(200) == most_state(40)


def test_groups_are_kept_until_there_are_enough_of_them_to_be_worth_the_work():
    fed = Fed(SHORT_LIVED[0])
    feed_all(fed, short_lived(20, 40))
    assert fed.synopsis().groups.size == 20 * 40 + 1


def test_groups_that_are_dropped_while_newer_ones_wait_in_open_panes():
    """The newest groups have slots that no window has made room for yet.

    Groups 0 … 1022 die when nothing is due any more; then two new ones arrive whose pane stays open.
    """
    fed = Fed("SELECT g, COUNT(*) AS c FROM s [RANGE 10 US SLIDE 10 US] GROUP BY g")
    fed.feed([(1, None, g, 1, None) for g in range(1_023)])
    fed.feed([(40, None, 0, 1, None)])
    fed.feed([(61, None, 0, 1, None)])
    fed.feed([(62, None, 5_000, 1, None), (63, None, 5_001, 1, None)])
    fed.feed([], end=True)
    fed.check()


def test_words_do_not_outlive_the_window_they_were_seen_in():
    fed = Fed("SELECT MAX(k) AS m FROM s [RANGE 10 US SLIDE 10 US]")
    for batch in range(300):
        fed.feed([(batch * 10 + i, f"word {batch} {i}", 0, 0, 0.0) for i in range(10)])
    (words,) = fed.synopsis().words.values()
    assert len(words.values) < 1_500
