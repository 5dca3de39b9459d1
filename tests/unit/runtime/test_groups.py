"""Query groups: the way in which windows are looked up follows what is asked and what has come."""

from __future__ import annotations

import pytest
from tests.unit.synopses.synopsis_kit import Fed

from sash.plan.synopsis_choice import Method
from sash.runtime import groups


@pytest.fixture(autouse=True)
def choose_often(monkeypatch):
    monkeypatch.setattr(groups, "_ANSWERS_PER_CHOICE", 1)


def chosen(fed: Fed) -> Method:
    (group,) = fed.plane.groups.values()
    return group.choice.method


def test_dense_groups_and_many_windows_of_sums_are_looked_up_in_running_sums():
    fed = Fed(*(f"SELECT g, SUM(n) AS c FROM s [RANGE {r} US SLIDE 2 US] GROUP BY g" for r in (4, 8, 12, 20)))
    for start in range(0, 60, 6):
        fed.feed([(t, "a", g, t, 0.5) for t in range(start, start + 6) for g in range(3)])
    assert chosen(fed) is Method.R_INT
    fed.feed([(61, "a", 0, 1, 0.5)], end=True)
    fed.check()


def test_groups_that_are_seldom_there_stay_in_basic_intervals():
    fed = Fed(*(f"SELECT g, SUM(n) AS c FROM s [RANGE {r} US SLIDE 2 US] GROUP BY g" for r in (4, 8, 12, 20)))
    for start in range(0, 60, 6):
        fed.feed([(t, "a", t * 7 % 50, t, 0.5) for t in range(start, start + 6)])
    assert chosen(fed) is Method.BASIC
    fed.feed([(61, "a", 0, 1, 0.5)], end=True)
    fed.check()


def test_the_choice_follows_the_stream():
    fed = Fed(*(f"SELECT g, SUM(n) AS c FROM s [RANGE {r} US SLIDE 2 US] GROUP BY g" for r in (4, 8, 12, 20)))
    for start in range(0, 60, 6):
        fed.feed([(t, "a", t * 7 % 50, t, 0.5) for t in range(start, start + 6)])
    for start in range(60, 160, 6):
        fed.feed([(t, "a", g, t, 0.5) for t in range(start, start + 6) for g in range(50)])
    assert chosen(fed) is Method.R_INT
    for start in range(160, 220, 6):
        fed.feed([(t, "a", t * 7 % 50, t, 0.5) for t in range(start, start + 6)])
    assert chosen(fed) is Method.BASIC
    fed.feed([(230, "a", 0, 1, 0.5)], end=True)
    fed.check()
