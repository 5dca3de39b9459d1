"""Continuous operators on Spark, divided among partitions, give what the oracle says."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sash.testing.cases import Case
from sash.testing.programs import programs
from sash.testing.runs import replay

CASES = sorted((Path(__file__).parent.parent / "golden" / "cases").glob("*.case"))


@pytest.mark.parametrize(
    ("path", "partitions"),
    [(path, (1, 2, 5)[number % 3]) for number, path in enumerate(CASES[::3])],
    ids=lambda value: str(value)[-20:],
)
def test_golden_cases(path, partitions, tmp_path):
    replay(Case.read(path), tmp_path, runtime="spark", partitions=partitions)


# A start on Spark takes a second even in a session that is there already, so an example is a program of many
# queries, and there are few of them. Nothing is made smaller: that would take hours.
@settings(
    max_examples=6,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data(), scenario=programs(most_queries=6))
def test_random_programs(data, scenario):
    partitions = data.draw(st.sampled_from((1, 2, 5)), "partitions")
    batch_rows = data.draw(st.integers(max(1, scenario.rows // 3), max(1, scenario.rows)), "batch_rows")
    interruptions = data.draw(st.one_of(st.none(), st.just([1])), "interruptions")
    with tempfile.TemporaryDirectory() as directory:
        outcome = scenario.run(
            Path(directory) / "run",
            runtime="spark",
            batch_rows=batch_rows,
            interruptions=interruptions,
            partitions=partitions,
        )
        scenario.check(outcome)
