"""Holders without Spark: partitions of an inline run, each in a process of its own that tasks ask."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.end_to_end.kit import sorted_within_instants, wait_until

import sash.runtime.inline.pipeline as inline
from sash.engine.continuous.partitions import Message, Partition, Turn
from sash.engine.durability.operator_state import StateFile
from sash.errors import RunError
from sash.lang import bind_program
from sash.runtime.run import run_program
from sash.runtime.spark.peers import make_folder, new_secret
from sash.runtime.spark.state_server import PLANS, Request, Run, SignOfLife, Wanted, ask, heads_of

PROGRAM = """
CREATE STREAM s (t BIGINT, k STRING, v BIGINT) TIMESTAMP BY t FROM 'csv:s.csv' WITH (unit = 'us');
CREATE STREAM r (t BIGINT, k STRING, v BIGINT) TIMESTAMP BY t FROM 'csv:r.csv' WITH (unit = 'us');
CREATE QUERY j INTO 'jsonl:j.jsonl' AS
  SELECT s.k, s.v, r.v AS w FROM s [RANGE 20 US], r [RANGE 9 US] WHERE s.k = r.k;
CREATE QUERY d INTO 'jsonl:d.jsonl' AS SELECT DISTINCT v FROM (SELECT k, v FROM s WHERE v > 2) [RANGE 9 US];
CREATE QUERY g INTO 'jsonl:g.jsonl' AS
  SELECT k, COUNT(*) AS n, MAX(v) AS v FROM s [RANGE 8 US SLIDE 2 US] GROUP BY k;
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = random.Random(5)
    for name in "sr":
        rows = [f"{t // 2},{rng.choice('abcdef')},{rng.randrange(9)}" for t in range(120)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["t,k,v", *rows]) + "\n")
    return tmp_path


@pytest.fixture
def held(folder: Path) -> Iterator[Run]:
    """A run with two partitions, whose holders end with it."""
    sockets, mail, alive = folder / "sockets", folder / "mail", folder / "alive"
    make_folder(sockets)
    mail.mkdir()
    alive.touch()
    cells, panes = folder / "state" / "cells", folder / "state" / "panes"
    yield Run("run", 2, cells, panes, alive, True, os.getpid(), mail, sockets, sockets, new_secret())
    holders = processes_of(sockets)
    alive.unlink()
    wait_until(lambda: len(processes_of(sockets) & holders) <= 1, 20)
    for nursery in processes_of(sockets):
        os.kill(nursery, signal.SIGKILL)
    wait_until(lambda: not processes_of(sockets), 20)


def processes_of(sockets: Path) -> set[int]:
    """The nursery and its holders."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if f"{sockets}/".encode() in command:
                found.add(int(entry.name))
    return found


def run(folder: Path, batch_rows: int = 24) -> dict[str, list[str]]:
    run_program(
        bind_program(PROGRAM),
        base_dir=folder,
        runtime="inline",
        partitions=2,
        batch_rows=batch_rows,
        max_driver_groups=0,
        checkpoint=folder / "state",
    )
    found = {path.name: sorted_within_instants(path) for path in sorted(folder.glob("*.jsonl"))}
    for path in [*folder.glob("*.jsonl"), *(folder / "state").rglob("*")]:
        if path.is_file():
            path.unlink()
    return found


class InHolder(Partition):
    """A partition that has its work done by its holder."""

    run_of_all: Run
    asked: list[Wanted]
    killed = 0
    turns: list[tuple[int, Request, list[Any]]]

    def __init__(self, cut_of: Any, divided: Any, partition: int, of: int, *rest: Any, **more: Any) -> None:
        super().__init__(cut_of, divided, partition, of, *rest, **more)
        self._engine = cut_of.__self__._engine

    def plan(self, wanted: Wanted) -> bytes:
        self.asked.append(wanted)
        if wanted.part is None:
            assert wanted.version == self._engine.version
            return PLANS.to_bytes(self._engine.divided_plan())
        return PLANS.to_bytes(self._engine.executor.parts[wanted.part].continuous.operators)

    def run(
        self,
        stage: int,
        turn: Turn,
        messages: Sequence[Message],
        files: Mapping[int, Sequence[StateFile]],
        mailbox: Path | None = None,
    ) -> list[Message]:
        run = self.run_of_all
        own = {part: tuple(each) for part, each in files.items()}
        request = Request(stage, turn, own, heads_of(messages))
        payloads = [message.payload for message in messages]
        self.turns.append((self._partition, request, payloads))
        if turn.batch == 3 and self._partition == 1 and stage == 1:
            assert run.folder is not None
            for process in sorted(processes_of(run.folder))[1:]:
                os.kill(process, signal.SIGKILL)
                type(self).killed += 1
        return ask(run, self._partition, request, payloads, self.plan)


@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
def test_holders_build_operators_from_plans_and_go_on_from_files_when_they_are_killed(
    folder, held, monkeypatch
):
    """Batches 0 to 2, then all holders are killed; their successors ask for the plans again."""
    expected = run(folder)
    assert len(expected) == 3
    assert all(expected.values())
    monkeypatch.setattr(InHolder, "run_of_all", held, raising=False)
    monkeypatch.setattr(InHolder, "asked", [], raising=False)
    monkeypatch.setattr(InHolder, "turns", [], raising=False)
    monkeypatch.setattr(InHolder, "killed", 0)
    monkeypatch.setattr(inline, "Partition", InHolder)
    assert run(folder) == expected
    assert InHolder.killed == 2
    stages = len({request.stage for _, request, _ in InHolder.turns})
    assert sum(wanted.part is None for wanted in InHolder.asked) == 4
    assert sum(wanted.part == 0 for wanted in InHolder.asked) == 4 * stages
    # An attempt that comes now is too late, and somebody with another secret is left standing.
    late = InHolder.turns[0]
    with pytest.raises(RunError, match="an attempt at batch 0 comes after batch"):
        ask(held, *late, lambda _: b"")
    with pytest.raises(RunError) as caught:
        ask(replace(held, secret="0" * 64), *late, lambda _: b"")
    assert caught.value.id == "holder-ended"


def test_a_run_that_shows_no_sign_of_life_for_a_minute_is_not_alive(tmp_path):
    """So neither a holder nor the process that they are forked from outlives a driver that was killed."""
    alive, time = tmp_path / "alive", [0.0]
    shows = SignOfLife(alive, lambda: time[0])
    assert not shows(), "there is no such file"
    alive.touch()
    os.utime(alive, (100, 100))
    assert shows()
    time[0] = 50.0
    os.utime(alive, (150, 150))
    assert shows()
    time[0] = 110.0
    assert shows()
    time[0] = 110.5
    assert not shows()
    alive.unlink()
    assert not shows()
