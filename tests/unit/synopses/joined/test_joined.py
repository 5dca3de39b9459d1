"""Join synopses against the join computed anew: groups, classes, unequal windows, gaps, snapshots."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.errors import InternalError
from sash.lang import bind_program
from sash.plan.measures import ROWS, measures_of
from sash.plan.panes import Panes
from sash.plan.periodic import SynopsisSpec, select_of
from sash.synopses.finalize import finalize
from sash.synopses.joined import (
    BasicIntervalJoinSynopsis,
    IntervalJoinSynopsis,
    JoinRows,
    RunningJoinSynopsis,
    preaggregate_results,
)
from sash.synopses.joined.results import class_count, class_of

STREAM = (
    "CREATE STREAM s (t BIGINT, k STRING, n BIGINT, x DOUBLE, w STRING) TIMESTAMP BY t FROM 'csv:s.csv' "
    "WITH (unit = 'us');\n"
)
SUBTRACTABLE = "COUNT(*) AS a, COUNT(n) AS b, SUM(n) AS c, AVG(n) AS d"
ALL = f"{SUBTRACTABLE}, MIN(n) AS e, MAX(x) AS f, SUM(x) AS g, MIN(w) AS h, MAX(w) AS i"
KINDS = [
    (BasicIntervalJoinSynopsis, ALL),
    (IntervalJoinSynopsis, ALL),
    (RunningJoinSynopsis, SUBTRACTABLE),
    (JoinRows, ALL),
]
NAMES = ["BIJ", "IJ", "RJ", "rows"]


def select(listed, grouped=True):
    """The aggregates of a query, as the planner has them; the columns are those of join results."""
    keys = "k, " if grouped else ""
    group = " GROUP BY k" if grouped else ""
    text = f"{STREAM}CREATE QUERY q AS SELECT {keys}{listed} FROM s [RANGE 4 US SLIDE 2 US]{group};"
    return select_of(bind_program(text).queries[-1])


def spec_of(chosen, width, b):
    measures = tuple(dict.fromkeys((ROWS, *(m for call in chosen.aggregates for m in measures_of(call)))))
    return SynopsisSpec("j", "s", None, chosen.keys, Panes(width, (width,)), measures, b * width)


def results(rng, count, first_arrival, last_arrival, reach):
    """Join results: the younger tuple in (first_arrival, last_arrival], the older up to `reach` before it."""

    def some(values):
        return [values[i] for i in rng.integers(0, len(values), count)]

    young = rng.integers(first_arrival + 1, last_arrival + 1, count)
    old = young - rng.integers(0, reach, count)
    is_first_old = rng.random(count) < 0.5
    table = pa.table(
        {
            "k": pa.array(some([None, "p", "q", "r"]), pa.string()),
            "n": pa.array(some([None, 1, -4, 7, 2**50]), pa.int64()),
            "x": pa.array(some([None, 0.5, -1.25, 3.0]), pa.float64()),
            "w": pa.array(some([None, "b", "a", "zz", "é"]), pa.string()),
        }
    )
    return np.where(is_first_old, old, young), np.where(is_first_old, young, old), table


def naive(call, rows):
    """An aggregate over plain rows."""
    if call.argument is None:
        return len(rows)
    values = [row[call.argument.column] for row in rows if row[call.argument.column] is not None]
    match call.function.value:
        case "COUNT":
            return len(values)
        case _ if not values:
            return None
        case "SUM":
            return math.fsum(values) if isinstance(values[0], float) else sum(values)
        case "AVG":
            return math.fsum(values) / len(values)
        case "MIN":
            return min(values)
        case _:
            return max(values)


def expected(chosen, past, boundary, first, second, width):
    low = boundary - first * width, boundary - second * width
    groups: dict[object, list[dict[str, object]]] = {}
    for one, two, row in past:
        if low[0] < one <= boundary and low[1] < two <= boundary:
            groups.setdefault(row["k"] if chosen.keys else None, []).append(row)
    if not chosen.keys:
        groups.setdefault(None, [])
    return {key: [naive(call, rows) for call in chosen.aggregates] for key, rows in groups.items()}


def answered(synopsis, chosen, ints, floats):
    values = [finalize(c, synopsis.layout, ints, floats, synopsis.words) for c in chosen.aggregates]
    columns = [value.array.to_pylist() for value in values]
    if not chosen.keys:
        return {None: [column[0] for column in columns]}
    keys = synopsis.groups.keys_of(np.arange(synopsis.groups.size))[0].to_pylist()
    return {key: [c[i] for c in columns] for i, key in enumerate(keys) if ints[i, 0]}


def check(synopsis, chosen, past, boundary, width, rng, most=None):
    """`most`: the longest windows that it knows in full."""
    most = most or synopsis.b
    pairs = [(n, n) for n in range(1, most + 1)]
    pairs += [
        (one, two)
        for one in range(1, most + 1)
        for two in range(max(1, one - synopsis.g), min(most, one + synopsis.g) + 1)
    ]
    some = [pairs[i] for i in rng.permutation(len(pairs))[:8]]
    for (one, two), (ints, floats) in zip(some, synopsis.totals_of(some), strict=True):
        want = expected(chosen, past, boundary, one, two, width)
        assert answered(synopsis, chosen, ints, floats) == want, (one, two)


@pytest.mark.parametrize(("kind", "listed"), KINDS, ids=NAMES)
@settings(max_examples=40)
@given(seed=st.integers(0, 2**32), b=st.integers(1, 9), g=st.integers(0, 4), grouped=st.booleans())
def test_totals_are_those_of_the_join_of_both_windows(kind, listed, seed, b, g, grouped):
    """Updates come pane by pane or leave some out; a restored copy answers like the original."""
    rng = np.random.default_rng(seed)
    width = int(rng.integers(1, 4))
    chosen = select(listed, grouped)
    synopsis = kind(spec_of(chosen, width, b), min(g, b - 1))
    past: list[tuple[int, int, dict[str, object]]] = []
    now = int(rng.integers(-5, 5)) * width
    for _ in range(int(rng.integers(1, 8))):
        until = now + width * int(rng.choice([1, 1, 1, 2, b + 2]))
        first, second, table = results(rng, int(rng.integers(0, 15)), now, until, (b + 2) * width)
        for partial in preaggregate_results(first, second, table, synopsis.spec, synopsis.g):
            synopsis.absorb(partial)
        past.extend(zip(first.tolist(), second.tolist(), table.to_pylist(), strict=True))
        if rng.random() < 0.5:
            until = now + width
        synopsis.advance(until)
        check(synopsis, chosen, past, until, width, rng)
        if rng.random() < 0.3:
            copy = kind(synopsis.spec, synopsis.g)
            copy.restore(synopsis.snapshot())
            synopsis = copy
        if rng.random() < 0.1:
            synopsis = JoinRows(synopsis.spec, synopsis.g).copied_from(synopsis)
        # What arrived beyond the update waits; time goes on from the last pane that has any.
        now = max([until, *(max(one, two) for one, two, _ in past)])
        now = -(-now // width) * width


@pytest.mark.parametrize(("kind", "listed"), KINDS, ids=NAMES)
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32), b=st.integers(2, 9), longer=st.integers(-6, 6))
def test_one_that_becomes_longer_or_shorter_forgets_no_more_than_it_must(kind, listed, seed, b, longer):
    rng = np.random.default_rng(seed)
    chosen, g = select(listed), min(1, b - 1)
    synopsis = kind(spec_of(chosen, 1, b), g)
    past: list[tuple[int, int, dict[str, object]]] = []
    known = b
    for now in range(6, 14):
        first, second, table = results(rng, 8, now - 1, now, b + 8)
        for partial in preaggregate_results(first, second, table, synopsis.spec, g):
            synopsis.absorb(partial)
        past.extend(zip(first.tolist(), second.tolist(), table.to_pylist(), strict=True))
        synopsis.advance(now)
        if now == 9:
            synopsis = kind(spec_of(chosen, 1, max(g + 1, b + longer)), g).copied_from(synopsis)
            known = min(b, synopsis.b)
        check(synopsis, chosen, past, now, 1, rng, known)
        if now >= 9:
            known = min(synopsis.b, known + 1)


def test_an_interval_holds_results_by_their_older_tuple():
    #  panes (s = 1)      0     1     2     3        windows at 4
    #  first tuple        a           c
    #  second tuple             b           d
    #  results            ab (older in 0), cb (in 1), ad (in 0), cd (in 2)
    chosen = select("COUNT(*) AS a", grouped=False)
    synopsis = BasicIntervalJoinSynopsis(spec_of(chosen, 1, 4), g=3)
    first, second = np.array([1, 3, 1, 3]), np.array([2, 2, 4, 4])
    table = pa.table({"k": pa.nulls(4, pa.string())})
    for partial in preaggregate_results(first, second, table, synopsis.spec, synopsis.g):
        synopsis.absorb(partial)
    synopsis.advance(4)
    counts = {pair: int(synopsis.totals(*pair)[0][0, 0]) for pair in ((4, 4), (3, 3), (2, 2), (2, 3), (4, 1))}
    assert counts == {(4, 4): 4, (3, 3): 2, (2, 2): 1, (2, 3): 2, (4, 1): 2}
    synopsis.advance(5)
    assert int(synopsis.totals(4, 4)[0][0, 0]) == 2


def test_three_values_an_interval_do_not_answer_windows_that_differ_by_two_panes():
    """b = 8: a second tuple in the oldest pane, its partner in the seventh, or in the sixth.

    The oldest interval has one result, one without those whose first tuple is in it, and none without those
    whose second is: three equal values in both cases. A (6, 8)-join has the result in one of them, a
    (7, 8)-join in both.
    """
    chosen = select("COUNT(*) AS a", grouped=False)
    counts = []
    for pane in (2, 3):
        synopsis = BasicIntervalJoinSynopsis(spec_of(chosen, 1, 8), g=2)
        first, second = np.array([pane]), np.array([1])
        table = pa.table({"k": pa.nulls(1, pa.string())})
        for partial in preaggregate_results(first, second, table, synopsis.spec, synopsis.g):
            synopsis.absorb(partial)
        synopsis.advance(8)
        counts.append([int(synopsis.totals(first, 8)[0][0, 0]) for first in (6, 7)])
    assert counts == [[0, 1], [1, 1]]


def test_classes_are_2g_plus_1():
    first, second = np.array([5, 5, 5, 3, 0, 5]), np.array([5, 4, 2, 5, 5, 9])
    assert class_of(first, second, 0).tolist() == [0] * 6
    assert class_of(first, second, 1).tolist() == [0, 2, 2, 1, 1, 1]
    assert class_of(first, second, 3).tolist() == [0, 4, 6, 2, 3, 3]
    assert class_count(3) == 7


def test_what_cannot_be_answered_is_refused():
    chosen = select("COUNT(*) AS a")
    synopsis = BasicIntervalJoinSynopsis(spec_of(chosen, 1, 8), g=1)
    for lengths in ((9, 9), (0, 1), (5, 8)):
        with pytest.raises(InternalError):
            synopsis.totals(*lengths)
    with pytest.raises(InternalError):
        BasicIntervalJoinSynopsis(spec_of(chosen, 1, 4), g=4)
    with pytest.raises(InternalError):
        RunningJoinSynopsis(spec_of(select("MAX(n) AS a"), 1, 4))
    synopsis.advance(4)
    first = np.array([3])
    table = pa.table({"k": pa.array(["p"])})
    (partial,) = preaggregate_results(first, first, table, synopsis.spec, 1)
    with pytest.raises(InternalError):
        synopsis.absorb(partial)


@pytest.mark.parametrize(("kind", "listed"), KINDS, ids=NAMES)
def test_groups_that_are_gone_are_forgotten(kind, listed):
    chosen = select(listed)
    synopsis = kind(spec_of(chosen, 1, 2), 1)
    rng = np.random.default_rng(0)
    sizes = []
    for now in range(40):
        first, second, table = results(rng, 400, now, now + 1, 2)
        table = table.set_column(0, "k", pa.array([f"{now}-{i}" for i in range(400)]))
        for partial in preaggregate_results(first, second, table, synopsis.spec, 1):
            synopsis.absorb(partial)
        synopsis.advance(now + 1)
        ints, _ = synopsis.totals(2, 2)
        assert np.count_nonzero(ints[:, 0]) <= 800
        sizes.append(synopsis.nbytes)
    assert synopsis.groups.size < 2_500
    assert max(sizes[20:]) < 1.5 * max(sizes[:20])
