"""The checkpoint: what it refuses, what it survives, and that it does not grow."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.unit.synopses.synopsis_kit import plan_of

from sash.engine.durability import checkpoint as module
from sash.engine.durability.checkpoint import Checkpoint, JobState, Manifest
from sash.engine.durability.pane_files import PaneFile, PaneFolder
from sash.engine.durability.plan_store import fingerprint
from sash.engine.ingest.watermarks import StreamState
from sash.engine.observe.report import StreamCounts
from sash.errors import CheckpointError, SinkError
from sash.lang import bind_program
from sash.runtime.run import run_program
from sash.testing.scenario import Scenario, StopAfter
from sash.testing.streams import Clock, MadeRow, MadeStream

QUERY = (
    "CREATE QUERY q INTO 'jsonl:q.jsonl' AS\n"
    "  SELECT k, SUM(n) AS total, MAX(k) AS m FROM s [RANGE 4 SEC SLIDE 2 SEC] GROUP BY k;\n"
)


def scenario_of(rows: int, *queries: str, slack: int = 0) -> Scenario:
    made = tuple(MadeRow(i, k="abc"[i % 3], n=i, x=i * 0.25) for i in range(rows))
    return Scenario((MadeStream("s", Clock.SECONDS, slack, "csv", made),), queries or (QUERY,))


def interrupted(directory: Path, scenario: Scenario, batches: int = 3, batch_rows: int = 3) -> Path:
    """Run `scenario` in `directory` up to the given batch; gives its checkpoint."""
    directory.mkdir()
    for stream in scenario.streams:
        stream.write(directory)
    resume(directory, scenario, batches, batch_rows=batch_rows)
    return directory / "checkpoint"


def resume(directory: Path, scenario: Scenario, batches: int | None = None, **options: object) -> StopAfter:
    monitor = StopAfter(batches)
    run_program(
        bind_program(scenario.text),
        base_dir=directory,
        runtime="inline",
        checkpoint=directory / "checkpoint",
        monitor=monitor,
        stop=monitor.stop,
        **{"batch_rows": 3, **options},  # type: ignore[arg-type]
    )
    return monitor


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A directory with a run that was stopped after three batches."""
    interrupted(tmp_path / "run", scenario_of(20))
    return tmp_path / "run"


# ------------------------------------------------------------------------ what it refuses


def test_a_checkpoint_of_another_program_is_refused(stopped):
    other = Scenario(scenario_of(20).streams, (QUERY.replace("SUM(n)", "MIN(n)"),))
    with pytest.raises(CheckpointError, match="is of another program") as caught:
        resume(stopped, other)
    assert "query q" in str(caught.value.got)
    assert "another checkpoint directory" in str(caught.value.hint)


def test_spelling_and_comments_make_no_other_program(stopped):
    text = QUERY.replace("SELECT k,", "select  K ,").replace("GROUP BY k", "-- a comment\n GROUP BY k")
    monitor = resume(stopped, Scenario(scenario_of(20).streams, (text,)))
    assert monitor.reports[0].number == 3


def test_a_checkpoint_of_another_format_is_refused(stopped, monkeypatch):
    monkeypatch.setattr(module, "FORMAT", module.FORMAT + 1)
    with pytest.raises(CheckpointError, match="has format") as caught:
        resume(stopped, scenario_of(20))
    assert caught.value.id == "checkpoint-format"
    assert "another checkpoint directory" in str(caught.value.hint)


def test_a_checkpoint_of_another_runtime_is_refused(stopped):
    identity = json.loads((stopped / "checkpoint" / "format.json").read_text())
    (stopped / "checkpoint" / "format.json").write_text(json.dumps({**identity, "runtime": "spark"}))
    with pytest.raises(CheckpointError, match="is of another runtime"):
        resume(stopped, scenario_of(20))


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"batch": 1}', "null", "\x00\x01", '{"batch": 1, "streams": []}']
)
def test_a_damaged_manifest_is_refused(stopped, content):
    path = stopped / "checkpoint" / "manifest.json"
    path.write_text(content)
    with pytest.raises(CheckpointError, match="damaged") as caught:
        resume(stopped, scenario_of(20))
    assert caught.value.id == "checkpoint-damaged"
    assert str(path) in caught.value.message


