"""Names that mean the same in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from sash.engine.durability.plan_store import fingerprint
from sash.errors import InternalError
from sash.lang.algebra import OutputKind
from sash.operators.build import build
from sash.operators.outline import outline
from sash.operators.stage_planner import cut
from sash.plan.digests import canonical_text, digest
from sash.plan.explain.text import explain_program
from sash.plan.run_plan import plan_run
from sash.synopses.joined.aggregates import join_operators
from sash.testing.programs import programs
from sash.testing.scenario import Scenario
from sash.testing.strategies import scenarios

COUNT = 40


@dataclass(frozen=True)
class Named:
    name: str
    note: str = field(default="", compare=False)


def test_equal_values_have_one_text():
    assert canonical_text({"b", "a"}) == canonical_text(frozenset(["a", "b"]))
    assert canonical_text({"a": 1, "b": 2}) == canonical_text({"b": 2, "a": 1})
    assert digest(Named("a", "one")) == digest(Named("a", "two"))


@pytest.mark.parametrize(
    "other", [Named("b"), ("a",), "a", 1, True, 1.0, None, OutputKind.VIEW, ["a", "b"], {"a"}, {"a": "b"}]
)
def test_different_values_have_different_names(other):
    others = [Named("a"), ("a", None), "1", "True", "1.0", "None", OutputKind.ISTREAM, {"b"}, {"b": "a"}, {}]
    assert digest(other) not in [digest(each) for each in others]


def test_what_has_no_text_is_refused():
    with pytest.raises(InternalError, match="no canonical text for object"):
        digest(object())


def described(scenario: Scenario) -> list[str]:
    """All that processes have to agree about."""
    program = scenario.program
    plan = plan_run(program)
    flow = build(plan, join_operators)
    names = [spec.name for spec in plan.synopses] + [scan.name for scan in plan.scans]
    return [
        scenario.text,
        fingerprint(plan),
        *names,
        *outline(flow, cut(flow)),
        explain_program(program, "text"),
        explain_program(program, "json"),
    ]


def describe() -> None:
    """Print what there is to say about many random programs."""

    @seed(20)
    @settings(
        max_examples=COUNT,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.one_of(programs(), programs(), scenarios()))
    def one(scenario: Scenario) -> None:
        print("\n".join(described(scenario)))

    one()


@pytest.fixture(scope="module")
def texts() -> list[str]:
    root = Path(__file__).parents[3]
    started = [
        subprocess.Popen(
            [sys.executable, __file__],
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{root / 'src'}:{root}"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("0", "1", "4242")
    ]
    found = [process.communicate()[0] for process in started]
    assert [process.returncode for process in started] == [0, 0, 0]
    return found


def test_plans_numbers_and_names_do_not_depend_on_the_process(texts):
    lines = [text.splitlines() for text in texts]
    assert len(lines[0]) > 20 * COUNT
    for other in lines[1:]:
        differing = [pair for pair in zip(lines[0], other, strict=True) if pair[0] != pair[1]]
        assert differing[:3] == []


if __name__ == "__main__":
    describe()
