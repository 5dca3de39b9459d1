"""What went wrong once: each `.case` file here (see `sash.testing.cases`) is run again, and asked anew.

`make soak` writes one for every wrong answer that it finds.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sash.testing.cases import Case
from sash.testing.runs import replay

PATHS = sorted(Path(__file__).parent.glob("*.case"))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_case_that_went_wrong_once_is_right(path, tmp_path):
    for partitions in (None, 1, 3):
        directory = tmp_path / str(partitions)
        directory.mkdir()
        replay(Case.read(path), directory, partitions=partitions)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_the_oracle_still_gives_the_answers_of_the_case(path):
    case = Case.read(path)
    assert case.recomputed() == case
