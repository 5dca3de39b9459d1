"""Elastic refresh: the newest boundary is answered when its turn comes; an answer is right for its instant.

   boundary   10    20    30    40    50    60
exact          x     x     x     x     x     x
elastic              x           x           x     a batch brings two boundaries, or there was no time
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.change_logs import at, contents

from sash.engine.engine import Engine
from sash.engine.observe.report import BatchReport, QueryRefreshStats
from sash.engine.periodic import refreshing
from sash.lang import bind_program
from sash.plan.refresh import EXACT, MODES
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


def text(prefix: str, said: Mapping[int, str] | None = None) -> str:
    """The program; some of its queries say themselves how they are refreshed."""
    said = said or {}
    return STREAM + "".join(
        f"CREATE QUERY q{i} INTO 'jsonl:{prefix}{i}.jsonl' AS {select}"
        + (f" WITH (refresh = '{said[i]}');\n" if i in said else ";\n")
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
        self.refreshes: list[dict[str, QueryRefreshStats]] = []

    def batch(self, report: BatchReport) -> None:
        super().batch(report)
        self.refreshes.append(dict(report.measure().refreshes))


@dataclass(frozen=True)
class Modes:
    """How a run refreshes: what `--refresh` says, and what queries say themselves."""

    usual: str
    said: dict[int, str]

    @staticmethod
    def drawn(rng: random.Random) -> Modes:
        # FREQUENT, the last one, is refreshed as the run is.
        said = {i: rng.choice(MODES) for i in range(len(SELECTS) - 1) if rng.random() < 0.4}
        return Modes(rng.choice(MODES), said)

    def is_exact(self, query: int) -> bool:
        return self.said.get(query, self.usual) == EXACT


@settings(max_examples=16)
@given(st.integers(0, 2**32), st.sampled_from(sorted(POLICIES)), st.booleans())
def test_each_answer_is_that_of_its_instant(seed, policy, is_switching):
    """Runs may go on with other kinds of refresh; those that are exact answer every boundary from then on."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        directory = Path(name)
        write_rows(rng, directory)
        run_program(bind_program(text("exact")), base_dir=directory, runtime="inline")
        # Some batches leave time for everything, others for one decision.
        patch.setattr(Engine, "_seconds_left", lambda self, watch: rng.choice((None, 0.0, 0.0, 3.0)))
        patch.setattr(refreshing.Refreshing.__init__, "__kwdefaults__", {"usual": EXACT, "clock": Ticking()})
        batch_rows = rng.randint(2, 12)
        modes, through = Modes.drawn(rng), -1
        answered: dict[int, list[range]] = {i: [] for i in range(len(SELECTS))}
        for stop in (*(rng.randint(1, 4) for _ in range(rng.randint(0, 4))), None):
            monitor = Reports(stop)
            summary = run_program(
                bind_program(text("elastic", modes.said)),
                base_dir=directory,
                runtime="inline",
                checkpoint=directory / "state",
                batch_rows=batch_rows,
                refresh=modes.usual,
                policy=policy,
                monitor=monitor,
                stop=monitor.stop,
            )
            before, through = through, -1 if summary.clock is None else summary.clock
            for i in filter(modes.is_exact, answered):
                answered[i].append(range(before + 1, through + 1))
            if not summary.interrupted:
                break
            if is_switching:
                modes = Modes.drawn(rng)
        for i, select in enumerate(SELECTS):
            is_log = not select.startswith("Rstream")
            right = contents(directory / f"exact{i}.jsonl", is_log)
            given = contents(directory / f"elastic{i}.jsonl", is_log)
            for span in answered[i]:
                assert {t for t in given if t in span} >= {t for t in right if t in span}, select
            for instant, held in given.items():
                assert held == (at(right, instant) if is_log else right.get(instant)), (select, instant)
            reported = monitor.refreshes[-1].get(f"q{i}") if monitor.refreshes else None
            if reported is not None and reported.at is not None and is_log:
                assert at(given, reported.at) == at(right, reported.at), select