def test_a_manifest_that_is_no_text_is_refused(stopped):
    (stopped / "checkpoint" / "manifest.json").write_bytes(b"\xff\xfe\x80")
    with pytest.raises(CheckpointError, match="damaged"):
        resume(stopped, scenario_of(20))


@pytest.mark.parametrize("content", ["", "{", "[]"])
def test_a_damaged_identity_is_refused(stopped, content):
    (stopped / "checkpoint" / "format.json").write_text(content)
    with pytest.raises(CheckpointError, match="damaged"):
        resume(stopped, scenario_of(20))


@pytest.mark.parametrize("harm", ["cut", "flip", "remove"])
def test_a_damaged_pane_file_is_refused_by_name(stopped, harm):
    path = sorted((stopped / "checkpoint" / "panes").glob("*.arrow"))[-1]
    content = bytearray(path.read_bytes())
    match harm:
        case "cut":
            path.write_bytes(content[:-10])
        case "flip":
            content[len(content) // 2] ^= 1
            path.write_bytes(content)
        case _:
            path.unlink()
    with pytest.raises(CheckpointError, match="damaged or missing") as caught:
        resume(stopped, scenario_of(20))
    assert path.name in caught.value.message


def test_a_directory_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    checkpoint = Checkpoint(tmp_path / "file" / "checkpoint", "inline")
    with pytest.raises(CheckpointError, match="cannot use the checkpoint directory") as caught:
        checkpoint.open()
    assert caught.value.got is not None
    assert caught.value.hint is not None


def test_a_directory_that_cannot_be_written_is_refused(tmp_path, monkeypatch):
    def refuse(self: Path, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "touch", refuse)
    with pytest.raises(CheckpointError, match="cannot use the checkpoint directory") as caught:
        Checkpoint(tmp_path / "c", "inline").open()
    assert caught.value.got == "permission denied"


def test_an_output_that_is_gone_is_refused(stopped):
    (stopped / "q.jsonl").unlink()
    with pytest.raises(SinkError, match="gone"):
        resume(stopped, scenario_of(20))


# ------------------------------------------------------------------------ what it survives


SELECT = "SELECT k, SUM(n) AS c FROM s [RANGE 4 US SLIDE 2 US] GROUP BY k"


def test_a_manifest_comes_back_as_it_was():
    counts = StreamCounts(5, 2, 1)
    manifest = Manifest(
        7,
        {"s": StreamState(99, -3, True, counts), "r": StreamState()},
        {"s": {"row": 8}},
        True,
        {"q": {"size": 10}},
        {"q": 3},
        (PaneFile("a", "s0", 12, 99),),
        {"s.late.jsonl": {"size": 1}},
        parts=(JobState(0, {"s": -3}, ("p",), None, {}, 42), JobState(1, {}, (), 17, {"s": 3}, 17)),
        passed={"s": 42},
        sources={"s": "0a"},
    )
    assert Manifest.from_json(manifest.to_json()) == manifest


def test_files_that_the_manifest_does_not_name_are_removed_at_the_start(stopped):
    panes = stopped / "checkpoint" / "panes"
    (panes / "00000099-s0.arrow").write_bytes(b"of a batch that was never committed")
    (panes / ".00000099-s0.arrow.tmp").write_bytes(b"half")
    resume(stopped, scenario_of(20), 1)
    assert not (panes / "00000099-s0.arrow").exists()
    assert not (panes / ".00000099-s0.arrow.tmp").exists()


def test_a_finished_run_that_is_started_again_gives_nothing_more(tmp_path):
    scenario = scenario_of(12)
    outcome = scenario.run(tmp_path / "run", batch_rows=4, interruptions=[])
    before = (tmp_path / "run" / "q.jsonl").read_bytes()
    monitor = resume(tmp_path / "run", scenario, dead_letters=tmp_path / "run" / "dead-letters")
    assert monitor.reports == []
    assert monitor.summary is not None
    assert monitor.summary.streams == outcome.summary.streams
    assert (tmp_path / "run" / "q.jsonl").read_bytes() == before


CRASHES = {"save": PaneFolder, "commit": Checkpoint, "after": Checkpoint}


@pytest.mark.parametrize("place", CRASHES)
@pytest.mark.parametrize("batch", [0, 1, 4])
def test_a_crash_inside_a_batch_loses_nothing_and_doubles_nothing(tmp_path, monkeypatch, place, batch):
    """The process dies before, while, or just after a batch is committed; the next one goes on."""
    scenario = scenario_of(20, slack=1_000_000)
    undisturbed = scenario.run(tmp_path / "undisturbed", batch_rows=3)

    class Crash(Exception):
        pass

    owner, step = CRASHES[place], "commit" if place == "after" else place
    real = getattr(owner, step)
    calls = iter(range(1_000))

    def crash(self: object, *arguments: object) -> None:
        if next(calls) == batch:
            if place == "after":
                real(self, *arguments)
            raise Crash
        real(self, *arguments)

    directory = tmp_path / "crashed"
    directory.mkdir()
    scenario.streams[0].write(directory)
    with monkeypatch.context() as patch:
        patch.setattr(owner, step, crash)
        with pytest.raises(Crash):
            resume(directory, scenario)
    # A batch that was decided before the crash is run as it was, whatever size is asked for now.
    monitor = resume(directory, scenario, batch_rows=7)
    assert (directory / "q.jsonl").read_text() == (tmp_path / "undisturbed" / "q.jsonl").read_text()
    assert monitor.summary is not None
    assert monitor.summary.streams == undisturbed.summary.streams
    assert monitor.summary.answered == undisturbed.summary.answered


def test_a_resumed_run_goes_on_with_the_batch_that_was_decided(stopped):
    log = stopped / "checkpoint" / "feed"
    monitor = resume(stopped, scenario_of(20), 1)
    assert [report.number for report in monitor.reports] == [3]
    assert int((log / "count").read_text()) == 4


# ------------------------------------------------------------------------ that it does not grow


def test_pane_files_go_when_every_window_has_passed_them(tmp_path):
    def most_files(rows: int) -> int:
        directory = tmp_path / str(rows)
        scenario = scenario_of(
            rows,
            QUERY,
            "CREATE QUERY r INTO 'jsonl:r.jsonl' AS "
            "SELECT COUNT(*) AS c FROM s [RANGE 9 SEC SLIDE 3 SEC] WHERE n > 1;\n",
        )
        directory.mkdir()
        scenario.streams[0].write(directory)
        most = 0

        class Watch(StopAfter):
            def batch(self, report):
                nonlocal most
                files = [path for path in (directory / "checkpoint").rglob("*") if path.is_file()]
                most = max(most, len(files))

        run_program(
            bind_program(scenario.text),
            base_dir=directory,
            runtime="inline",
            checkpoint=directory / "checkpoint",
            batch_rows=2,
            monitor=Watch(),
        )
        return most

    few = most_files(30)
    assert most_files(120) == few
    assert few < 20


def test_the_fingerprint_sees_what_matters_and_nothing_else():
    base = fingerprint(plan_of(SELECT))
    assert base == fingerprint(plan_of(SELECT.replace("SELECT k, SUM(n)", "SELECT  k,sum( n )")))
    for other in (
        SELECT.replace("4 US", "6 US"),
        SELECT.replace("SUM", "MAX"),
        SELECT.replace(" GROUP", " WHERE n > 1 GROUP"),
        SELECT.replace("AS c", "AS d"),
        f"Rstream({SELECT})",
        f"{SELECT} HAVING COUNT(*) > 1",
    ):
        assert fingerprint(plan_of(other)) != base


def test_a_checkpoint_can_be_moved_with_its_files(stopped, tmp_path):
    moved = tmp_path / "moved"
    shutil.move(stopped, moved)
    scenario = scenario_of(20)
    resume(moved, scenario)
    undisturbed = scenario.run(tmp_path / "undisturbed", batch_rows=3)
    assert (moved / "q.jsonl").read_text() == (undisturbed.directory / "q.jsonl").read_text()


def test_a_second_run_on_a_checkpoint_in_use_is_refused_and_a_later_one_is_not(tmp_path):
    first, second = (Checkpoint(tmp_path / "state", "inline") for _ in range(2))
    first.open()
    with pytest.raises(CheckpointError, match="another run is using") as caught:
        second.open()
    assert caught.value.id == "checkpoint-busy"
    first.close()
    assert second.open() is None
    second.close()


def test_a_refused_checkpoint_is_not_left_locked(tmp_path):
    first = Checkpoint(tmp_path / "state", "inline")
    first.begin(first.open())
    first.close()
    with pytest.raises(CheckpointError, match="another runtime"):
        Checkpoint(tmp_path / "state", "spark").open()
    first.open()
    first.close()
