"""Join queries that come into a run and read a join synopsis that is there give what the oracle says.

Their windows are shorter or longer than those that were kept before; hosts and guests go at random, so that a
synopsis becomes shorter, and longer again; runs are stopped and go on.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracle.test_join_synopses import SOURCES, SUBTRACTABLE, stream

from sash.lang.intervals import write
from sash.synopses.joined import aggregates
from sash.testing.changing import Changing, Stay
from sash.testing.scenario import Scenario
from sash.testing.streams import Clock

# Measures that cannot be subtracted, strings among them.
OTHERS = ("MIN(a.k)", "MAX(b.x)", "SUM(a.x)")
SHORT = ((2, 2, 2), (4, 4, 2), (6, 4, 2), (3, 3, 1))
WINDOWS = (*SHORT, (8, 8, 2), (6, 8, 2), (12, 12, 4), (16, 14, 2), (20, 20, 2))


def query(number: int, source: tuple[str, str, str], calls: list[str], rng: random.Random) -> str:
    read, where, keys = source
    lengths = rng.choice(WINDOWS if number else SHORT)
    first, second, slide = (write(ticks * Clock.SECONDS.tick) for ticks in lengths)
    windows = [f"[RANGE {length} SLIDE {slide}]" for length in (first, second)]
    shown = [f"{key} AS c{i}" for i, key in enumerate(key for key in keys.split(", ") if key)]
    shown += [f"{call} AS d{i}" for i, call in enumerate(calls)]
    text = f"SELECT {', '.join(shown)} {read.format(*windows)} WHERE {where}"
    if keys:
        text += f" GROUP BY {keys}{rng.choice(('', '', ' HAVING COUNT(*) > 1'))}"
    if rng.random() < 0.3:
        text = f"{rng.choice(('Rstream', 'Istream', 'Dstream'))}({text})"
    return f"CREATE QUERY q{number} INTO 'jsonl:q{number}.jsonl' AS {text};\n"


def workload(rng: random.Random) -> Changing:
    """The first query has all measures; the others ask for some of them, and come one after the other."""
    source = rng.choice(SOURCES)
    calls = [*SUBTRACTABLE, *rng.choice(((), OTHERS))]
    queries, stays = [query(0, source, calls, rng)], [Stay(0, rng.choice((None, rng.randint(2, 6))))]
    for number in range(1, rng.randint(2, 6)):
        queries.append(query(number, source, rng.sample(calls, rng.randint(1, 3)), rng))
        comes = rng.randint(0, 6)
        stays.append(Stay(comes, rng.choice((None, comes + rng.randint(1, 4)))))
    streams = (stream("s", Clock.SECONDS, rng), stream("r", Clock.SECONDS, rng))
    return Changing(Scenario(streams, tuple(queries)), tuple(stays))


@settings(max_examples=20)
@given(
    seed=st.integers(0, 2**32),
    partitions=st.sampled_from((None, 1, 3)),
    most_bytes=st.sampled_from((aggregates.MOST_BYTES, 1 << 11)),
)
def test_join_queries_that_come_later_are_right(seed, partitions, most_bytes):
    rng = random.Random(seed)
    stops = rng.choice((None, [rng.randint(1, 3) for _ in range(rng.randint(1, 3))]))
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(aggregates, "MOST_BYTES", most_bytes)
        workload(rng).run(
            Path(directory) / "run",
            batch_rows=rng.randint(1, 6),
            partitions=partitions,
            interruptions=stops,
        )
