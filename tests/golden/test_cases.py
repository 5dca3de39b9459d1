"""Cases of other systems in our CQL: each file of `cases/` lists the answers that a run and the oracle give.

Their notes say where a source has other answers, and why. `--regenerate` writes the answers of the oracle.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sash.testing.cases import Case
from sash.testing.runs import replay

PATHS = sorted((Path(__file__).parent / "cases").glob("*.case"))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_the_oracle_gives_the_answers_of_the_case(path, regenerate):
    case = Case.read(path).recomputed()
    if regenerate:
        case.write(path)
    assert case == Case.read(path)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_run_gives_the_answers_of_the_case(path, tmp_path):
    replay(Case.read(path), tmp_path)


def test_there_are_cases_of_five_systems_and_of_nexmark():
    assert len(PATHS) == 12
    assert {path.stem.partition("_")[0] for path in PATHS} == {
        "stream", "sensorbee", "esper", "flink", "risingwave", "nexmark",
    }  # fmt: skip
