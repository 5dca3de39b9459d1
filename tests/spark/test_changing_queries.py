"""Queries that come and go while a run on Spark goes on: each gives what the oracle says."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.spark.kit import MASTER, write_csv

from sash.session import connect
from sash.testing.changing import Changing, Stay
from sash.testing.programs import programs


@settings(max_examples=2, phases=(Phase.explicit, Phase.generate), suppress_health_check=list(HealthCheck))
@given(data=st.data(), scenario=programs(most_queries=5, most_rows=12))
def test_random_programs(data, scenario):
    stays = [
        data.draw(st.builds(Stay, st.integers(0, 2), st.none() | st.integers(3, 4))) for _ in scenario.queries
    ]
    changing = Changing(scenario, tuple(stays)).ordered()
    batch_rows = max(1, scenario.rows // 4)
    partitions = data.draw(st.sampled_from((1, 2, 5)), "partitions")
    with tempfile.TemporaryDirectory() as directory:
        changing.run(
            Path(directory) / "run",
            runtime="spark",
            master=MASTER,
            batch_rows=batch_rows,
            partitions=partitions,
        )


def test_a_session_takes_a_join_in_while_an_aggregate_runs(tmp_path: Path) -> None:
    write_csv(tmp_path / "s.csv", "t,k,v", [(t, "abc"[t % 3], t) for t in range(1, 61)])
    with connect(tmp_path, master=MASTER, batch_rows=8) as session:
        session.sql("CREATE STREAM s (t BIGINT, k STRING, v BIGINT) TIMESTAMP BY t FROM 'csv:s.csv'")
        sums = session.query("SELECT SUM(v) AS v FROM s [RANGE 10 SEC SLIDE 2 SEC]", max_pending=1)
        pairs = None
        for _ in sums:
            if pairs is None:
                pairs = session.query("SELECT a.v FROM s [RANGE 9 SEC] a, s [RANGE 9 SEC] b WHERE a.k = b.k")
        assert pairs is not None
        # Of the last nine seconds each row is there with the three of its kind.
        assert sorted(row["v"] for row in pairs.latest().to_pylist()) == sorted(3 * list(range(52, 61)))
        assert sums.latest().to_pylist() == [{"v": sum(range(51, 61))}]
