"""The experiments on scheduling: what they simulate, and that they leave tables and claims."""

from __future__ import annotations

import pytest
from experiments.tests.kit import number

from sash.scheduling import CONSERVATIVE, DEFAULT, HYBRID
from sash_experiments import overload, query_scheduling, scheduling_decisions
from sash_experiments.registry import all_experiments, run_experiment

UNIT = query_scheduling.Coefficients(1.0, 0.0)


def test_workloads_are_those_of_the_thesis():
    queries = query_scheduling.workload(80, query_scheduling.LOW, 0, UNIT)
    assert len(queries) == 80
    assert len({query.group for query in queries}) == 8
    for query in queries:
        (scan,) = query.work.scans.values()
        counters = query_scheduling.distinct(query_scheduling.FIELDS[query.group], query_scheduling.LOW)
        window = scan / counters
        assert 19.9 < window < 100.1
        assert 1 <= query.period <= window / 2 + 0.01


def test_a_machine_with_time_enough_is_never_late_and_one_without_works_all_the_time():
    queries = query_scheduling.workload(40, query_scheduling.LOW, 0, UNIT)
    asked = query_scheduling.demand(queries, CONSERVATIVE, query_scheduling.LOW, UNIT)
    update = query_scheduling.update_cost(query_scheduling.LOW, UNIT)
    easy = query_scheduling.simulate(queries, CONSERVATIVE, update, 0.01 / asked, 300)
    assert easy.lateness == 0
    hard = {
        policy.name: query_scheduling.simulate(queries, policy, update, 4 / asked, 300)
        for policy in (CONSERVATIVE, HYBRID, DEFAULT)
    }
    assert all(seen.load > 0.95 for seen in hard.values())
    conservative, _, late_pending = hard.values()
    assert conservative.lateness > late_pending.lateness > 0
    assert late_pending.throughput > conservative.throughput


@pytest.mark.parametrize("name", ["query-scheduling", "scheduling-decisions"])
def test_a_run_leaves_a_table_claims_and_a_picture(name, tmp_path, monkeypatch):
    monkeypatch.setitem(query_scheduling._UPDATES, "small", 30)
    monkeypatch.setitem(query_scheduling._WORKLOADS, "small", 1)
    monkeypatch.setattr(query_scheduling, "_WARM_UP", 10)
    monkeypatch.setattr(query_scheduling, "QUERIES", (40,))
    monkeypatch.setitem(scheduling_decisions._UPDATES, "small", 5)
    monkeypatch.setattr(scheduling_decisions, "QUERIES", (30,))
    assert name in all_experiments()
    result = run_experiment(name, "small", tmp_path)
    assert result.table
    assert result.claims
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.json", f"{name}.png"}
    if name == "query-scheduling":
        assert {row["technique"] for row in result.table} == set(query_scheduling.TECHNIQUES)
        assert all(number(row, "executed/s") > 0 for row in result.table)


def test_overload_compares_kinds_of_refresh_on_a_live_stream():
    sizes = overload.Sizes(queries=5, hosts=20, first=400, most=400, seconds=0.3)
    result = overload.measured(sizes, "inline", "small")
    assert [str(row["refresh"]).partition(" ")[0] for row in result.table] == ["exact", "elastic", "elastic"]
    assert all(row["rows"] for row in result.table)
    assert sum(number(row, "answers") for row in result.table)
    assert not any(row["wrong"] for row in result.table)
    assert [claim.id for claim in result.claims] == ["answers", "pace", "all", "late-pending"]
