"""HAVING queries that come and go in runs that stop and go on: answers do not depend on how groups are found.

What they are compared with is a run of one query at a time, without families, selections and indexes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.change_logs import at, contents
from tests.oracle.test_guests import STREAM

from sash.engine.control_channel import ControlChannel, Served
from sash.engine.engine import Engine
from sash.engine.periodic import groups
from sash.lang import Program, bind_program
from sash.plan.filter_choice import FilterChoice
from sash.runtime.run import run_program
from sash.synopses import families
from sash.synopses.selection import Selection
from sash.testing.runs import StopAfter, bound

CONDITIONS = (
    "COUNT(*) > {}",
    "SUM(n) >= {}",
    "MAX(n) > {}",
    "MIN(n) <= {}",
    "COUNT(n) < {}",
    "SUM(n) < {}.5",
)
SLIDE = 2


@dataclass(frozen=True)
class Made:
    """Queries by name, which are there from a batch on and until another."""

    selects: dict[str, str]
    stays: dict[str, tuple[int, int]]
    rows: tuple[tuple[int, int, int | None], ...]
    batch_rows: int
    stops: tuple[int, ...]

    def program(self, batch: int) -> Program:
        there = (name for name, (comes, goes) in self.stays.items() if comes <= batch < goes)
        return bound(STREAM + "".join(self.query(name) for name in there))

    def query(self, name: str, folder: str = "run") -> str:
        return f"CREATE QUERY {name} INTO 'jsonl:{folder}/{name}.jsonl' AS {self.selects[name]};\n"


@st.composite
def made(draw: st.DrawFn) -> Made:
    selects, stays = {}, {}
    for number in range(draw(st.integers(1, 3))):
        condition, operator = draw(st.sampled_from(CONDITIONS)), draw(st.sampled_from(("{}", "Rstream({})")))
        window = f"[RANGE {draw(st.integers(2, 9))} US SLIDE {SLIDE} US]"
        for member, threshold in enumerate(draw(st.lists(st.integers(0, 4), min_size=1, max_size=5))):
            having = condition.format(threshold)
            select = f"SELECT g, COUNT(*) AS c, MAX(n) AS m FROM s {window} GROUP BY g HAVING {having}"
            name = f"q{number}_{member}"
            selects[name] = operator.format(select)
            comes = draw(st.sampled_from((0, 0, 0, 1, 3))) if selects else 0
            stays[name] = comes, draw(st.sampled_from((100, 100, comes + 2)))
    stays["q0_0"] = 0, 100
    least = draw(st.sampled_from((-2, 0)))
    times = sorted(draw(st.lists(st.integers(0, 40), min_size=4, max_size=40)))
    values = st.none() | st.integers(least, 5)
    rows = tuple((t, draw(st.integers(0, 3)), draw(values)) for t in times)
    stops = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    return Made(selects, stays, rows, draw(st.integers(2, 6)), stops)


class Schedule(ControlChannel):
    def __init__(self, example: Made, batch: int) -> None:
        super().__init__()
        self.example, self.batch = example, batch

    def serve(self, run: Served) -> None:
        assert isinstance(run, Engine)
        batch = run.taken + 1
        if self.example.program(batch) != self.example.program(self.batch):
            run.change(self.example.program(batch))
        self.batch = batch


@contextmanager
def by_indexes() -> Iterator[None]:
    with ExitStack() as stack:
        always = FilterChoice(True, "always")
        stack.enter_context(patch.object(groups, "choose_filters", lambda *given: always))
        stack.enter_context(patch.object(groups, "_ANSWERS_PER_CHOICE", 1))
        stack.enter_context(patch.object(families, "LEAST_MEMBERS", 2))
        yield


@contextmanager
def one_by_one() -> Iterator[None]:
    with (
        patch.object(Selection, "of", lambda selects: None),
        patch.object(families, "LEAST_MEMBERS", 1000),
    ):
        yield


@settings(max_examples=40)
@given(made())
def test_indexes_and_families_give_what_queries_give_one_by_one(example):
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        cells = ((t, g, "" if n is None else n) for t, g, n in example.rows)
        (directory / "s.csv").write_text("t,g,n\n" + "".join(f"{t},{g},{n}\n" for t, g, n in cells))
        with by_indexes():
            clock = run_changing(example, directory)
        with one_by_one():
            texts = "".join(example.query(each, "alone") for each in example.selects)
            run_program(bind_program(STREAM + texts), base_dir=directory, runtime="inline")
        last = clock // SLIDE * SLIDE
        for each, (comes, goes) in example.stays.items():
            if not (directory / f"run/{each}.jsonl").exists():
                continue
            is_log = not example.selects[each].startswith("Rstream")
            got, whole = (
                contents(directory / folder / f"{each}.jsonl", is_log) for folder in ("run", "alone")
            )
            if comes == 0 and goes == 100:
                assert got == whole
            elif goes == 100 and is_log:
                assert at(got, last) == at(whole, last), "a query that came later has whole windows"
            elif goes == 100:
                assert all(whole[instant] == bag for instant, bag in got.items())


def run_changing(example: Made, directory: Path) -> int:
    """Run to the end of the input, stopping where the example says; gives the clock at the end."""
    batch = 0
    for stop in (*example.stops, None):
        monitor = StopAfter(stop)
        summary = run_program(
            example.program(batch),
            base_dir=directory,
            runtime="inline",
            checkpoint=directory / "state",
            batch_rows=example.batch_rows,
            monitor=monitor,
            stop=monitor.stop,
            control=Schedule(example, batch),
        )
        batch = summary.batches
        if not summary.interrupted:
            break
    assert summary.clock is not None
    return summary.clock
