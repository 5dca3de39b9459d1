"""Random programs of the whole language over random streams and relations: a run gives what the oracle says.

Five hundred examples, the same ones every time, each through files and `run_program`. `make soak` looks at
others. What the random queries mean where the language reference is silent:

- A level of a query (what is evaluated together) begins with the first row of its streams; a sub-query under
  a window is such a stream. Then all that holds appears at once: rows of relations, an aggregate of nothing.
- Instants are multiples of the unit of integer time if all streams of the query share one. NOW lives for one
  unit. What happens between two instants, also in relations, is seen at the next.
- Results of a sub-query enter the window over it by instant and, within one, by value, NULL last; ties under
  LIMIT are broken so, too.
- A row joins a non-retroactive relation as it is when the row arrives, a pair when its later half
  does.
- Restore adds what left since the last boundary more often than it had been there.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from sash.testing.programs import programs

TEXT_SINKS = ("jsonl", "csv")
# All operators in one place, or divided among so many partitions.
PARTITIONS = st.sampled_from((None, 1, 2, 5))


@settings(max_examples=150)
@given(data=st.data(), scenario=programs(most_streams=1, most_queries=1, most_rows=16))
def test_one_query_over_one_stream(data, scenario):
    check(scenario, data.draw(sizes(scenario), "batch_rows"), partitions=data.draw(PARTITIONS, "partitions"))


@settings(max_examples=130)
@given(data=st.data(), scenario=programs(most_queries=1))
def test_one_query_over_several_streams_and_relations(data, scenario):
    check(scenario, data.draw(sizes(scenario), "batch_rows"), partitions=data.draw(PARTITIONS, "partitions"))


@settings(max_examples=80)
@given(data=st.data(), scenario=programs(most_queries=4))
def test_several_queries_in_one_program(data, scenario):
    check(scenario, data.draw(sizes(scenario), "batch_rows"), partitions=data.draw(PARTITIONS, "partitions"))


@settings(max_examples=80)
@given(data=st.data(), scenario=programs(most_queries=2))
def test_a_run_that_is_interrupted_and_resumed(data, scenario):
    interruptions = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3), "interruptions")
    partitions = data.draw(PARTITIONS, "partitions")
    check(scenario, data.draw(sizes(scenario), "batch_rows"), interruptions, partitions)


@settings(max_examples=60)
@given(data=st.data(), scenario=programs(most_queries=2, sinks=TEXT_SINKS))
def test_output_does_not_depend_on_the_size_of_batches(data, scenario):
    size = data.draw(sizes(scenario), "batch_rows")
    with tempfile.TemporaryDirectory() as directory:
        outcome = scenario.run(Path(directory) / "batches", batch_rows=size)
        whole = scenario.run(Path(directory) / "whole")
        for query in whole.program.queries:
            assert outcome.output(query.name) == whole.output(query.name)
        scenario.check(whole)


def sizes(scenario):
    return st.integers(1, max(1, scenario.rows))


def check(scenario, batch_rows, interruptions=None, partitions=None):
    with tempfile.TemporaryDirectory() as directory:
        outcome = scenario.run(
            Path(directory) / "run",
            batch_rows=batch_rows,
            interruptions=interruptions,
            partitions=partitions,
        )
        scenario.check(outcome)
