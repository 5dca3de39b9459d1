"""A row joins a non-retroactive relation as it was when the row arrived, whatever shows it and whenever.

A result of a join of rows arrives with the last of them. The oracle takes both by definition: each row of a
window knows its timestamp, each version of the relation since when it is there, and until when.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from sash.testing.arriving import arriving_programs


@settings(max_examples=150)
@given(data=st.data(), scenario=arriving_programs())
def test_rows_see_the_relation_of_their_arrival(data, scenario):
    batch_rows = data.draw(st.integers(1, max(1, scenario.rows)), "batch_rows")
    interruptions = data.draw(
        st.none() | st.lists(st.integers(1, 3), min_size=1, max_size=3), "interruptions"
    )
    partitions = data.draw(st.sampled_from((None, 1, 3)), "partitions")
    with tempfile.TemporaryDirectory() as directory:
        outcome = scenario.run(
            Path(directory) / "run", batch_rows=batch_rows, interruptions=interruptions, partitions=partitions
        )
        scenario.check(outcome)
