"""The experiment `planning`: its queries are all different and all planned; times are not tested."""

from __future__ import annotations

from sash.lang import bind_program
from sash.plan.explain.text import explanations
from sash_experiments import planning
from sash_experiments.registry import all_experiments, run_experiment


def test_every_number_is_another_query():
    numbers = range(0, 2_000, 7)
    assert len({planning.query(number)[1].partition(" AS ")[2] for number in numbers}) == len(numbers)


def test_all_kinds_of_queries_are_planned():
    text = planning.STREAMS + "".join(planning.query(number)[1] for number in range(len(planning.KINDS)))
    program = bind_program(text)
    assert [query.select is not None for query in program.queries] == [
        kind == "periodic" for kind in planning.KINDS
    ]
    operators = {step.operator for explained in explanations(program) for step in explained.tree.walk()}
    assert operators >= {
        "Join",
        "RelationJoin",
        "SemiJoin",
        "Distinct",
        "Aggregate",
        "Multiplicity",
        "Window",
    }


def test_a_run_leaves_a_row_for_each_kind_and_two_claims(tmp_path, monkeypatch):
    monkeypatch.setitem(planning._SCALES, "small", len(planning.KINDS))
    assert "planning" in all_experiments()
    result = run_experiment("planning", "small", tmp_path)
    assert [row["queries"] for row in result.table] == [*planning.KINDS, "all in one program"]
    assert [claim.id for claim in result.claims] == ["one-query", "thousand-queries"]
    assert {path.name for path in tmp_path.iterdir()} == {"planning.json", "planning.png"}
