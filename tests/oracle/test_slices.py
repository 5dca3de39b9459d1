"""Answers do not depend on the slices of time in which operators hand on their results."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from sash.testing.programs import programs

FEW = st.integers(1, 6)


@settings(max_examples=120)
@given(data=st.data(), scenario=programs(most_queries=3))
def test_operators_that_hand_on_a_few_rows_at_a_time_give_the_same_answers(data, scenario):
    given_at_once, taken_at_once = data.draw(FEW, "given"), data.draw(FEW, "taken")
    partitions = data.draw(st.sampled_from((None, 1, 3)), "partitions")
    interruptions = data.draw(st.one_of(st.none(), st.lists(st.integers(1, 3), max_size=2)), "interruptions")
    with (
        patch("sash.operators.dataflow.MOST_ROWS", given_at_once),
        patch("sash.engine.continuous.buffered_dataflow.SLICE_ROWS", taken_at_once),
        tempfile.TemporaryDirectory() as directory,
    ):
        scenario.check(
            scenario.run(Path(directory) / "run", partitions=partitions, interruptions=interruptions)
        )
