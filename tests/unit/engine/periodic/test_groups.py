"""Query groups: the way in which windows are looked up follows what is asked and what has come."""

from __future__ import annotations

import pytest
from tests.unit.synopses.synopsis_kit import Fed

from sash.engine.periodic import groups
from sash.plan.synopsis_choice import Method


@pytest.fixture(autouse=True)
def choose_often(monkeypatch):
    monkeypatch.setattr(groups, "_ANSWERS_PER_CHOICE", 1)


def chosen(fed: Fed) -> Method:
    (group,) = fed.executor.groups.values()
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


def thresholds(windows: int, call: str = "COUNT(*)", operator: str = "{}") -> list[str]:
    return [
        operator.format(
            f"SELECT g, {call} AS c FROM s [RANGE {2 * r} US SLIDE 2 US] GROUP BY g HAVING {call} > 2"
        )
        for r in range(2, 2 + windows)
    ]


def fed_thresholds(selects: list[str]) -> Fed:
    """One busy group, and others that have a row now and then."""
    fed = Fed(*selects)
    for start in range(0, 120, 6):
        busy = [(t, "a", 0, 1, 0.5) for t in range(start, start + 6)]
        others = [(t, "a", 1 + (7 * t + 101 * i) % 500, 1, 0.5) for t, *_ in busy for i in range(5)]
        fed.feed(sorted(busy + others))
    return fed


def finds_by_index(fed: Fed) -> bool:
    (group,) = fed.executor.groups.values()
    return group.kept.filters is not None


@pytest.mark.parametrize("operator", ["{}", "Rstream({})"])
def test_groups_of_many_windows_are_found_by_an_index(operator):
    fed = fed_thresholds(thresholds(8, operator=operator))
    (group,) = fed.executor.groups.values()
    assert finds_by_index(fed)
    assert group.notes[-1].startswith("s0: groups are found by CI-COUNT(*)")
    assert group.choice.reason == "only groups that indexes find are looked up"
    fed.feed([(130, "a", 0, 1, 0.5)], end=True)
    fed.check()


def test_groups_of_one_window_are_found_by_totals():
    fed = fed_thresholds(thresholds(1))
    (group,) = fed.executor.groups.values()
    assert not finds_by_index(fed)
    assert "groups are found by totals: CI-COUNT(*) would take" in group.notes[-1]


def test_negative_sums_end_the_use_of_an_index():
    fed = fed_thresholds(thresholds(8, "SUM(n)"))
    (group,) = fed.executor.groups.values()
    assert finds_by_index(fed)
    fed.feed([(t, "a", t % 3, -1, 0.5) for t in range(121, 140)])
    assert not finds_by_index(fed)
    assert group.notes[-1] == "s0: groups are found by totals: SUM(n) has been negative"
    fed.feed([(141, "a", 0, 9, 0.5)], end=True)
    fed.check()
