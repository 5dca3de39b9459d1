"""Every scheduler against its pseudo-code written down naively, and what must hold of all of them."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.errors import DuplicateName, InternalError, UnknownName
from sash.scheduling import (
    AGGRESSIVE,
    CONSERVATIVE,
    EDF,
    HYBRID,
    NO_SHARING,
    POLICIES,
    Block,
    Scheduler,
    Semantics,
    Standing,
    cost_rate,
    with_late_pending_sharing,
    with_late_sharing,
)
from sash.scheduling.policy import by_period
from sash.sharing import Work, joint_cost


def workload(chance: random.Random, groups: int = 3, most: int = 12) -> list[Standing]:
    return [
        Standing(
            f"q{i}",
            f"g{chance.randrange(groups)}",
            chance.randrange(1, 9),
            chance.randrange(3),
            Work({"s": float(chance.randrange(1, 40))}, float(chance.randrange(3))),
        )
        for i in range(chance.randrange(1, most))
    ]


# ---------------------------------------------------------------------------- naive schedulers


@dataclass
class NaiveTask:
    group: str
    queries: list[str]
    period: int
    priority: int
    number: int
    d: int


class Naive:
    """Algorithms 9, 10 and 11: d(T) is counted down at every update, and all tasks are looked at."""

    def __init__(self, queries, sub_groups, algorithm):
        self.tasks: list[NaiveTask] = []
        for group in sorted({query.group for query in queries}):
            for members, period in sub_groups([query for query in queries if query.group == group]):
                priority = max(query.priority for query in members)
                names = [query.name for query in members]
                self.tasks.append(NaiveTask(group, names, period, priority, len(self.tasks), period))
        self.algorithm = algorithm

    def update(self):
        for task in self.tasks:
            task.d -= 1

    def step(self):
        v = min(task.d for task in self.tasks)
        if v > 0:
            return None
        if self.algorithm == 11 and v < 0:
            chosen = [task for task in self.tasks if task.d <= 0]
        elif self.algorithm == "late" and v < 0:
            chosen = [task for task in self.tasks if task.d < 0]
        else:
            chosen = [task for task in self.tasks if task.d == v]
        first = min(chosen, key=lambda task: (task.d, -task.priority, task.number))
        executed = [first]
        if self.algorithm != 9:
            executed += [task for task in chosen if task.group == first.group and task is not first]
        for task in executed:
            task.d = task.period
        return sorted(name for task in executed for name in task.queries)


def each_alone(queries):
    return [([query], query.period) for query in queries]


def of_one_period(queries):
    periods = sorted({query.period for query in queries})
    return [([query for query in queries if query.period == period], period) for period in periods]


def all_at_once(queries):
    return [(queries, min(query.period for query in queries))]


CASES = [
    (EDF, each_alone, 9),
    (NO_SHARING, of_one_period, 9),
    (AGGRESSIVE, all_at_once, 9),
    (CONSERVATIVE, of_one_period, 10),
    (with_late_sharing(CONSERVATIVE), of_one_period, "late"),
    (with_late_pending_sharing(CONSERVATIVE), of_one_period, 11),
]


@pytest.mark.parametrize(
    ("policy", "sub_groups", "algorithm"), CASES, ids=[policy.name for policy, _, _ in CASES]
)
@given(st.integers(0, 2**32))
def test_decisions_are_those_of_the_pseudo_code(policy, sub_groups, algorithm, seed):
    chance = random.Random(seed)
    queries = workload(chance)
    scheduler = Scheduler(policy, Semantics.ELASTIC)
    for query in queries:
        scheduler.put(query)
    naive = Naive(queries, sub_groups, algorithm)
    last = dict.fromkeys((query.name for query in queries), 0)
    for now in range(1, 30):
        scheduler.updated(now)
        naive.update()
        for _ in range(chance.choice([0, 1, 1, 2, 9])):
            execution, expected = scheduler.next(), naive.step()
            assert (None if execution is None else sorted(execution.queries)) == expected
            if execution is not None:
                for name, lateness in zip(execution.queries, execution.lateness.tolist(), strict=True):
                    period = next(query.period for query in queries if query.name == name)
                    assert lateness == max(0, now - last[name] - period)
                    last[name] = now
        scheduler.validate()


# ---------------------------------------------------------------------------- hybrid


def naive_cost(blocks: list[Block]) -> float:
    """Cost per unit, step by step over the least common multiple."""
    period = math.lcm(*(block.period for block in blocks))
    total = 0.0
    for step in range(1, period + 1):
        due = [query.work for block in blocks if step % block.period == 0 for query in block.queries]
        total += joint_cost(due)
    return total / period


def all_ways(blocks: list[Block]) -> list[list[Block]]:
    ways = []
    for labels in itertools.product(range(len(blocks)), repeat=len(blocks)):
        merged: dict[int, list[Block]] = {}
        for label, block in zip(labels, blocks, strict=True):
            merged.setdefault(label, []).append(block)
        ways.append(
            [
                Block(tuple(q for b in each for q in b.queries), min(b.period for b in each))
                for each in merged.values()
            ]
        )
    return ways


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.sampled_from(Semantics))
def test_hybrid_takes_the_cheapest_way_of_all(seed, semantics):
    chance = random.Random(seed)
    periods = chance.sample(range(1, 8), 4)
    queries = [
        Standing(
            f"q{i}",
            "g",
            chance.choice(periods),
            work=Work({chance.choice("st"): float(chance.randrange(1, 40))}, float(chance.randrange(2))),
        )
        for i in range(7)
    ]
    blocks = HYBRID.divide(queries, semantics)
    ways = all_ways(by_period(queries))
    if semantics is Semantics.BOUNDARIES:
        ways = [w for w in ways if all(q.period % b.period == 0 for b in w for q in b.queries)]
    assert sorted(query.name for block in blocks for query in block.queries) == sorted(
        q.name for q in queries
    )
    assert cost_rate(blocks) == pytest.approx(naive_cost(blocks))
    assert cost_rate(blocks) == pytest.approx(min(naive_cost(way) for way in ways))


@pytest.mark.parametrize("semantics", Semantics)
def test_hybrid_of_many_sub_groups_is_not_dearer_than_conservative_or_aggressive(semantics):
    chance = random.Random(3)
    for count in (8, 20, 40):
        queries = [
            Standing(
                f"q{i}", "g", chance.randrange(1, 50), work=Work({"s": float(chance.randrange(20, 100))})
            )
            for i in range(count)
        ]
        found = [policy.divide(queries, semantics) for policy in (HYBRID, CONSERVATIVE, AGGRESSIVE)]
        hybrid, conservative, aggressive = (cost_rate(blocks, 2_520) for blocks in found)
        assert hybrid <= conservative + 1e-9
        assert hybrid <= aggressive + 1e-9
        assert all(query.period >= block.period for block in found[0] for query in block.queries)


# ---------------------------------------------------------------------------- what holds of all


@pytest.mark.parametrize("policy", POLICIES.values(), ids=list(POLICIES))
@given(st.integers(0, 2**32), st.sampled_from(Semantics))
def test_nobody_starves_while_queries_come_and_go(policy, seed, semantics):
    """A task that is due waits for no more decisions than there are tasks, however great the overload."""
    chance = random.Random(seed)
    scheduler = Scheduler(policy, semantics, now=chance.randrange(5))
    standing: dict[str, Standing] = {}
    boundaries: dict[str, int] = {}
    waited: dict[str, int] = {}
    now = scheduler.now
    for round_ in range(25):
        if chance.random() < 0.5:
            query = Standing(
                f"q{round_}", f"g{chance.randrange(2)}", chance.randrange(1, 7), chance.randrange(2)
            )
            scheduler.put(query)
            standing[query.name] = query
        if standing and chance.random() < 0.1:
            name = chance.choice(sorted(standing))
            scheduler.drop(name)
            del standing[name]
            waited = {}
        now += chance.choice([1, 1, 1, 3])
        scheduler.updated(now)
        for _ in range(chance.choice([0, 1, 1, 2])):
            execution = scheduler.next()
            if execution is None:
                assert all(scheduler.report(name).due > now for name in standing)
                break
            assert execution.queries
            tasks = sum(len(each) for each in scheduler.tasks().values())
            for name in standing:
                waited[name] = 0 if name in execution.queries else waited.get(name, 0) + 1
                if scheduler.report(name).due > now:
                    waited[name] = 0
                assert waited[name] <= tasks
            check_answers(execution, standing, boundaries, semantics)
        scheduler.validate()


def check_answers(execution, standing, boundaries, semantics):
    rows = zip(
        execution.queries,
        execution.boundaries.tolist(),
        execution.lateness.tolist(),
        execution.skipped.tolist(),
        strict=True,
    )
    for name, boundary, lateness, skipped in rows:
        period = standing[name].period
        assert boundary <= execution.instant
        assert lateness >= 0
        assert boundary > boundaries.get(name, -1)
        if semantics is Semantics.BOUNDARIES:
            assert boundary % period == 0
            assert execution.instant - boundary < period
            if name in boundaries:
                assert boundary == boundaries[name] + (skipped + 1) * period
        boundaries[name] = boundary


@pytest.mark.parametrize("policy", POLICIES.values(), ids=list(POLICIES))
@given(st.integers(0, 2**32))
def test_with_time_enough_every_boundary_is_answered_on_time(policy, seed):
    chance = random.Random(seed)
    queries = workload(chance)
    scheduler = Scheduler(policy)
    for query in queries:
        scheduler.put(query)
    answered: dict[str, list[int]] = {query.name: [] for query in queries}
    for now in range(1, 25):
        scheduler.updated(now)
        while (execution := scheduler.next()) is not None:
            assert not execution.lateness.any()
            assert not execution.skipped.any()
            for name, boundary in zip(execution.queries, execution.boundaries.tolist(), strict=True):
                answered[name].append(boundary)
    for query in queries:
        assert answered[query.name] == list(range(query.period, 25, query.period))


def test_among_equal_deadlines_the_greater_priority_is_first():
    scheduler = Scheduler(EDF)
    for name, priority in (("low", 0), ("high", 2), ("middle", 1)):
        scheduler.put(Standing(name, name, 5, priority))
    scheduler.updated(5)
    order = [execution.queries[0] for _ in range(3) if (execution := scheduler.next()) is not None]
    assert order == ["high", "middle", "low"]


def test_under_overload_periods_get_longer_and_lateness_is_told():
    """Two queries with period 1 and one decision an update: each is executed every second time."""
    scheduler = Scheduler(EDF, Semantics.ELASTIC)
    for name in "ab":
        scheduler.put(Standing(name, name, 1))
    for now in range(1, 21):
        scheduler.updated(now)
        assert scheduler.next() is not None
    for name in "ab":
        report = scheduler.report(name)
        assert (report.period, report.granted, report.executions, report.lateness) == (1, 2, 10, 1)
        assert report.mean_lateness == pytest.approx(1, abs=0.11)


def test_an_eager_scheduler_executes_what_is_due_next_once_an_update():
    scheduler = Scheduler(EDF, Semantics.ELASTIC, is_eager=True)
    scheduler.put(Standing("a", "g", 3))
    scheduler.put(Standing("b", "g", 5))
    assert scheduler.next() is None
    scheduler.updated(1)
    assert [scheduler.next() is not None for _ in range(3)] == [True, True, False]
    assert scheduler.report("a").due == 4


def test_a_restored_scheduler_goes_on_as_the_one_that_was_saved():
    chance = random.Random(7)
    queries = workload(chance)
    first, second = Scheduler(), Scheduler()
    for query in queries:
        first.put(query)
    for now in range(1, 12):
        first.updated(now)
        first.next()
    for query in queries:
        second.put(query)
    second.restore(first.snapshot(), first.now)
    for now in range(12, 30):
        for scheduler in (first, second):
            scheduler.updated(now)
        while (expected := first.next()) is not None:
            found = second.next()
            assert found is not None
            assert sorted(found.queries) == sorted(expected.queries)
            assert found.lateness.sum() == expected.lateness.sum()
        assert second.next() is None


def test_queries_can_change_their_group_and_keep_how_they_fared():
    scheduler = Scheduler(CONSERVATIVE)
    scheduler.put(Standing("a", "g", 2))
    scheduler.put(Standing("b", "h", 2))
    scheduler.updated(2)
    assert [scheduler.next() is not None for _ in range(3)] == [True, True, False]
    scheduler.regroup([Standing("b", "g", 2)])
    scheduler.updated(4)
    execution = scheduler.next()
    assert execution is not None
    assert set(execution.queries) == {"a", "b"}
    assert scheduler.report("b").executions == 2
    assert list(scheduler.tasks()) == ["g"]


def test_mistakes_are_refused():
    scheduler = Scheduler()
    scheduler.put(Standing("a", "g", 2))
    with pytest.raises(DuplicateName):
        scheduler.put(Standing("a", "g", 3))
    with pytest.raises(UnknownName):
        scheduler.drop("b")
    with pytest.raises(InternalError):
        scheduler.put(Standing("c", "g", 0))
    scheduler.updated(4)
    with pytest.raises(InternalError):
        scheduler.updated(3)
    scheduler.drop("a")
    assert scheduler.next() is None
    assert len(scheduler) == 0
