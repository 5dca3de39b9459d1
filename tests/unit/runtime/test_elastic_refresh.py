"""Elastic refresh: the newest boundary is answered when its turn comes; an answer is right for its instant.

   boundary   10    20    30    40    50    60
exact          x     x     x     x     x     x
elastic              x           x           x     a batch brings two boundaries, or there was no time
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Collection
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.change_logs import at, contents

from sash.errors import CheckpointError
from sash.lang import bind_program
from sash.runtime import refreshing
from sash.runtime.engine import Engine
from sash.runtime.report import BatchReport, Refreshed
from sash.runtime.run import run_program
from sash.scheduling import POLICIES
from sash.testing.runs import StopAfter

STREAM = (
    "CREATE STREAM s (t BIGINT, g BIGINT, k STRING, n BIGINT, x DOUBLE) "
    "TIMESTAMP BY t FROM 'csv:s.csv' WITH (unit = 'us');\n"
)
SELECTS = (
    "SELECT g, COUNT(*) AS c, SUM(n) AS s FROM s [RANGE 6 US SLIDE 2 US] GROUP BY g",
    "Rstream(SELECT g, MAX(n) AS m, SUM(x) AS s FROM s [RANGE 6 US SLIDE 3 US] GROUP BY g)",
    "SELECT COUNT(*) AS c, MIN(n) AS m FROM s [RANGE 9 US SLIDE 3 US] WHERE k = 'a'",
    "SELECT COUNT(*) AS c FROM s [RANGE 9 US SLIDE 3 US] WHERE k = 'b'",
    "SELECT COUNT(*) AS c FROM s [RANGE 9 US SLIDE 9 US] WHERE k IN ('a', 'b')",
    "SELECT g, MEDIAN(n) AS m FROM s [RANGE 8 US SLIDE 4 US] GROUP BY g",
    "Rstream(SELECT FREQUENT(n, 2) AS f FROM s [RANGE 8 US SLIDE 4 US])",
)


def text(prefix: str, elastic: Collection[int] = ()) -> str:
    """The program; some of its queries say themselves that they are refreshed elastically."""
    return STREAM + "".join(
        f"CREATE QUERY q{i} INTO 'jsonl:{prefix}{i}.jsonl' AS {select}"
        + (" WITH (refresh = 'elastic');\n" if i in elastic else ";\n")
        for i, select in enumerate(SELECTS)
    )


def write_rows(rng: random.Random, directory: Path) -> None:
    lines, time = ["t,g,k,n,x"], 0
    for _ in range(rng.randint(20, 60)):
        time += rng.choice((0, 0, 1, 1, 2, 12 if rng.random() < 0.1 else 1))
        n, x = rng.choice(("", *range(6))), rng.choice(("", 0.5, -2.0))
        lines.append(f"{time},{rng.choice(('', 1, 2))},{rng.choice('abc')},{n},{x}")
    (directory / "s.csv").write_text("\n".join(lines) + "\n")


class Ticking:
    """A clock on which everything takes a while."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


class Reports(StopAfter):
    def __init__(self, batches: int | None = None) -> None:
        super().__init__(batches)
        self.refreshes: list[dict[str, Refreshed]] = []

    def batch(self, report: BatchReport) -> None:
        super().batch(report)
        self.refreshes.append(dict(report.measure().refreshes))


@settings(max_examples=12)
@given(st.integers(0, 2**32), st.sampled_from(sorted(POLICIES)), st.sets(st.sampled_from(range(6))))
def test_each_answer_is_that_of_its_instant(seed, policy, elastic):
    """All queries are elastic, or some, and then the others are answered at every boundary."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        directory = Path(name)
        write_rows(rng, directory)
        run_program(bind_program(text("exact")), base_dir=directory, runtime="inline")
        # Some batches leave time for everything, others for one decision.
        patch.setattr(Engine, "_seconds_left", lambda self, watch: rng.choice((None, 0.0, 3.0)))
        patch.setattr(
            refreshing.Refreshing.__init__, "__kwdefaults__", {"is_elastic": False, "clock": Ticking()}
        )
        batch_rows = rng.randint(2, 12)
        for stop in (*(rng.randint(1, 4) for _ in range(rng.randint(0, 2))), None):
            monitor = Reports(stop)
            summary = run_program(
                bind_program(text("elastic", elastic)),
                base_dir=directory,
                runtime="inline",
                checkpoint=directory / "state",
                batch_rows=batch_rows,
                refresh="exact" if elastic else "elastic",
                policy=policy,
                monitor=monitor,
                stop=monitor.stop,
            )
            if not summary.interrupted:
                break
        for i, select in enumerate(SELECTS):
            is_log = not select.startswith("Rstream")
            right = contents(directory / f"exact{i}.jsonl", is_log)
            given = contents(directory / f"elastic{i}.jsonl", is_log)
            if elastic and i not in elastic:
                assert given == right, select
            for instant, held in given.items():
                assert held == (at(right, instant) if is_log else right.get(instant)), (select, instant)
            reported = monitor.refreshes[-1].get(f"q{i}") if monitor.refreshes else None
            if reported is not None and reported.at is not None and is_log:
                assert at(given, reported.at) == at(right, reported.at), select


def test_a_checkpoint_goes_on_with_the_refresh_that_it_was_begun_with(tmp_path):
    write_rows(random.Random(1), tmp_path)
    options = {"base_dir": tmp_path, "runtime": "inline", "checkpoint": tmp_path / "state", "batch_rows": 5}
    monitor = StopAfter(2)
    run_program(bind_program(text("e")), refresh="elastic", monitor=monitor, stop=monitor.stop, **options)
    with pytest.raises(CheckpointError, match="--refresh elastic"):
        run_program(bind_program(text("e")), **options)
