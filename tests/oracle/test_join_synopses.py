"""Aggregates over joins that share a join synopsis give what the oracle says, whatever else is asked.

Queries over the same join with windows of other lengths, slides and aggregates come and go at random; runs
are stopped and go on; operators run in one place or in several.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.lang.intervals import write
from sash.plan.run_plan import plan_run
from sash.synopses.joined import aggregates
from sash.testing.changing import Changing, Stay
from sash.testing.scenario import Scenario
from sash.testing.streams import Clock, MadeRow, MadeStream

FROM = "FROM s {0} AS a, r {1} AS b"
SOURCES = (
    (FROM, "a.g = b.g", "a.k"),
    (FROM, "a.g = b.g AND a.n < 4", "b.k, a.g"),
    (FROM, "a.g = b.g AND a.n < b.n", ""),
    ("FROM s {0} AS a, s {1} AS b", "a.g = b.g", "b.k"),
    (FROM, "a.n < b.n", "a.g"),
    (FROM, "a.g = b.g", "a.n, b.n"),
)
SUBTRACTABLE = ("COUNT(*)", "COUNT(a.n)", "SUM(b.n)", "AVG(a.n + 1)")
ALL = (*SUBTRACTABLE, "SUM(b.x)", "MIN(a.k)", "MAX(b.x)", "MAX(a.n)", "MIN(b.at)", "AVG(a.x)")
CLOCKS = (Clock.SECONDS, Clock.MILLISECONDS, Clock.TIMESTAMP)
WINDOWS = ((4, 4, 2), (8, 8, 2), (6, 8, 2), (8, 4, 4), (9, 3, 3), (1, 1, 1), (5, 7, 2))


def stream(name: str, clock: Clock, rng: random.Random) -> MadeStream:
    rows, time = [], 0
    for _ in range(rng.randint(3, 14)):
        time += rng.choice((0, 0, 1, 1, 2, 3, 40 if rng.random() < 0.1 else 1))
        values = {
            "k": rng.choice((None, "p", "q", "é")),
            "g": rng.choice((None, 1, 1, 2)),
            "n": rng.choice((None, *range(6), 2**40)),
            "x": rng.choice((None, 0.5, 1.25, -2.0, 1e6)),
            "at": rng.choice((None, 0, 10**15)),
        }
        rows.append(MadeRow(time, **values))
    retain = rng.choice((None, None, 6 * clock.tick))
    return MadeStream(name, clock, 0, rng.choice(("csv", "parquet")), tuple(rows), retain=retain)


def select(source: tuple[str, str, str], clock: Clock, rng: random.Random) -> str:
    read, where, keys = source
    first, second, slide = (write(ticks * clock.tick) for ticks in rng.choice(WINDOWS))
    names = [key for key in keys.split(", ") if key]
    calls = rng.sample(SUBTRACTABLE if rng.random() < 0.5 else ALL, rng.randint(1, 3))
    shown = [f"{key} AS c{i}" for i, key in enumerate(names)]
    shown += [f"{call} AS d{i}" for i, call in enumerate(calls)]
    windows = [f"[RANGE {length} SLIDE {slide}]" for length in (first, second)]
    if names and rng.random() < 0.2:
        # Groups are looked at without their keys, so equal rows of different groups meet.
        shown = [f"DISTINCT {shown[-1]}"]
    text = f"SELECT {', '.join(shown)} {read.format(*windows)} WHERE {where}"
    if names:
        text += f" GROUP BY {keys}"
        having = " HAVING a.n < b.n" if len(names) > 1 and names[1] == "b.n" else " HAVING COUNT(*) > 1"
        text += rng.choice(("", "", having, f" HAVING {names[0]} IS NOT NULL"))
    return f"{rng.choice(('Rstream', 'Istream', 'Dstream'))}({text})" if rng.random() < 0.3 else text


def workload(rng: random.Random) -> Changing:
    clock, source = rng.choice(CLOCKS), rng.choice(SOURCES)
    queries = tuple(
        f"CREATE QUERY q{i} INTO 'jsonl:q{i}.jsonl' AS {select(source, clock, rng)};\n"
        for i in range(rng.randint(2, 5))
    )
    stays = tuple(
        Stay(rng.choice((0, 0, 0, 2)), rng.choice((None, None, rng.randint(3, 6)))) for _ in queries
    )
    other = rng.choice((clock, Clock.COARSE_TIMESTAMP)) if clock is Clock.SECONDS else clock
    streams = (stream("s", clock, rng), stream("r", other, rng))
    return Changing(Scenario(streams, queries), stays)


@pytest.mark.parametrize("most_bytes", [aggregates.MOST_BYTES, 1 << 11], ids=["cells", "rows"])
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32), partitions=st.sampled_from((None, 1, 3)))
def test_queries_that_share_a_join_synopsis_are_right(monkeypatch_module, most_bytes, seed, partitions):
    monkeypatch_module.setattr(aggregates, "MOST_BYTES", most_bytes)
    rng = random.Random(seed)
    changing = workload(rng)
    assert plan_run(changing.scenario.program).joins
    stops = rng.choice((None, [rng.randint(1, 4) for _ in range(rng.randint(1, 3))]))
    with tempfile.TemporaryDirectory() as directory:
        changing.run(
            Path(directory) / "run",
            batch_rows=rng.randint(1, 8),
            partitions=partitions,
            interruptions=stops,
        )


@pytest.fixture(scope="module")
def monkeypatch_module():
    with pytest.MonkeyPatch.context() as patch:
        yield patch
