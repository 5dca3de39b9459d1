"""Queries give the same answers whichever synopsis stands under them, also if it is changed meanwhile."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.synopses.synopsis_kit import Fed, Row
from tests.unit.synopses.test_basic_interval import row, short_lived

from sash.plan.synopsis_choice import Method, workload_of
from sash.synopses import basic_interval
from sash.synopses.b_int import BInt
from sash.synopses.build import build_store
from sash.synopses.naive import MaterialiseNone
from sash.synopses.psoup import PSoup

SUMS = (
    "SELECT g, COUNT(*) AS c, SUM(n) AS s, AVG(x) AS a FROM s [RANGE 12 US SLIDE 4 US] GROUP BY g",
    "Rstream(SELECT g, SUM(x) AS s FROM s [RANGE 7 US SLIDE 5 US] GROUP BY g HAVING COUNT(*) > 1)",
    "Istream(SELECT g, COUNT(n) AS s FROM s [RANGE 20 US SLIDE 4 US] GROUP BY g)",
)
EXTREMES = (
    "SELECT g, MAX(k) AS m, MIN(n) AS l, SUM(x) AS s FROM s [RANGE 12 US SLIDE 4 US] GROUP BY g",
    "Rstream(SELECT g, MAX(x) AS m FROM s [RANGE 30 US SLIDE 6 US] GROUP BY g)",
)
GLOBAL = ("Rstream(SELECT COUNT(*) AS c, MAX(k) AS m FROM s [RANGE 9 US SLIDE 3 US])", SUMS[1])


def store_of(name, synopsis, windows):
    """With exactly the room that the workload needs."""
    spec = synopsis.spec
    workload = workload_of(spec.panes, spec.measures, windows)
    match name:
        case "PSoup":
            return PSoup(spec.measures, workload.span)
        case "none":
            return MaterialiseNone(spec.measures, workload.span)
        case _:
            return build_store(Method(name), workload)


def plain(given: Row) -> Row:
    """With a double whose sums need no rounding: the oracle rounds at each step."""
    return (*given[:4], None if given[4] is None else round(given[4]) * 0.25)


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.sampled_from([SUMS, EXTREMES, GLOBAL]))
def test_answers_do_not_depend_on_the_synopsis_nor_on_its_changes(seed, selects):
    rng = np.random.default_rng(seed)
    fed = Fed(*selects)
    names = ["B-INT", "L-INT", "PSoup", "none", "basic intervals"] + ["R-INT"] * (2 if selects is SUMS else 0)
    time = int(rng.integers(-20, 20))
    for _ in range(6):
        if rng.random() < 0.7:
            for group in fed.executor.groups.values():
                windows = [refresher.window for refresher in group.refreshers]
                group.kept.answer_from(store_of(rng.choice(names), group.synopsis, windows))
        rows: list[Row] = []
        for _ in range(int(rng.integers(0, 9))):
            time += int(rng.choice([0, 1, 2, 9]))
            rows.append(plain(row(time, rng, 4)))
        fed.feed(rows)
    fed.feed([plain(row(time + 1, rng, 4))], end=True)
    fed.check()


@pytest.mark.parametrize("name", ["R-INT", "B-INT"])
def test_groups_and_words_that_are_gone_leave_the_synopsis_too(name, monkeypatch):
    monkeypatch.setattr(basic_interval, "_LEAST_TO_COMPACT", 16)
    select = "COUNT(*) AS c, SUM(n) AS s" if name == "R-INT" else "MAX(k) AS c, SUM(n) AS s"
    fed = Fed(f"SELECT g, {select} FROM s [RANGE 20 US SLIDE 5 US] GROUP BY g")
    windows = [query.window for query in fed.plan.queries]
    fed.synopsis().answer_from(store_of(name, fed.synopsis(), windows))
    for batch in short_lived(25, 8):
        fed.feed(batch)
    fed.feed([], end=True)
    assert fed.synopsis().groups.size < 25 * 8 / 2, "groups were dropped"
    fed.check()


def test_a_window_can_be_looked_up_in_the_log_itself():
    fed = Fed(SUMS[0])
    fed.feed([(t, None, t % 2, t, None) for t in range(1, 30)])
    synopsis = fed.synopsis()
    panes = synopsis.spec.panes
    left, right = panes.number_at(20), panes.number_at(28)
    other = BInt(synopsis.spec.measures, 20)
    other.update(synopsis._logged(), right)
    got, expected = synopsis.lookup(left, right), other.lookup(left, right)
    np.testing.assert_array_equal(got.ints, expected.ints)
