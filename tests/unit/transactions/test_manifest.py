"""Readers of another process's windows: a committed view after the other, and files that may go away."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from sash.errors import RunError
from sash.transactions.check import classify
from sash.transactions.events import Isolation, Query, Ring, SubWindow
from sash.transactions.fold import Fold, UndoableFold
from sash.transactions.history import History
from sash.transactions.leases import Graveyard
from sash.transactions.manifest import RingView, View, ask_manifest

SIZE = 4


class Pipeline:
    """Writes a file a batch and pane, commits a manifest, and deletes what it does not name."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory = directory
        self.leases = directory / "leases"
        self.graveyard = Graveyard(self.leases)
        self.random = random.Random(seed)
        self.batch = 0
        self.head = 0
        self.parts: dict[int, tuple[str, ...]] = {}
        self.truth: dict[int, Counter[int]] = {}
        self._next = 0

    def commit(self, by: int | None = None, *, compact: bool = False) -> None:
        self.batch += 1
        slid = self.random.choice((0, 1, 1, 2)) if by is None else by
        self.head += slid if self.parts else max(1, slid)
        first = max(self.head - SIZE + 1, min(self.parts, default=self.head))
        before = self.parts
        parts = {pane: before.get(pane, ()) for pane in range(first, self.head + 1)}
        for pane in parts:
            if pane not in before or self.random.random() < 0.3:
                parts[pane] += (self._write(pane, (self._next,)),)
                self._next += 1
            if compact:
                rows = [row for name in parts[pane] for row in self.read(name)]
                parts[pane] = (self._write(pane, rows, "c"),)
        self.parts = parts
        kept = {name for names in parts.values() for name in names}
        gone = {name for names in before.values() for name in names} - kept
        self.truth[self.batch] = Counter(row for name in sorted(kept) for row in self.read(name))
        text = json.dumps([self.batch, first, self.head, list(parts.items())])
        temporary = self.directory / "manifest.tmp"
        temporary.write_text(text)
        temporary.rename(self.directory / "manifest")
        self.graveyard.bury([self.directory / name for name in sorted(gone)], self.batch - 1)
        self.graveyard.sweep()

    def _write(self, pane, rows, kind=""):
        name = f"{self.batch}-{pane}{kind}"
        (self.directory / name).write_text(json.dumps(list(rows)))
        return name

    def read(self, name):
        return json.loads((self.directory / name).read_text())

    def load(self, known: int | None) -> View[str] | None:
        path = self.directory / "manifest"
        if not path.exists():
            return None
        batch, first, head, panes = json.loads(path.read_text())
        if batch == known:
            return None
        parts = {pane: tuple(names) for pane, names in panes}
        return View(batch, 10 * batch, {"w": RingView(Ring("w", SIZE, 1, first, head), parts)})


class Gather(Fold[tuple[str, ...], Counter[int]]):
    """Reads files; after each sub-window the pipeline may commit."""

    def __init__(self, pipeline, chance, **options):
        self.found: Counter[int] = Counter()
        self._pipeline = pipeline
        self._chance = chance
        self._options = options

    def _rows(self, parts):
        return Counter(row for name in parts for row in self._pipeline.read(name))

    def add(self, sub_window: SubWindow, value: tuple[str, ...]) -> None:
        self.found.update(self._rows(value))
        if self._pipeline.random.random() < self._chance:
            self._pipeline.commit(**self._options)

    def finish(self) -> Counter[int]:
        return +self.found


class GatherAndUndo(Gather, UndoableFold[tuple[str, ...], Counter[int]]):
    def remove(self, sub_window: SubWindow, value: tuple[str, ...]) -> None:
        self.found.subtract(self._rows(value))


@pytest.mark.parametrize("isolation", Isolation)
@pytest.mark.parametrize("kind", [Gather, GatherAndUndo])
def test_answers_are_those_of_a_committed_batch_while_the_pipeline_goes_on(tmp_path, isolation, kind):
    pipeline = Pipeline(tmp_path, 3)
    pipeline.commit()
    histories: list[History] = []
    for attempt in range(60):
        pipeline.commit()
        length = 1 + attempt % SIZE
        query = Query("q", {"w": length}, isolation)
        chance = 0.3 if attempt % 2 else 0.05
        answer = ask_manifest(
            query,
            lambda chance=chance: kind(pipeline, chance),  # type: ignore[misc]
            pipeline.load,
            pipeline.leases,
            attempts=1_000,
            witness=histories.append,
        )
        if length == SIZE:
            assert answer.value == pipeline.truth[answer.state]
        assert answer.instant == 10 * answer.state
        if isolation is Isolation.LWS:
            assert answer.state == pipeline.batch
    for history in histories:
        found = classify(history)
        assert found.violation is None
        assert found.is_latest_window_serializable or isolation is Isolation.WS
    pipeline.commit()
    named = {name for names in pipeline.parts.values() for name in names}
    assert {path.name for path in tmp_path.iterdir()} == named | {"manifest", "leases"}


def test_a_sub_window_that_was_rewritten_starts_the_attempt_again(tmp_path):
    pipeline = Pipeline(tmp_path, 1)
    for _ in range(8):
        pipeline.commit(1)
    folds = iter((Gather(pipeline, 1.0, by=0, compact=True), Gather(pipeline, 0.0)))
    answer = ask_manifest(Query("q", {"w": SIZE}), lambda: next(folds), pipeline.load, pipeline.leases)
    assert answer.attempts == 2
    assert answer.value == pipeline.truth[answer.state]


def test_nothing_committed_and_windows_that_are_too_fast_are_told(tmp_path):
    pipeline = Pipeline(tmp_path, 1)
    query = Query("q", {"w": SIZE})
    with pytest.raises(RunError, match="nothing has been committed"):
        ask_manifest(query, lambda: Gather(pipeline, 0), pipeline.load, pipeline.leases)
    for _ in range(8):
        pipeline.commit(1)
    with pytest.raises(RunError, match="aborted 2 times"):
        ask_manifest(query, lambda: Gather(pipeline, 1.0, by=4), pipeline.load, pipeline.leases, attempts=2)
    assert list(pipeline.leases.iterdir()) == []
