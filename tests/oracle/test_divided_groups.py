"""Groupings that are larger than the driver: divided among partitions they give the same answers."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracle.test_changing_queries import changing

from sash.testing.strategies import scenarios

# None of them, some that have become too large, or all that are grouped.
LIMITS = st.sampled_from((0, 1, 2, 3))
PARTITIONS = st.sampled_from((1, 2, 3))
STOPS = st.none() | st.lists(st.integers(1, 4), max_size=4)


@contextmanager
def fresh_directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


@settings(max_examples=30)
@given(data=st.data(), scenario=scenarios(most_queries=4), limit=LIMITS, partitions=PARTITIONS, stops=STOPS)
def test_answers_of_divided_groupings_are_those_of_the_oracle(data, scenario, limit, partitions, stops):
    batch_rows = data.draw(st.integers(1, scenario.rows), "batch_rows")
    with fresh_directory() as directory:
        outcome = scenario.run(
            directory / "run",
            batch_rows=batch_rows,
            interruptions=stops,
            partitions=partitions,
            max_driver_groups=limit,
        )
        scenario.check(outcome)


@settings(max_examples=10)
@given(
    data=st.data(),
    scenario=scenarios(sinks=("jsonl",), most_rows=30, most_queries=3, defined=False),
    limit=LIMITS,
    stops=STOPS,
)
def test_lists_and_sketches_of_divided_groupings_are_those_of_the_driver(data, scenario, limit, stops):
    batch_rows = data.draw(st.integers(1, scenario.rows), "batch_rows")
    with fresh_directory() as directory:
        whole = scenario.run(directory / "whole")
        divided = scenario.run(
            directory / "run",
            batch_rows=batch_rows,
            interruptions=stops,
            partitions=2,
            max_driver_groups=limit,
        )
        for query in whole.program.queries:
            assert divided.output(query.name) == whole.output(query.name)


@settings(max_examples=10)
@given(
    changing=changing(),
    batch_rows=st.integers(1, 6),
    partitions=PARTITIONS,
    limit=LIMITS,
    stops=STOPS,
)
def test_queries_over_divided_groupings_come_and_go(changing, batch_rows, partitions, limit, stops):
    with fresh_directory() as directory:
        changing.run(
            directory / "run",
            batch_rows=batch_rows,
            partitions=partitions,
            max_driver_groups=limit,
            interruptions=stops,
        )
