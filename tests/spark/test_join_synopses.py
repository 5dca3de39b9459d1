"""Join synopses in the partitions of a Spark run: queries that share them, come and go, and a restart."""

from __future__ import annotations

import random

from sash.plan.run_plan import plan_run
from sash.testing.changing import Changing, Stay
from sash.testing.scenario import Scenario
from sash.testing.streams import Clock, MadeRow, MadeStream


def stream(name: str, rng: random.Random) -> MadeStream:
    times = sorted(rng.randint(0, 40) for _ in range(40))
    rows = [MadeRow(t, rng.choice("pqr"), rng.randint(1, 4), rng.randint(-5, 5)) for t in times]
    return MadeStream(name, Clock.SECONDS, 0, "csv", tuple(rows))


def test_queries_that_share_a_join_synopsis_on_spark(tmp_path):
    rng = random.Random(7)
    asked = (
        ("s.k AS key, COUNT(*) AS c", 8, 8, 2, " GROUP BY s.k"),
        ("s.k AS key, SUM(r.n) AS c", 6, 10, 2, " GROUP BY s.k"),
        ("MAX(r.n) AS c, AVG(s.n) AS d", 12, 4, 4, ""),
        # They come later: between two runs, with longer windows, and in a run.
        ("s.k AS key, COUNT(*) AS c", 12, 12, 2, " GROUP BY s.k"),
        ("s.k AS key, AVG(r.n) AS c", 4, 4, 4, " GROUP BY s.k"),
    )
    queries = tuple(
        f"CREATE QUERY q{i} INTO 'jsonl:q{i}.jsonl' AS SELECT {shown} FROM s [RANGE {first} SEC "
        f"SLIDE {slide} SEC], r [RANGE {second} SEC SLIDE {slide} SEC] WHERE s.g = r.g{keys};\n"
        for i, (shown, first, second, slide, keys) in enumerate(asked)
    )
    scenario = Scenario((stream("s", rng), stream("r", rng)), queries)
    changing = Changing(scenario, (Stay(0), Stay(0, 3), Stay(0), Stay(2), Stay(3)))
    assert [join.queries for join in plan_run(changing.program_at(0)).joins] == [("q0", "q1"), ("q2",)]
    changing.run(tmp_path / "run", runtime="spark", batch_rows=20, partitions=2, interruptions=[2])
