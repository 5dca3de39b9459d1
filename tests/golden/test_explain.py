"""EXPLAIN says the same every time: `explain/NAME.cql` gives the text of `explain/NAME.txt`."""

from __future__ import annotations

from pathlib import Path

import pytest

from sash.lang import bind_program
from sash.plan.explain import explain_program
from sash.plan.explain.text import explanations

HERE = Path(__file__).parent / "explain"
PROGRAMS = sorted(HERE.glob("*.cql"))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_explain_gives_the_golden_text(path, regenerate):
    explained = explain_program(bind_program(path.read_text(encoding="utf-8"))) + "\n"
    golden = path.with_suffix(".txt")
    if regenerate:
        golden.write_text(explained, encoding="utf-8")
    assert explained == golden.read_text(encoding="utf-8")


def test_every_golden_text_belongs_to_a_program():
    texts = {path.stem for path in (Path(__file__).parent / "explain").glob("*.txt")}
    assert texts == {path.stem for path in PROGRAMS}
    assert len(PROGRAMS) >= 5


@pytest.mark.parametrize(
    ("side", "above", "below"), [("left", "SemiJoin", "Join"), ("right", "Join", "SemiJoin")]
)
def test_rates_decide_where_the_negation_of_figure_3_5_stands(side, above, below):
    program = bind_program((HERE / f"figure_3_5_{side}.cql").read_text(encoding="utf-8"))
    (explained,) = explanations(program)
    operators = [step.operator for step in explained.tree.walk()]
    assert operators.index(above) < operators.index(below)
    patterns = {step.operator: step.pattern for step in explained.tree.walk()}
    assert patterns["SemiJoin"] == "STR"
    assert patterns["Join"] == ("WK" if side == "left" else "STR")
    assert len(explained.considered) >= 2
