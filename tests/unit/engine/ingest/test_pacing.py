"""Batches of live streams begin by a trigger, and read what they can answer in time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.connectors.sources import Chunk, Plan, Position, Source
from sash.engine.ingest.feed import Feeder
from sash.engine.ingest.pacing import BatchSize
from sash.engine.sizes import parse_seconds
from sash.errors import UserError
from sash.lang import bind_program
from sash.lang.bound import StreamDefinition
from sash.lang.types import Column, Schema, Type
from sash.runtime.run import run_program

# ------------------------------------------------------------------------ the trigger


class Stream(Source):
    """Rows that are there from a moment on: `rate` a second, or all of them; `total` None: without end."""

    def __init__(self, name: str, now: Callable[[], float], rate: float, total: int | None = None) -> None:
        super().__init__(StreamDefinition(name, Schema((Column("t", Type.BIGINT),)), "t", 1, 0, "test:", ()))
        self.now, self.rate, self.total = now, rate, total
        self.looks = 0

    @property
    def bounded(self) -> bool:
        return self.total is not None

    def check(self) -> None:
        """Always in order."""

    def plan(self, position: Position, max_rows: int, target_rows: int = 1) -> Plan:
        self.looks += 1
        row = position.get("row", 0)
        there = math.inf if math.isinf(self.rate) else int(self.now() * self.rate)
        stop = int(min(row + max_rows, max(there, row), self.total if self.total is not None else math.inf))
        chunks = () if stop == row else (Chunk(self.stream.name, row, "", row, stop - row, row, stop),)
        return Plan(chunks, {"row": stop}, stop == self.total)

    def progress(self, position: Position) -> float | None:
        return None


class Wall:
    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


def batches(
    wall: Wall,
    sources: dict[str, Source],
    trigger: float,
    seconds: float,
    *,
    rows: int = 1000,
    step: float = 0.01,
) -> Iterator[tuple[float, int]]:
    """When batches begin and how many rows they have; a look every `step`."""
    feeder = Feeder(sources, rows, rows, wall, trigger)
    while wall.time < seconds:
        entry = feeder.next(dict.fromkeys(sources))
        if entry is not None:
            yield wall.time, sum(chunk.rows for chunk in entry.chunks)
        wall.time += step


def test_a_live_stream_has_a_batch_a_trigger_and_loses_no_row():
    wall = Wall()
    source = Stream("s", wall, 2000)
    found = list(batches(wall, {"s": source}, 0.1, 10))
    assert 85 <= len(found) <= 101
    assert all(after - before >= 0.1 - 1e-9 for (before, _), (after, _) in itertools.pairwise(found))
    assert 20_000 - 400 <= sum(rows for _, rows in found) <= 20_000


def test_a_stream_that_gives_nothing_is_looked_at_once_a_trigger():
    wall = Wall()
    source = Stream("s", wall, 0)
    assert list(batches(wall, {"s": source}, 0.5, 10)) == []
    assert source.looks <= 21


def test_the_first_row_after_silence_waits_for_one_trigger_at_most():
    wall = Wall()
    source = Stream("s", wall, 1 / 3.14)
    found = list(batches(wall, {"s": source}, 0.25, 20))
    assert len(found) == 6
    assert all(at - 3.14 * number <= 0.25 + 0.02 for number, (at, _) in enumerate(found, start=1))


def test_nobody_waits_for_what_is_there():
    # Behind: ten seconds of rows are there at the start.
    wall = Wall()
    wall.time = 10.0
    found = list(batches(wall, {"s": Stream("s", wall, 2000)}, 5.0, 11))
    caught_up = next(number for number, (_, rows) in enumerate(found) if rows < 1000)
    assert caught_up == 20
    assert found[caught_up][0] < 10.5
    # Bounded input is there.
    wall = Wall()
    found = list(batches(wall, {"s": Stream("s", wall, math.inf, 20_500)}, 5.0, 1))
    assert [rows for _, rows in found] == [1000] * 20 + [500]
    assert found[-1][0] < 0.25


def test_a_bounded_stream_that_waits_for_a_live_one_does_not_make_it_spin():
    wall = Wall()
    sources: dict[str, Source] = {
        "live": Stream("live", wall, 2000),
        "file": Stream("file", wall, math.inf, 1000),
    }
    found = list(batches(wall, sources, 0.1, 10, rows=1000))
    assert len(found) <= 105


# ------------------------------------------------------------------------ the size of a batch


@given(
    st.floats(1e-7, 1e-1),
    st.floats(0, 5),
    st.sampled_from((1.0, 10.0, 60.0)),
    st.integers(1, 2_000_000),
)
def test_batches_come_to_the_bound_and_stay_below_it(cost: float, fixed: float, seconds: float, first: int):
    size = BatchSize(2_000_000, seconds, first)
    took = []
    for _ in range(40):
        rows = size.rows
        assert 1 <= rows <= 2_000_000
        took.append((rows, fixed + cost * rows))
        size.took(*took[-1])
    ideal = max(1.0, min(2_000_000, (seconds - fixed) / cost))
    if fixed < seconds / 4:
        assert took[-1][1] <= max(seconds, fixed + cost)
        # Not much smaller than need be.
        assert took[-1][0] >= min(ideal, 2_000_000) / 8


def test_time_that_does_not_depend_on_the_rows_does_not_make_batches_of_one():
    size = BatchSize(100_000, 10.0, 100_000)
    for _ in range(50):
        size.took(size.rows, 30.0)
    assert size.rows >= 100_000 // 16


def test_a_batch_that_compiles_kernels_says_nothing():
    size = BatchSize(100_000, 10.0, 100_000)
    size.took(100_000, 25.0)
    assert size.rows == 100_000
    size.took(100_000, 25.0)
    assert size.rows == 40_000


def test_few_rows_do_not_make_batches_larger():
    size = BatchSize(1_000_000, 10.0, 1000)
    for _ in range(10):
        size.took(10, 0.001)
    assert size.rows == 1000


def test_without_a_bound_a_batch_has_the_most_rows():
    for seconds in (0, math.inf):
        size = BatchSize(1000, seconds, 10)
        size.took(1000, 1e6)
        assert size.rows == 1000


# ------------------------------------------------------------------------ durations


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("250ms", 0.25),
        ("1s", 1),
        ("2 min", 120),
        ("1.5 SEC", 1.5),
        ("3", 3),
        ("1h", 3600),
        ("none", 0),
        (0.5, 0.5),
    ],
)
def test_durations(text: str | float, seconds: float):
    assert parse_seconds(text, "--trigger") == seconds


@pytest.mark.parametrize("text", ["", "fast", "-1s", "1 fortnight", "ms"])
def test_no_durations(text: str):
    with pytest.raises(UserError, match="is no duration") as caught:
        parse_seconds(text, "--trigger")
    assert "250ms" in caught.value.render()


# ------------------------------------------------------------------------ answers depend on neither


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    return answers(tmp_path_factory.mktemp("undisturbed"), None, 0.0)


def answers(folder: Path, trigger: float | None, max_batch_time: float) -> list[list[str]]:
    pace = "" if trigger is None else ", pace = true"
    program = bind_program(f"""
        CREATE STREAM p (ts TIMESTAMP, src STRING, length BIGINT) TIMESTAMP BY ts SLACK 1 SEC
          FROM 'generator:packets' WITH (rate = 20000, rows = 6000, hosts = 5, disorder = 0.5{pace});
        CREATE QUERY sums INTO 'jsonl:sums.jsonl' AS
          SELECT src, SUM(length) AS n FROM p [RANGE 50 MS SLIDE 20 MS] GROUP BY src;
        CREATE QUERY pairs INTO 'jsonl:pairs.jsonl' AS Istream(SELECT a.length AS x, b.length AS y
          FROM p [RANGE 2 MS] a, p [RANGE 2 MS] b WHERE a.src = b.src);
    """)
    options = {"trigger": trigger, "max_batch_time": max_batch_time, "batch_rows": 1500}
    run_program(program, base_dir=folder, runtime="inline", **options)  # type: ignore[arg-type]
    return [sorted((folder / f"{name}.jsonl").read_text().splitlines()) for name in ("sums", "pairs")]


@pytest.mark.parametrize("trigger", [None, 0.0, 0.02])
@pytest.mark.parametrize("max_batch_time", [1e-6, 0.05])
def test_answers_do_not_depend_on_when_batches_begin_and_how_long_they_take(
    tmp_path: Path, undisturbed: list[list[str]], trigger: float | None, max_batch_time: float
) -> None:
    assert all(len(lines) > 50 for lines in undisturbed)
    assert answers(tmp_path, trigger, max_batch_time) == undisturbed
