"""Archives that runs write: after every batch they hold the oracle's relation at the archive's instant."""

from __future__ import annotations

import tempfile
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sash.archive import open_snapshot
from sash.engine import outputs
from sash.engine.archives.archive_output import ArchiveSink
from sash.engine.observe.report import Silent
from sash.errors import ArchiveError, BindError
from sash.lang import bind_program
from sash.lang.algebra import OutputKind
from sash.runtime.run import run_program
from sash.testing.programs import programs
from sash.testing.rows import normal_row

TECHNIQUES = (
    "AUTO", "REBUILD 2x2", "NOREBUILD 2x3", "LAZYREBUILD 3x2", "LAZYNOREBUILD 2x2", "COUNTREBUILD 2x2",
    "COUNTNOREBUILD 2x2", "CHR-REBUILD 2x2", "CHR-NOREBUILD 2x2", "RANDOM-REBUILD 2x2",
    "RANDOM-NOREBUILD 2x2", "REINDEX 2x2", "DEL 2x2", "R-EXP 2x2", "D-EXP 2x2", "WATA 2x2",
)  # fmt: skip
EVERY = ("1 SEC", "3 SEC", "10 SEC")
PARTITIONS = st.sampled_from((None, 1, 3))


@settings(max_examples=60)
@given(data=st.data(), scenario=programs(most_streams=2, most_queries=1, sinks=("jsonl",)))
def test_random_queries(data, scenario):
    check(data, archived(data, scenario))


@settings(max_examples=30)
@given(data=st.data(), scenario=programs(most_streams=2, most_queries=1, sinks=("jsonl",)))
def test_runs_that_are_interrupted(data, scenario):
    stops = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3), "interruptions")
    check(data, archived(data, scenario), stops)


class Background(ArchiveSink):
    """Updates go on while batches do, as on Spark."""

    def __init__(self, *args, in_background):
        super().__init__(*args, in_background=not in_background)


def archived(data, scenario):
    """The scenario with an archive of its query's body."""
    query = scenario.program.queries[0]
    assume(query.plan.kind is OutputKind.VIEW)
    body = scenario.queries[0].split(" AS\n", 1)[1]
    assume("ALLOW UNBOUNDED" not in body)
    key = query.plan.names[0].replace('"', '""')
    technique = data.draw(st.sampled_from(TECHNIQUES), "technique")
    every = data.draw(st.sampled_from(EVERY), "every")
    statement = f"CREATE ARCHIVE kept KEY (\"{key}\") USING {technique} EVERY {every} INTO 'kept' AS\n{body}"
    scenario = replace(scenario, queries=(*scenario.queries, statement))
    try:
        bind_program(scenario.text)
    except BindError as refused:
        assert refused.id == "unbounded-state"  # noqa: PT017
        assume(False)
    return scenario


class Watch(Silent):
    """Reads the archive after every batch."""

    def __init__(self, directory, seen, batches=None):
        self.stop = threading.Event()
        self._directory = directory
        self._seen = seen
        self._left = batches

    def batch(self, report):
        self._seen.append(contents(self._directory))
        if self._left is not None:
            self._left -= 1
            if self._left <= 0:
                self.stop.set()


def contents(directory):
    with open_snapshot(directory / "kept") as snapshot:
        columns = [column.to_pylist() for column in snapshot.scan().columns]
        return snapshot.through, Counter(normal_row(row) for row in zip(*columns, strict=True))


def check(data, scenario, interruptions=()):
    size = data.draw(st.integers(1, max(1, scenario.rows)), "batch_rows")
    partitions = data.draw(PARTITIONS, "partitions")
    sink = Background if data.draw(st.booleans(), "in the background") else ArchiveSink
    seen: list[tuple[int | None, Counter[tuple[object, ...]]]] = []
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        for source in scenario.sources:
            source.write(directory)
        for batches in (*interruptions, None):
            watch = Watch(directory, seen, batches)
            try:
                with patch.object(outputs, "ArchiveSink", sink):
                    summary = run_program(
                        scenario.program,
                        base_dir=directory,
                        runtime="inline",
                        batch_rows=size,
                        partitions=partitions,
                        checkpoint=directory / "checkpoint" if interruptions else None,
                        monitor=watch,
                        stop=watch.stop,
                    )
            except ArchiveError as refused:
                assert refused.id == "archive-technique"  # noqa: PT017
                return
            if not summary.interrupted:
                break
    assert seen
    expected = scenario.expected()["q0"]
    for through, rows in seen:
        assert rows == relation_at(expected, through), (through, scenario.text)


def relation_at(changes, instant):
    relation: Counter[tuple[object, ...]] = Counter()
    for (at, op), rows in changes.items():
        if instant is not None and at <= instant:
            (relation.update if op == "+" else relation.subtract)(rows)
    return +relation
