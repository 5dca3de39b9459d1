"""Random programs over random streams: the inline runtime gives what the oracle recomputes from scratch.

Everything goes the way of a user's program: CQL text, files in a directory, sinks that write files. What is
compared is what the files hold.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from sash.testing.strategies import scenarios

TEXT_SINKS = ("jsonl", "csv")


@contextmanager
def fresh_directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


@settings(max_examples=170)
@given(data=st.data(), scenario=scenarios())
def test_answers_are_those_of_the_oracle_at_every_instant(data, scenario):
    batch_rows = data.draw(st.integers(1, scenario.rows), "batch_rows")
    with fresh_directory() as directory:
        scenario.check(scenario.run(directory / "run", batch_rows=batch_rows))


@settings(max_examples=60)
@given(data=st.data(), scenario=scenarios(sinks=TEXT_SINKS, most_rows=40, most_queries=4))
def test_output_does_not_depend_on_the_size_of_batches(data, scenario):
    sizes = st.integers(1, scenario.rows)
    one, other = data.draw(sizes, "one"), data.draw(sizes, "other")
    with fresh_directory() as directory:
        first = scenario.run(directory / "one", batch_rows=one)
        second = scenario.run(directory / "other", batch_rows=other)
        whole = scenario.run(directory / "whole")
        for query in first.program.queries:
            assert first.output(query.name) == second.output(query.name) == whole.output(query.name)
        assert first.summary.streams == second.summary.streams == whole.summary.streams
        scenario.check_rows(whole)


@settings(max_examples=60)
@given(data=st.data(), scenario=scenarios(sinks=TEXT_SINKS, most_rows=30, most_queries=3))
def test_output_of_a_run_that_was_interrupted_and_resumed_is_that_of_an_undisturbed_one(data, scenario):
    batch_rows = data.draw(st.integers(1, max(1, scenario.rows // 2)), "batch_rows")
    interruptions = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4), "interruptions")
    with fresh_directory() as directory:
        undisturbed = scenario.run(directory / "undisturbed", batch_rows=batch_rows)
        resumed = scenario.run(directory / "resumed", batch_rows=batch_rows, interruptions=interruptions)
        for query in undisturbed.program.queries:
            assert resumed.output(query.name) == undisturbed.output(query.name)
        assert resumed.summary.answered == undisturbed.summary.answered
        scenario.check_rows(resumed)
        for stream in undisturbed.summary.streams:
            for kind in ("late", "rejects"):
                without_paths = [
                    [{**row, "source": None} for row in outcome.dead_letters(stream, kind)]
                    for outcome in (undisturbed, resumed)
                ]
                assert without_paths[0] == without_paths[1]


@settings(max_examples=30)
@given(data=st.data(), scenario=scenarios(most_rows=15, most_queries=3))
def test_a_run_resumed_after_every_batch_gives_the_answers_of_the_oracle(data, scenario):
    batch_rows = data.draw(st.integers(1, scenario.rows), "batch_rows")
    with fresh_directory() as directory:
        outcome = scenario.run(
            directory / "run", batch_rows=batch_rows, interruptions=[1] * (2 * scenario.rows + 4)
        )
        scenario.check(outcome)


@settings(max_examples=40)
@given(data=st.data(), scenario=scenarios(sinks=TEXT_SINKS, most_rows=30, most_queries=3, defined=False))
def test_lists_of_frequent_values_depend_neither_on_batches_nor_on_restarts(data, scenario):
    batch_rows = data.draw(st.integers(1, scenario.rows), "batch_rows")
    with fresh_directory() as directory:
        whole = scenario.run(directory / "whole")
        resumed = scenario.run(
            directory / "run", batch_rows=batch_rows, interruptions=[1] * (2 * scenario.rows + 4)
        )
        for query in whole.program.queries:
            assert resumed.output(query.name) == whole.output(query.name)
