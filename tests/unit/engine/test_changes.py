"""Programs that change between two runs and while one goes on: what stays, what is new, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sash.connectors.sinks.jsonl import JsonLinesSink
from sash.engine.control_channel import ControlChannel, Served
from sash.engine.engine import Engine
from sash.engine.observe.report import Summary
from sash.engine.options import Options
from sash.errors import CheckpointError, SinkError
from sash.lang import bind_program
from sash.runtime.inline.pipeline import Inline
from sash.runtime.run import run_program
from sash.testing.runs import StopAfter

STREAM = "CREATE STREAM s (t BIGINT, k STRING, n BIGINT) TIMESTAMP BY t FROM 'csv:s.csv';\n"
OTHER = "CREATE STREAM o (t BIGINT, n BIGINT) TIMESTAMP BY t FROM 'csv:o.csv';\n"
JOIN = (
    "CREATE QUERY j INTO 'jsonl:j.jsonl' AS "
    "SELECT a.n FROM s [RANGE 9 SEC] a, s [ROWS 3] b WHERE a.k = b.k;\n"
)
SUM = (
    "CREATE QUERY m INTO 'jsonl:m.jsonl' AS "
    "SELECT k, SUM(n) AS n FROM s [RANGE 9 SEC SLIDE 2 SEC] GROUP BY k;\n"
)
NEW = "CREATE QUERY x INTO 'jsonl:x.jsonl' AS SELECT DISTINCT k FROM s [RANGE 4 SEC];\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = "".join(f"{t},{'abc'[t % 3]},{t}\n" for t in range(1, 41))
    (tmp_path / "s.csv").write_text("t,k,n\n" + rows)
    (tmp_path / "o.csv").write_text("t,n\n" + "".join(f"{t},{t}\n" for t in range(1, 41)))
    return tmp_path


def run(folder: Path, *statements: str, batches: int | None = None, state: str = "state") -> StopAfter:
    monitor = StopAfter(batches)
    run_program(
        bind_program("".join(statements)),
        base_dir=folder,
        runtime="inline",
        checkpoint=folder / state,
        batch_rows=4,
        partitions=2,
        monitor=monitor,
        stop=monitor.stop,
    )
    return monitor


def instants(path: Path) -> list[int]:
    return [json.loads(line)["ts"] for line in path.read_text().splitlines()]


def test_a_program_with_more_and_fewer_queries_goes_on_with_those_that_stay(folder):
    run(folder, STREAM, JOIN, SUM, state="whole")
    whole = {name: (folder / name).read_text() for name in ("j.jsonl", "m.jsonl")}
    run(folder, STREAM, JOIN, SUM, batches=4)
    stopped = (folder / "m.jsonl").read_text()
    run(folder, STREAM, JOIN, NEW, batches=2)
    assert (folder / "m.jsonl").read_text() == stopped, "what a dropped query wrote stays"
    run(folder, STREAM, NEW, JOIN)
    assert (folder / "j.jsonl").read_text() == whole["j.jsonl"]
    assert whole["m.jsonl"].startswith(stopped)
    # Rows up to 16 had come before the new query did.
    assert instants(folder / "x.jsonl")[0] == 20, "a new query answers when its window is whole"
    # Its state is let go of with the next commit, that of the others is still there.
    manifest = json.loads((folder / "state" / "manifest.json").read_text())
    assert [part[0] for part in manifest["parts"]] == [0, 1]
    assert sorted(path.name for path in (folder / "state" / "parts").iterdir()) == ["0.json", "1.json"]
    assert not list((folder / "state" / "panes").iterdir())


def test_a_part_without_queries_leaves_nothing(folder):
    run(folder, STREAM, JOIN, batches=2)
    run(folder, STREAM, JOIN, NEW, batches=2)
    run(folder, STREAM, NEW, batches=2)
    assert [path.name for path in (folder / "state" / "parts").iterdir()] == ["1.json"]
    cells = {path.name.split(".")[0] for path in (folder / "state" / "cells").iterdir()}
    assert cells == {"1"}


def test_a_query_that_is_gone_is_told_of(folder):
    told = []

    class Watch(StopAfter):
        def warning(self, text: str) -> None:
            told.append(text)

    run(folder, STREAM, JOIN, SUM, batches=2)
    run_program(
        bind_program(STREAM + JOIN),
        base_dir=folder,
        runtime="inline",
        checkpoint=folder / "state",
        partitions=2,
        monitor=Watch(),
    )
    assert len(told) == 1
    assert told[0].startswith("query m is not in the program any more")


@pytest.mark.parametrize(
    ("statements", "reason"),
    [
        ((STREAM, JOIN.replace("ROWS 3", "ROWS 4")), "query j"),
        ((STREAM.replace("csv:s.csv", "csv:./s.csv"), JOIN, SUM), "query j"),
        ((STREAM, NEW), "none of its queries"),
    ],
)
def test_another_program_is_refused_and_leaves_everything_as_it_is(folder, statements, reason):
    run(folder, STREAM, JOIN, batches=3)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(CheckpointError, match="of another program") as caught:
        run(folder, *statements)
    assert reason in str(caught.value.got)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    run(folder, STREAM, JOIN)


def test_a_part_whose_recipe_is_damaged_is_refused(folder):
    run(folder, STREAM, JOIN, batches=2)
    run(folder, STREAM, JOIN, NEW, batches=2)
    path = folder / "state" / "parts" / "1.json"
    path.write_text(path.read_text().replace("RANGE 4 SEC", "RANGE 5 SEC"))
    with pytest.raises(CheckpointError, match="the state of another plan"):
        run(folder, STREAM, JOIN, NEW)
    path.write_text("{")
    with pytest.raises(CheckpointError, match="damaged"):
        run(folder, STREAM, JOIN, NEW)


class Later(ControlChannel):
    """A change that is due before a batch."""

    def __init__(self, batch: int, text: str) -> None:
        super().__init__()
        self._batch, self._program = batch, bind_program(text)

    def serve(self, run: Served) -> None:
        assert isinstance(run, Engine)
        if run.taken + 1 == self._batch:
            run.change(self._program)


COUNT = "CREATE QUERY c INTO 'jsonl:c.jsonl' AS SELECT COUNT(*) AS n FROM o [UNBOUNDED];\n"
BOTH = "CREATE QUERY b INTO 'jsonl:b.jsonl' AS SELECT o.n FROM s [NOW], o [NOW] WHERE s.n = o.n;\n"


def changed(folder: Path, *statements: str) -> Summary:
    """A run to which, after 20 rows of s, queries over another stream come."""
    return run_program(
        bind_program(STREAM + JOIN),
        base_dir=folder,
        runtime="inline",
        batch_rows=4,
        dead_letters=folder / "dead-letters",
        control=Later(5, "".join((STREAM, OTHER, JOIN, *statements))),
    )


def test_a_stream_that_joins_a_run_has_come_as_far_as_those_that_it_is_read_with(folder):
    summary = changed(folder, BOTH, COUNT)
    # 20 rows of s have been read, and everything before 20 is complete.
    assert summary.streams["o"].late == 19
    assert instants(folder / "c.jsonl")[0] == 20
    assert json.loads((folder / "c.jsonl").read_text().splitlines()[-1])["n"] == 21
    assert len((folder / "dead-letters" / "o.late.jsonl").read_text().splitlines()) == 19


def test_a_stream_that_is_read_by_itself_begins_with_its_first_row(folder):
    summary = changed(folder, COUNT)
    assert summary.streams["o"].late == 0
    assert instants(folder / "c.jsonl")[0] == 1
    assert json.loads((folder / "c.jsonl").read_text().splitlines()[-1])["n"] == 40


def test_a_stream_that_nobody_reads_any_more_stays_until_it_is_dropped(folder):
    both = f"{STREAM}{OTHER}{JOIN}CREATE QUERY c INTO 'noop:' AS SELECT n FROM o [NOW];\n"
    engine = Engine(bind_program(both), Options(base_dir=folder, batch_rows=4), "inline", 1)
    engine.load()
    engine.open_outputs()
    inline = Inline(engine)

    def step() -> set[str]:
        entry = engine.next_entry()
        assert entry is not None
        engine.take(entry, inline.batch)
        return {chunk.stream for chunk in entry.chunks}

    assert step() == {"s", "o"}
    engine.change(bind_program(STREAM + OTHER + JOIN))
    assert {name for _ in range(3) for name in step()} == {"s", "o"}
    engine.change(bind_program(STREAM + JOIN))
    assert step() == {"s"}
    assert engine.streams.keys() == {"s"}
    engine.close()


def test_state_that_only_a_dropped_query_needs_is_let_go_of(folder):
    program = bind_program(STREAM + JOIN + NEW)
    for partitions in (None, 2):
        engine = Engine(
            program,
            Options(base_dir=folder, batch_rows=4),
            "inline",
            1,
            state=folder,
            partitions=partitions,
        )
        engine.load()
        engine.open_outputs()
        inline = Inline(engine)
        for number in range(6):
            if number == 4:
                before = engine.executor.live_rows
                engine.change(bind_program(STREAM + NEW))
            entry = engine.next_entry()
            assert entry is not None
            engine.take(entry, inline.batch)
        assert engine.executor.live_rows <= 8 < before
        assert len(engine.plan.scans) == 1
        inline.close()
        engine.close()


def test_a_periodic_query_that_is_made_anew_under_its_name_answers_what_it_asks_now(folder):
    """Both read one synopsis, which must neither go with the old query nor answer for it."""
    silent = SUM.replace("GROUP BY k", "GROUP BY k HAVING SUM(n) < 0")
    run_program(
        bind_program(STREAM + silent),
        base_dir=folder,
        runtime="inline",
        batch_rows=4,
        control=Later(5, STREAM + SUM),
    )
    found = (folder / "m.jsonl").read_text()
    assert instants(folder / "m.jsonl")[0] == 20, "the first boundary after the change"
    run_program(bind_program(STREAM + SUM), base_dir=folder, runtime="inline", batch_rows=4)
    whole = (folder / "m.jsonl").read_text().splitlines()
    # From the second boundary on the changes are those of a query that was there all the time.
    assert [line for line in found.splitlines() if json.loads(line)["ts"] > 20] == [
        line for line in whole if json.loads(line)["ts"] > 20
    ]


def test_an_output_that_cannot_be_opened_leaves_the_run_as_it_was(folder, monkeypatch):
    """The disk refuses when the file of the new query is made, after everything has been checked."""

    def refuse(self: JsonLinesSink, committed: object) -> None:
        raise SinkError("full")

    engine = Engine(bind_program(STREAM + JOIN), Options(base_dir=folder, batch_rows=4), "inline", 1)
    engine.load()
    engine.open_outputs()
    inline = Inline(engine)
    with monkeypatch.context() as patched:
        patched.setattr(JsonLinesSink, "open", refuse)
        with pytest.raises(SinkError, match="full"):
            engine.change(bind_program(STREAM + NEW))
    while not engine.is_finished:
        entry = engine.next_entry()
        assert entry is not None
        engine.take(entry, inline.batch)
    engine.finish(interrupted=False)
    changed = (folder / "j.jsonl").read_text()
    run(folder, STREAM, JOIN)
    assert (folder / "j.jsonl").read_text() == changed
