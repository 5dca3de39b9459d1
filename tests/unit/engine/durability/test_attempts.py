"""Tasks that run twice: a second attempt, in a process of its own, makes no difference to a run.

batch            2                 3                    4          stop, and resume
this process     ├─ work ─ write ─ commit ─┤─ … ────────┤─ … ─┤
another one         ├─ work ─ …  waits  … ──── write ─┤             what it writes is of nobody
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.end_to_end.kit import sorted_within_instants

import sash.runtime.inline.pipeline as inline
from sash.engine.continuous.partitions import Message, Partition, Turn, gather
from sash.engine.durability import operator_state, pane_files
from sash.engine.durability.files import batch_of, new_attempt, save_file, stamp
from sash.engine.durability.operator_state import StateFile
from sash.engine.durability.wire import Packed
from sash.engine.ingest import retained_files
from sash.engine.ingest.first_stage import ChunkResult, run_chunk
from sash.engine.ingest.retained_files import Keep
from sash.engine.periodic.partitioned import PartitionedPlan, PartitionedSynopses
from sash.lang import bind_program
from sash.operators.stage_planner import StagePlan
from sash.runtime.run import run_program
from sash.testing.runs import StopAfter

PROGRAM = """
CREATE STREAM s (t BIGINT, k STRING, v BIGINT) TIMESTAMP BY t RETAIN 1 MIN
  FROM 'csv:s.csv' WITH (unit = 'us');
CREATE STREAM r (t BIGINT, k STRING, v BIGINT) TIMESTAMP BY t FROM 'csv:r.csv' WITH (unit = 'us');
CREATE INDEX by_k ON s (k) USING AUTO;
CREATE QUERY j INTO 'jsonl:j.jsonl' AS
  SELECT s.k, s.v, r.v AS w FROM s [RANGE 20 US], r [RANGE 9 US] WHERE s.k = r.k;
CREATE QUERY g INTO 'jsonl:g.jsonl' AS
  SELECT k, COUNT(*) AS n, MAX(v) AS v FROM s [RANGE 8 US SLIDE 2 US] GROUP BY k;
CREATE QUERY h INTO 'jsonl:h.jsonl' AS
  SELECT k, SUM(v) AS v FROM r [RANGE 8 US SLIDE 2 US] GROUP BY k;
"""
TWICE = (2, 4)
"""The batches whose tasks run twice."""
WRITERS = (operator_state, pane_files, retained_files)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = random.Random(5)
    for name in "sr":
        rows = [f"{t // 2},{rng.choice('abcdef')},{rng.randrange(9)}" for t in range(120)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["t,k,v", *rows]) + "\n")
    return tmp_path


class Another:
    """Another process that does the work of a task, and writes what it has to write only when it may."""

    def __init__(self, work: Callable[..., Any], *arguments: Any, dies: bool = False) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._may_write, self._found = spawn.Event(), spawn.SimpleQueue()
        self._process = spawn.Process(
            target=_in_another_process, args=(work, arguments, self._may_write, self._found, dies)
        )
        self._process.start()
        self.gave = self._found.get()

    def write(self) -> None:
        self._may_write.set()
        self._process.join(60)
        assert self._process.exitcode in (0, -signal.SIGKILL)


def _in_another_process(
    work: Callable[..., Any], arguments: Sequence[Any], may_write: Any, found: Any, dies: bool
) -> None:
    held: list[tuple[Path, Any, bool]] = []
    for module in WRITERS:
        module.save_file = lambda path, content, durable=True: held.append((path, content, durable))  # type: ignore[attr-defined]
    found.put(work(*arguments))
    may_write.wait(60)
    if dies:
        # It is killed before any of its files has its name.
        os.replace = lambda *_: None
    for path, content, durable in held:
        save_file(path, content, durable=durable)
    if dies:
        os.kill(os.getpid(), signal.SIGKILL)


def _turn(
    cuts: Mapping[int, StagePlan],
    plan: PartitionedPlan,
    directories: tuple[Path, Path],
    place: tuple[int, int],
    *arguments: Any,
) -> Any:
    cells, panes = directories
    synopses = PartitionedSynopses(lambda _: plan, *place, panes, durable=True)
    partition = Partition(cuts.__getitem__, synopses, *place, cells, durable=True)
    messages = partition.run(*arguments)
    partition.close()
    return [(m.part, m.stage, m.target, m.link, m.rank, bytes(m.content)) for m in messages]


class Attempts:
    """Second attempts of the tasks of a run, and what became of them."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, dies: bool) -> None:
        self.late: list[Another] = []
        self.turns = self.chunks = 0
        attempts = self

        class Twice(Partition):
            def __init__(self, cut_of: Any, divided: Any, partition: int, of: int, *rest: Any, **more: Any):
                super().__init__(cut_of, divided, partition, of, *rest, **more)
                self._copies = cut_of
                self._place = partition, of

            def run(
                self,
                stage: int,
                turn: Turn,
                messages: Sequence[Message],
                files: Mapping[int, Sequence[StateFile]],
                mailbox: Path | None = None,
            ) -> list[Message]:
                gave = super().run(stage, turn, messages, files, mailbox)
                if turn.batch in TWICE and messages:
                    assert turn.divided is not None
                    cuts = {part: self._copies(part) for part in files}
                    plan = self._divided._plan_of(turn.divided.version)
                    directories = self._directory, self._divided._directory
                    backwards = [
                        Message(m.part, m.stage, m.target, m.link, m.rank, bytes(m.content))
                        for m in reversed(messages)
                    ]
                    other = Another(
                        _turn, cuts, plan, directories, self._place, stage, turn, backwards, files, dies=dies
                    )
                    attempts.late.append(other)
                    attempts.turns += 1
                    again = [Message(*head) for head in other.gave]
                    assert told(again) == told(gave)
                return gave

        def chunk(plan: Any, chunk: Any, newest: Any, keep: Keep | None) -> ChunkResult:
            result = run_chunk(plan, chunk, newest, keep)
            if keep is not None and keep.batch in TWICE and result.kept is not None:
                attempts.late.append(Another(_kept, plan, chunk, newest, keep, dies=dies))
                attempts.chunks += 1
            return result

        monkeypatch.setattr(inline, "Partition", Twice)
        monkeypatch.setattr(inline, "run_chunk", chunk)

    def write(self) -> None:
        for other in self.late:
            other.write()
        self.late.clear()


