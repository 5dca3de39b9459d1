"""Rows of one instant come in one order: files are the same bytes, however the work is divided or stopped."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from sash.testing.programs import programs

# Partitions and rows a batch.
WAYS = st.sampled_from(((None, 1), (1, 7), (3, 1), (3, 7), (3, None)))


@settings(max_examples=120)
@given(scenario=programs(most_queries=2, sinks=("jsonl",), in_order=True), way=WAYS)
def test_rows_pass_through_streams_of_selected_rows_as_they_arrived(scenario, way):
    check(scenario, *way)


@settings(max_examples=80)
@given(scenario=programs(most_queries=2, sinks=("jsonl",)), way=WAYS)
def test_files_are_the_same_for_any_partitions_and_batches(scenario, way):
    check(scenario, *way)


@settings(max_examples=40)
@given(data=st.data(), scenario=programs(most_queries=2, sinks=("jsonl",), in_order=True))
def test_files_are_the_same_after_restarts(data, scenario):
    stops = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3), "interruptions")
    partitions = data.draw(st.sampled_from((None, 3)), "partitions")
    with tempfile.TemporaryDirectory() as directory:
        whole = scenario.run(Path(directory) / "whole")
        stopped = scenario.run(
            Path(directory) / "stopped", batch_rows=3, interruptions=stops, partitions=partitions
        )
        for query in whole.program.queries:
            assert stopped.output(query.name) == whole.output(query.name)


def check(scenario, partitions, batch_rows):
    with tempfile.TemporaryDirectory() as directory:
        whole = scenario.run(Path(directory) / "whole")
        scenario.check(whole)
        other = scenario.run(Path(directory) / "other", batch_rows=batch_rows, partitions=partitions)
        for query in whole.program.queries:
            assert other.output(query.name) == whole.output(query.name)
