"""Queries that come and go while a run goes on, and between two runs: each gives what the oracle says."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from sash.testing.changing import Changing, Stay
from sash.testing.programs import programs

PARTITIONS = st.sampled_from((None, 1, 3))


@st.composite
def changing(draw: st.DrawFn, most_queries: int = 4) -> Changing:
    scenario = draw(programs(most_queries=most_queries, most_rows=12))
    spans = st.none() | st.integers(1, 12)
    kept = [
        replace(s, retain=ticks and ticks * s.clock.tick) for s in scenario.streams for ticks in [draw(spans)]
    ]
    scenario = replace(scenario, streams=tuple(kept))
    stays = [
        draw(st.builds(Stay, st.integers(0, 4), st.none() | st.integers(5, 8))) for _ in scenario.queries
    ]
    return Changing(scenario, tuple(stays)).ordered()


@settings(max_examples=30)
@given(changing=changing(), batch_rows=st.integers(1, 6), partitions=PARTITIONS)
def test_queries_come_and_go_while_others_run(changing, batch_rows, partitions):
    with tempfile.TemporaryDirectory() as directory:
        changing.run(Path(directory) / "run", batch_rows=batch_rows, partitions=partitions)


@settings(max_examples=25)
@given(
    changing=changing(),
    batch_rows=st.integers(1, 6),
    partitions=PARTITIONS,
    interruptions=st.lists(st.integers(1, 4), min_size=1, max_size=4),
)
def test_queries_come_and_go_while_others_run_and_are_stopped(
    changing, batch_rows, partitions, interruptions
):
    with tempfile.TemporaryDirectory() as directory:
        changing.run(
            Path(directory) / "run",
            batch_rows=batch_rows,
            partitions=partitions,
            interruptions=interruptions,
        )
