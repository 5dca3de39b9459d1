"""Runs of random programs that are killed give what undisturbed ones give: `make chaos` in short."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sash.testing.chaos import Chaos, Tally

SEED = 20


@contextmanager
def chaos(spark: float, most_kills: int) -> Iterator[tuple[Chaos, list[str]]]:
    said: list[str] = []
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="sash-chaos-")))
        made = Chaos(folder, SEED, said.append, spark=spark, most_kills=most_kills)
        yield held.enter_context(made), said


def test_killed_in_one_process_or_in_partitions():
    with chaos(spark=0, most_kills=5) as (disturb, said):
        tally = disturb.run(lambda tally: tally.kills.total() >= 12 or bool(tally.failures))
    assert tally.failures == [], "\n".join(said)
    assert tally.programs >= 3


def test_killed_on_spark():
    def is_over(tally: Tally) -> bool:
        return tally.kills.total() >= 1 or bool(tally.failures)

    with chaos(spark=1, most_kills=2) as (disturb, said):
        tally = disturb.run(is_over)
    assert tally.failures == [], "\n".join(said)
