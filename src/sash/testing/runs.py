"""Programs run for real: files in a directory, `run_program`, and what the sinks hold afterwards."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from sash.engine.observe.report import BatchReport, Silent, Summary
from sash.lang import Program, bind_program
from sash.runtime.run import run_program
from sash.testing.answers import listed, read_answers, schema_of_answers
from sash.testing.cases import Case
from sash.testing.rows import Answers, Listed


@lru_cache(maxsize=64)
def bound(text: str) -> Program:
    """A program, bound once however often the batches of its runs ask for it."""
    return bind_program(text)


class StopAfter(Silent):
    """A monitor that stops the run after so many batches and keeps what it was told."""

    def __init__(self, batches: int | None = None) -> None:
        self.stop = threading.Event()
        self.reports: list[BatchReport] = []
        self.summary: Summary | None = None
        self._batches = batches

    def watches(self, query: str) -> bool:
        return True

    def batch(self, report: BatchReport) -> None:
        self.reports.append(report)
        if self._batches is not None and len(self.reports) >= self._batches:
            self.stop.set()

    def finished(self, summary: Summary) -> None:
        self.summary = summary


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run left behind. `starts` counts the processes it took, the first one included."""

    directory: Path
    program: Program
    summary: Summary
    starts: int

    def answers(self, query: str) -> Answers:
        """The answers of a query as its sink holds them, per (instant, op)."""
        return {key: Counter(rows) for key, rows in self.listed(query).items()}

    def listed(self, query: str) -> Listed:
        """The same with rows in the order in which they were written."""
        definition = next(q for q in self.program.queries if q.name == query)
        schema = schema_of_answers(self.program, definition.plan)
        table = read_answers(definition.sink, schema, self.directory)
        return listed(self.program, definition.plan, table)

    def output(self, query: str) -> bytes:
        """What a text sink holds."""
        sink = next(q.sink for q in self.program.queries if q.name == query)
        return (self.directory / sink.partition(":")[2]).read_bytes()

    def dead_letters(self, stream: str, kind: str) -> list[dict[str, object]]:
        """The side file of a stream: `kind` is late or rejects."""
        path = self.directory / "dead-letters" / f"{stream}.{kind}.jsonl"
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def run(
    program: Program,
    directory: Path,
    *,
    runtime: str = "inline",
    batch_rows: int | None = None,
    interruptions: Sequence[int] | None = None,
    master: str = "local[2]",
    partitions: int | None = None,
    max_driver_groups: int | None = None,
) -> Outcome:
    """Run a program whose input lies in `directory`.

    With `interruptions` (even an empty list) there is a checkpoint, and the run is stopped after so many
    batches, started again, stopped after the next number of them, and so on, then left to end.
    """
    checkpoint = None if interruptions is None else directory / "checkpoint"
    starts = 0
    for batches in (*(interruptions or ()), None):
        monitor = StopAfter(batches)
        summary = run_program(
            program,
            base_dir=directory,
            runtime=runtime,
            master=master,
            partitions=partitions,
            max_driver_groups=max_driver_groups,
            checkpoint=checkpoint,
            dead_letters=directory / "dead-letters",
            batch_rows=batch_rows,
            monitor=monitor,
            stop=monitor.stop,
        )
        starts += 1
        if not summary.interrupted:
            break
    return Outcome(directory, program, summary, starts)


def difference(name: str, text: str, given: Answers, right: Answers) -> str:
    """What a person needs to see of a wrong answer: the program and the first instant that is wrong."""
    wrong = min(key for key in given.keys() | right.keys() if given.get(key) != right.get(key))
    return (
        f"{name} is wrong at {wrong[0]} µs, op '{wrong[1]}'\n"
        f"  expected: {dict(right.get(wrong, {}))}\n  got:      {dict(given.get(wrong, {}))}\n{text}"
    )


def misplaced(name: str, text: str, given: Listed, right: Listed) -> str:
    """The first instant whose rows are right but in another order than they must be."""
    wrong = min(key for key in right if given[key] != right[key])
    return (
        f"{name} is out of order at {wrong[0]} µs, op '{wrong[1]}'\n"
        f"  expected: {right[wrong]}\n  got:      {given[wrong]}\n{text}"
    )


def replay(case: Case, directory: Path, runtime: str = "inline", partitions: int | None = None) -> None:
    """Run a case and assert that it gives the answers that it lists."""
    case.write_inputs(directory)
    outcome = run(
        case.program,
        directory,
        runtime=runtime,
        batch_rows=case.batch_rows,
        interruptions=case.interruptions,
        partitions=case.partitions if partitions is None else partitions,
    )
    for name, right in case.expected().items():
        given = outcome.answers(name)
        assert given == right, difference(name, case.text, given, right)
