"""Queries that are put together from the synopses of others answer as if each ran alone.

Queries with overlapping conditions come and go at random; runs are stopped and go on.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.change_logs import at, contents

from sash.engine.control_channel import ControlChannel, Served
from sash.engine.engine import Engine
from sash.lang import Program, bind_program
from sash.runtime.run import run_program
from sash.testing.runs import StopAfter, bound

STREAM = (
    "CREATE STREAM s (t BIGINT, g BIGINT, k STRING, n BIGINT, x DOUBLE) "
    "TIMESTAMP BY t FROM 'csv:s.csv' WITH (unit = 'us');\n"
)
CONDITIONS = (
    ("k = 'a'", "k = 'b'", "k = 'a' OR k = 'b'", "k IN ('b', 'c')", "k IN ('a', 'b', 'c')", "k = 'c'"),
    ("n < 3", "n < 1", "n BETWEEN 1 AND 2", "n <= 2", "NOT (n < 3)", "n IS NOT NULL"),
    ("", "k = 'a'", "k <> 'a' OR k IS NULL", "k = 'a' AND n < 3", "k <> 'a'", "k IS NULL"),
)
"""Families of conditions, in which each of the first three follows from the other two."""
AGGREGATES = ("COUNT(*)", "COUNT(n)", "SUM(n)", "AVG(n)", "SUM(x)", "MIN(n)", "MAX(x)")
WINDOWS = (((4, 2), (6, 2), (12, 4)), ((6, 3), (9, 3)), ((5, 2), (4, 2), (9, 4)))


@dataclass(frozen=True)
class Query:
    """It is there from the batch `begin` on, and until before the batch `end`, if there is one."""

    name: str
    select: str
    slide: int
    begin: int
    end: int | None

    @property
    def text(self) -> str:
        return f"CREATE QUERY {self.name} INTO 'jsonl:{self.name}.jsonl' AS {self.select};\n"


@dataclass
class Life:
    since: int | None
    until: int | None = None
    is_whole: bool = False


@dataclass(eq=False)
class Schedule(ControlChannel):
    queries: tuple[Query, ...]
    lives: dict[str, Life] = field(default_factory=dict)
    at: int = 0
    covered: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def program(self, batch: int) -> Program:
        there = (q.text for q in self.queries if q.begin <= batch and (q.end is None or batch < q.end))
        return bound(STREAM + "CREATE QUERY always INTO 'noop:' AS SELECT * FROM s [NOW];\n" + "".join(there))

    def serve(self, run: Served) -> None:
        assert isinstance(run, Engine)
        batch = run.taken + 1
        if self.program(batch) != self.program(self.at):
            run.change(self.program(batch))
        self.at = batch
        run.settle()
        specs = {spec.name: spec for part in run.executor.parts.values() for spec in part.origin.synopses}
        there = set()
        for part in run.executor.parts.values():
            own = {spec.name for spec in part.origin.synopses}
            for query in part.plan.queries:
                there.add(query.name)
                if query.name not in self.lives:
                    bases = specs[query.synopsis].bases
                    # Whoever is put together from what was there has whole windows, as has who came first.
                    is_cover = len(bases) > 1
                    self.covered += is_cover
                    is_whole = run.taken < 0 or (is_cover and not own >= set(bases))
                    self.lives[query.name] = Life(part.since, is_whole=is_whole)
        for name, life in self.lives.items():
            if name not in there and life.until is None:
                life.until = run.executor.watermarks["always"]


def workload(rng: random.Random) -> tuple[Query, ...]:
    queries = []
    keys, aggregates = rng.choice(("", "g")), rng.sample(AGGREGATES, 2)
    conditions, windows = rng.choice(CONDITIONS), rng.choice(WINDOWS)
    for number in range(rng.randint(4, 10)):
        is_early = number < 2
        chosen = aggregates if is_early else rng.sample(aggregates, rng.randint(1, 2))
        shown = ", ".join(f"{a} AS c{i}" for i, a in enumerate(chosen))
        where = conditions[number] if number < 3 else rng.choice(conditions)
        range_, slide = windows[0] if number < 3 else rng.choice(windows)
        select = (
            f"SELECT {keys + ', ' if keys else ''}{shown} FROM s [RANGE {range_} US SLIDE {slide} US]"
            + (f" WHERE {where}" if where else "")
            + (" GROUP BY g" if keys else "")
        )
        if rng.random() < 0.2:
            select = f"Rstream({select})"
        begin = 0 if is_early or rng.random() < 0.5 else rng.randint(1, 5)
        end = None if rng.random() < 0.6 else rng.randint(begin + 1, begin + 6) + 2 * is_early
        queries.append(Query(f"q{number}", select, slide, begin, end))
    return tuple(queries)


def beside(rng: random.Random) -> tuple[Query, ...]:
    """Two queries that come one after the other, and one that asks for what both have."""
    keys = rng.choice(("", "g"))
    one, two = rng.sample(AGGREGATES[2:], 2)
    where = rng.choice((" WHERE n < 3", " WHERE n <= 2", ""))
    queries = []
    for number, (shown, begin) in enumerate(((one, 0), (two, 1), (f"{one} AS c, {two}", rng.randint(3, 6)))):
        select = f"SELECT {keys + ', ' if keys else ''}{shown} AS d FROM s [RANGE 4 US SLIDE 2 US]{where}"
        select += " GROUP BY g" if keys else ""
        queries.append(Query(f"q{number}", select, 2, begin, None))
    return tuple(queries)


def rows(rng: random.Random) -> str:
    lines, time = ["t,g,k,n,x"], 0
    for _ in range(rng.randint(10, 40)):
        time += rng.choice((0, 0, 1, 1, 2, 15 if rng.random() < 0.1 else 1))
        k, n = rng.choice(("a", "b", "c", "d", "")), rng.choice(("", *range(6)))
        lines.append(f"{time},{rng.choice(('', 1, 2, 3))},{k},{n},{rng.choice(('', 0.5, 1.25, -2.0))}")
    return "\n".join(lines) + "\n"


def covered_and_right(
    seed: int,
    directory: Path,
    made: Callable[[random.Random], tuple[Query, ...]] = workload,
    limit: int | None = None,
) -> int:
    """Run a workload, compare whole windows with those of queries that run alone; how many were covered.

    With a `limit` there are partitions, for groupings that have more groups.
    """
    rng = random.Random(seed)
    directory.mkdir()
    (directory / "s.csv").write_text(rows(rng))
    schedule = Schedule(made(rng))
    batch_rows = rng.randint(2, 9)
    for stop in (*(rng.randint(1, 4) for _ in range(rng.randint(0, 3))), None):
        monitor = StopAfter(stop)
        summary = run_program(
            schedule.program(schedule.at),
            base_dir=directory,
            runtime="inline",
            checkpoint=directory / "state",
            batch_rows=batch_rows,
            partitions=None if limit is None else 2,
            max_driver_groups=limit,
            monitor=monitor,
            stop=monitor.stop,
            control=schedule,
        )
        if not summary.interrupted:
            break
        schedule.at = summary.batches
    assert summary.clock is not None
    alone = [q for q in schedule.queries if q.name in schedule.lives and schedule.lives[q.name].is_whole]
    # Each has a stream of its own, so they share nothing.
    texts = [
        STREAM.replace(" s (", f" s{i} (")
        + query.text.replace("jsonl:", "jsonl:alone-").replace("FROM s ", f"FROM s{i} ")
        for i, query in enumerate(alone)
    ]
    if alone:
        run_program(bind_program("".join(texts)), base_dir=directory, runtime="inline")
    for query in alone:
        life, is_log = schedule.lives[query.name], not query.select.startswith("Rstream")
        given = contents(directory / f"{query.name}.jsonl", is_log)
        right = contents(directory / f"alone-{query.name}.jsonl", is_log)
        since = -1 if life.since is None else life.since
        until = summary.clock if life.until is None else life.until
        boundaries = range(-(-(since + 1) // query.slide) * query.slide, until + 1, query.slide)
        for boundary in boundaries:
            if is_log:
                assert at(given, boundary) == at(right, boundary), (seed, query, boundary)
            else:
                assert given.get(boundary) == right.get(boundary), (seed, query, boundary)
    return schedule.covered


@settings(max_examples=12)
@given(st.integers(0, 2**32), st.sampled_from((None, 0, 2)))
def test_shared_execution_answers_as_separate_execution(tmp_path_factory, seed, limit):
    covered_and_right(seed, tmp_path_factory.mktemp("run") / "shared", limit=limit)


def test_a_query_is_read_from_synopses_that_have_its_measures_together(tmp_path):
    limits = (None, 0)
    covered = [covered_and_right(seed, tmp_path / str(seed), beside, limits[seed % 2]) for seed in range(24)]
    assert sum(covered) >= 8
