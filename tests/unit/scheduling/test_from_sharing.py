"""From queries in CQL to a schedule: groups by the rules, costs by the synopses, and a run of both."""

from __future__ import annotations

from tests.unit.sharing.kit import query

from sash.scheduling import Scheduler, Semantics, standings_of
from sash.sharing import Sharing

SECOND = 1_000_000


def q(name, length, slide, aggregate="MAX(n) AS a"):
    return query(f"SELECT {aggregate} FROM s [RANGE {length} SEC SLIDE {slide} SEC]", name)


def test_the_example_of_the_thesis_in_cql():
    """Seven maxima over one stream; b / log b is 6.1 for b = 30, so one of five at a time reads intervals."""
    windows = {"q1": (10, 2), "q2": (5, 2), "q3": (6, 2), "q4": (15, 3), "q5": (12, 3), "q6": (20, 5)}
    windows["q7"] = (30, 5)
    sharing = Sharing()
    sharing.plan([q(name, *window) for name, window in windows.items()])
    assert sharing.workload.synopses["s0"].intervals == 30
    assert sharing.workload.synopses["s0"].kind.value == "interval"
    # If all were executed every second, they would read a basic interval synopsis together.
    assert [str(change) for change in sharing.settle(dict.fromkeys(windows, SECOND))]
    standings = {standing.name: standing for standing in standings_of(sharing)}
    assert {standing.group for standing in standings.values()} == {"q1"}
    assert dict(standings["q1"].work.scans) == {"s0": 9}
    scheduler = Scheduler(semantics=Semantics.ELASTIC)
    for standing in standings.values():
        scheduler.put(standing)
    tasks = {period // SECOND: set(names) for period, names in scheduler.tasks()["q1"]}
    assert tasks == {2: {"q1", "q2", "q3", "q4", "q5"}, 5: {"q6", "q7"}}


def test_groups_keep_their_names_while_queries_come_and_go():
    sharing = Sharing()
    scheduler = Scheduler()
    for name in ("a", "b"):
        sharing.add(q(name, 10, 2, "COUNT(*) AS a, SUM(n) AS b"))
    for standing in standings_of(sharing):
        scheduler.put(standing)
    sharing.add(q("c", 10, 2, "SUM(n) AS b"))
    fresh = {standing.name: standing for standing in standings_of(sharing)}
    scheduler.put(fresh.pop("c"))
    scheduler.regroup(fresh.values())
    assert [set(names) for _, names in scheduler.tasks()["a"]] == [{"a", "b", "c"}]
    sharing.drop("b")
    scheduler.drop("b")
    scheduler.regroup(standings_of(sharing))
    scheduler.validate()
    assert [set(names) for _, names in scheduler.tasks()["a"]] == [{"a", "c"}]
