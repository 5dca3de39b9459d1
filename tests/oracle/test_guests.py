"""Periodic queries that come later and read a synopsis that is there: whole windows from the next slide."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
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
    "CREATE STREAM s (t BIGINT, g BIGINT, n BIGINT) TIMESTAMP BY t FROM 'csv:s.csv' WITH (unit = 'us');\n"
)
AGGREGATES = (
    *("COUNT(*)", "SUM(n)", "MAX(n)", "AVG(n)", "MIN(n)"),
    *("MEDIAN(n)", "COUNT(DISTINCT n)", "TOP(n, 2)", "FREQUENT(n, 2)"),
)


@dataclass(frozen=True)
class Made:
    """A query from the start, its twin that comes later, and one that shares its synopsis meanwhile."""

    select: str
    other: str
    rows: tuple[tuple[int, int, int], ...]
    comes: int
    goes: int | None
    batch_rows: int
    stops: tuple[int, ...]
    limit: int | None

    def program(self, batch: int) -> Program:
        queries = []
        if self.goes is None or batch < self.goes:
            queries.append(f"CREATE QUERY q INTO 'jsonl:q.jsonl' AS {self.select};\n")
        queries.append(f"CREATE QUERY other INTO 'noop:' AS {self.other};\n")
        if batch >= self.comes:
            queries.append(f"CREATE QUERY late INTO 'jsonl:late.jsonl' AS {self.select};\n")
        return bound(STREAM + "".join(queries))


@st.composite
def made(draw: st.DrawFn) -> Made:
    aggregates = draw(st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=3, unique=True))
    shown = ", ".join(f"{a} AS c{i}" for i, a in enumerate(aggregates))
    is_grouped = draw(st.booleans())
    slide = draw(st.sampled_from((1, 2, 3)))
    window = f"[RANGE {draw(st.integers(1, 9))} US SLIDE {slide} US]"
    having = draw(st.sampled_from(("", " HAVING COUNT(*) > 1"))) if is_grouped else ""
    keys = "g, " if is_grouped else ""
    select = f"SELECT {keys}{shown} FROM s {window}{' GROUP BY g' if is_grouped else ''}{having}"
    if draw(st.booleans()):
        select = f"Rstream({select})"
    times = sorted(draw(st.lists(st.integers(0, 40), min_size=4, max_size=30)))
    rows = tuple((t, draw(st.integers(0, 2)), draw(st.integers(-3, 5))) for t in times)
    comes = draw(st.integers(1, 5))
    goes = draw(st.none() | st.integers(comes, comes + 2))
    stops = tuple(draw(st.lists(st.integers(1, 4), max_size=3)))
    other = f"SELECT SUM(n) AS n FROM s {window}"
    limit = draw(st.sampled_from((None, 0, 1)))
    return Made(select, other, rows, comes, goes, draw(st.integers(1, 6)), stops, limit)


class Schedule(ControlChannel):
    def __init__(self, example: Made, batch: int) -> None:
        super().__init__()
        self.example, self.batch = example, batch
        self.since: int | None = None
        self.has_come = self.is_guest = False

    def serve(self, run: Served) -> None:
        assert isinstance(run, Engine)
        batch = run.taken + 1
        if self.example.program(batch) != self.example.program(self.batch):
            run.change(self.example.program(batch))
        self.batch = batch
        for part in run.executor.parts.values():
            if any(query.name == "late" for query in part.plan.queries):
                self.has_come, self.since = True, part.since
                self.is_guest = part.number > 0 and not part.origin.synopses


@settings(max_examples=40)
@given(made())
def test_a_query_that_a_synopsis_covers_has_whole_windows_at_once(example):
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        lines = "".join(f"{t},{g},{n}\n" for t, g, n in example.rows)
        (directory / "s.csv").write_text("t,g,n\n" + lines)
        batch = 0
        for stop in (*example.stops, None):
            monitor, control = StopAfter(stop), Schedule(example, batch)
            summary = run_program(
                example.program(batch),
                base_dir=directory,
                runtime="inline",
                checkpoint=directory / "state",
                batch_rows=example.batch_rows,
                # Some of them are divided among partitions.
                partitions=None if example.limit is None else 2,
                max_driver_groups=example.limit,
                monitor=monitor,
                stop=monitor.stop,
                control=control,
            )
            batch = summary.batches
            if not summary.interrupted:
                break
        run_program(
            bind_program(STREAM + f"CREATE QUERY q INTO 'jsonl:whole.jsonl' AS {example.select};\n"),
            base_dir=directory,
            runtime="inline",
        )
        if not control.has_come:
            return
        assert control.is_guest or (example.goes is not None and example.goes <= example.comes) or batch == 0
        if not control.is_guest:
            return
        is_log = not example.select.startswith("Rstream")
        whole, late = contents(directory / "whole.jsonl", is_log), contents(directory / "late.jsonl", is_log)
        since = -1 if control.since is None else control.since
        assert all(instant > since for instant in late)
        assert summary.clock is not None
        slide = int(example.select.split("SLIDE ")[1].split()[0])
        for boundary in range(-(-(since + 1) // slide) * slide, summary.clock + 1, slide):
            if is_log:
                assert at(late, boundary) == at(whole, boundary)
            else:
                assert late.get(boundary) == whole.get(boundary)