def test_what_an_exact_run_answered_is_taken_back_after_a_run_that_had_no_time(tmp_path):
    """After a batch of the elastic runs there is time for one of two queries that are due.

    row     1   2   4  |    6    |    8    |  9
    run       exact    | elastic | elastic | exact
    q0              2  |    4    |         | 6 8
    q1              2  |         |    6    |   8
    """
    program = (
        "CREATE STREAM s (t BIGINT, g BIGINT) TIMESTAMP BY t FROM 'csv:s.csv' WITH (unit = 'us');\n"
        "CREATE QUERY q0 INTO 'jsonl:q0.jsonl' AS SELECT COUNT(*) AS c FROM s [RANGE 8 US SLIDE 2 US];\n"
        "CREATE QUERY q1 INTO 'jsonl:q1.jsonl' AS "
        "SELECT g, COUNT(*) AS c FROM s [RANGE 8 US SLIDE 2 US] GROUP BY g;\n"
    )
    (tmp_path / "s.csv").write_text("t,g\n1,1\n2,1\n4,1\n6,1\n8,1\n9,1\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "_seconds_left", lambda self, watch: 0.0)
        for mode, stop in (("exact", 3), ("elastic", 1), ("elastic", 1), ("exact", None)):
            monitor = StopAfter(stop)
            run_program(
                bind_program(program),
                base_dir=tmp_path,
                runtime="inline",
                checkpoint=tmp_path / "state",
                batch_rows=1,
                refresh=mode,
                policy="edf",
                monitor=monitor,
                stop=monitor.stop,
            )
    held = [contents(tmp_path / f"q{i}.jsonl", is_log=True) for i in range(2)]
    assert [list(each) for each in held] == [[2, 4, 6, 8], [2, 6, 8]]
    assert [bag.total() for each in held for bag in each.values()] == [1] * 7


def test_a_query_asks_for_another_refresh_when_the_run_goes_on_whenever_it_came(tmp_path):
    write_rows(random.Random(1), tmp_path)
    statements = text("e").splitlines(keepends=True)
    came, said = "".join(statements[:3]), "".join(statements[:4])
    elastic = said.replace(";\n", " WITH (refresh = 'elastic', priority = 1);\n").replace(
        "(unit = 'us') WITH (refresh = 'elastic', priority = 1)", "(unit = 'us')"
    )
    modes = []
    for program in (came, said, elastic, said):
        monitor = Reports(2)
        run_program(
            bind_program(program),
            base_dir=tmp_path,
            runtime="inline",
            checkpoint=tmp_path / "state",
            batch_rows=3,
            monitor=monitor,
            stop=monitor.stop,
        )
        modes.append({refreshed.is_elastic for refreshed in monitor.refreshes[-1].values()})
    assert modes == [{False}, {False}, {True}, {False}]


def test_a_stream_that_begins_later_than_the_clock_stands_has_its_turn_when_it_comes(tmp_path):
    # With SLACK the clock stands before the first row for a while.
    (tmp_path / "s.csv").write_text("t,g,k,n,x\n" + "".join(f"{t},1,a,1,\n" for t in (-1, 0, -1, 5, 9, 14)))
    stream = STREAM.replace("BY t", "BY t SLACK 2 US")
    for name, refresh in (("elastic", "elastic"), ("exact", "exact")):
        query = f"CREATE QUERY q INTO 'jsonl:{name}.jsonl' AS {SELECTS[0]} WITH (refresh = '{refresh}');"
        run_program(bind_program(stream + query), base_dir=tmp_path, runtime="inline", batch_rows=1)
    elastic, exact = (contents(tmp_path / f"{name}.jsonl", is_log=True) for name in ("elastic", "exact"))
    assert elastic
    assert elastic == {instant: at(exact, instant) for instant in elastic}