def _kept(*arguments: Any) -> str:
    kept = run_chunk(*arguments).kept
    assert kept is not None
    return kept.name


def told(messages: Sequence[Message]) -> Any:
    """What a task gives back, but for the names of its files and how it has counted."""
    batch_result = gather(messages)
    files = {cell: [(f.checksum, f.size) for f in files[-1:]] for cell, files in batch_result.files.items()}
    assert all(files.values())
    panes = [[(f.synopsis, f.until, f.checksum, f.partition) for f in d.files] for d in batch_result.divided]
    # Rows of one instant have no order here yet.
    answers = [
        {
            name: sorted(str(row) for table in tables for row in table.to_pylist())
            for name, tables in d.answers.items()
        }
        for d in batch_result.divided
    ]
    rows = [
        (part, name, rank, delta.ts.tolist(), [c.to_pylist() for c in delta.columns])
        for part, there in batch_result.parts.items()
        for name, rank, given in there.rows
        for delta in [given.load() if isinstance(given, Packed) else given]
    ]
    return files, panes, answers, rows


def run(folder: Path, batches: int | None = None, after: Callable[[int], None] = lambda _: None) -> None:
    class Monitor(StopAfter):
        def batch(self, report: Any) -> None:
            super().batch(report)
            after(len(self.reports))

    monitor = Monitor(batches)
    run_program(
        bind_program(PROGRAM),
        base_dir=folder,
        runtime="inline",
        partitions=2,
        batch_rows=24,
        max_driver_groups=0,
        checkpoint=folder / "state",
        monitor=monitor,
        stop=monitor.stop,
    )


def outputs(folder: Path) -> dict[str, list[str]]:
    return {path.name: sorted_within_instants(path) for path in sorted(folder.glob("*.jsonl"))}


def state_files(folder: Path) -> Iterator[str]:
    for kind in ("cells", "panes", "retained"):
        yield from (f"{kind}/{path.name}" for path in (folder / "state" / kind).iterdir())


@pytest.mark.parametrize("dies", [False, True], ids=["late", "killed"])
def test_a_second_attempt_that_writes_after_the_commit_harms_nothing(folder, monkeypatch, dies):
    run(folder)
    right = outputs(folder)
    assert len(right) == 3
    assert all(right.values())
    for path in [*folder.glob("*.jsonl"), *(folder / "state").rglob("*")]:
        if path.is_file():
            path.unlink()
    with monkeypatch.context() as patched:
        attempts = Attempts(folder, patched, dies)
        left: list[set[str]] = []

        def after(batches: int) -> None:
            if batches in (TWICE[0] + 1, TWICE[1] + 1):
                before = set(state_files(folder))
                attempts.write()
                left.append(set(state_files(folder)) - before)

        run(folder, TWICE[1] + 1, after)
        assert (attempts.turns, attempts.chunks) == (4, 2)
    assert all(left), "late attempts have written files"
    assert {name.partition("/")[0] for name in left[0]} == {"cells", "panes", "retained"}
    assert {name.endswith(".tmp") for name in left[0]} == {dies}
    there = set(state_files(folder))
    assert not left[0] & there, "a later commit has removed them"
    assert left[1] <= there
    run(folder)
    assert outputs(folder) == right
    assert not left[1] & set(state_files(folder))
    assert not [name for name in state_files(folder) if name.endswith(".tmp")]


def test_files_say_which_batch_they_are_of_also_half_written():
    name = f"1.0.2.{stamp(12, new_attempt())}.log"
    assert batch_of(name) == batch_of(f".{name}.tmp") == 12
    assert batch_of(f"s.5+8.{stamp(1_234_567_890, new_attempt())}.2.index") == 1_234_567_890
    assert batch_of(f"0.0.0.{stamp(-1, new_attempt())}.state") == -1
    assert batch_of("something") is None
    assert len({new_attempt() for _ in range(100)}) == 100
