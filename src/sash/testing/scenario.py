"""A scenario: a program with its input, run for real and held against the oracle.

`Scenario.run` writes the program's files into a directory, runs the text through `run_program` on any
runtime, with any batch size, checkpoint and interruptions, and gives back what the sinks hold.
`Scenario.check` compares that with the answers that the oracle recomputes, and accounts for every row.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from sash.lang import Program, bind_program
from sash.runtime.report import BatchReport, StreamCounts, Summary
from sash.runtime.run import run_program
from sash.testing.answers import read_answers, received, schema_of_answers
from sash.testing.oracle import Oracle, stream_names
from sash.testing.relations import MadeRelation
from sash.testing.rows import Answers
from sash.testing.streams import MadeStream


class StopAfter:
    """A monitor that stops the run after so many batches and keeps what it was told."""

    def __init__(self, batches: int | None = None) -> None:
        self.stop = threading.Event()
        self.reports: list[BatchReport] = []
        self.summary: Summary | None = None
        self._batches = batches

    def started(self, queries: Mapping[str, str], streams: Mapping[str, str]) -> None:
        """Nothing to do before the first batch."""

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
        definition = next(q for q in self.program.queries if q.name == query)
        schema = schema_of_answers(self.program, definition.plan)
        table = read_answers(definition.sink, schema, self.directory)
        return received(self.program, definition.plan, table)

    def output(self, query: str) -> list[str]:
        """The lines of a text sink, those of one instant sorted: what two equal runs have in common."""
        sink = next(q.sink for q in self.program.queries if q.name == query)
        scheme, _, path = sink.partition(":")
        lines = (self.directory / path).read_text(encoding="utf-8").splitlines()

        def instant(line: str) -> object:
            return json.loads(line)["ts"] if scheme == "jsonl" else line.split(",", 1)[0]

        return [line for _, group in itertools.groupby(lines, instant) for line in sorted(group)]

    def aside(self, stream: str, kind: str) -> list[dict[str, object]]:
        """The side file of a stream: `kind` is late or rejects."""
        path = self.directory / "aside" / f"{stream}.{kind}.jsonl"
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@dataclass(frozen=True, slots=True)
class Scenario:
    """Streams, the CREATE QUERY statements over them, and relations that those may read, too."""

    streams: tuple[MadeStream, ...]
    queries: tuple[str, ...]
    relations: tuple[MadeRelation, ...] = ()

    @property
    def text(self) -> str:
        """The whole program."""
        return "".join((*(source.declaration for source in self.sources), *self.queries))

    @property
    def sources(self) -> tuple[MadeStream | MadeRelation, ...]:
        return (*self.streams, *self.relations)

    @property
    def program(self) -> Program:
        return _bound(self.text)

    @property
    def rows(self) -> int:
        return sum(len(stream.rows) for stream in self.streams)

    def run(
        self,
        directory: Path,
        *,
        runtime: str = "inline",
        batch_rows: int | None = None,
        interruptions: Sequence[int] | None = None,
        master: str = "local[2]",
    ) -> Outcome:
        """Run the program in `directory`, which must be new.

        With `interruptions` (even an empty list) there is a checkpoint, and the run is stopped after so many
        batches, started again, stopped after the next number of them, and so on, then left to end.
        """
        directory.mkdir(parents=True)
        for source in self.sources:
            source.write(directory)
        program = self.program
        checkpoint = None if interruptions is None else directory / "checkpoint"
        starts = 0
        for batches in (*(interruptions or ()), None):
            monitor = StopAfter(batches)
            summary = run_program(
                program,
                base_dir=directory,
                runtime=runtime,
                master=master,
                checkpoint=checkpoint,
                aside=directory / "aside",
                batch_rows=batch_rows,
                monitor=monitor,
                stop=monitor.stop,
            )
            starts += 1
            if not summary.interrupted:
                break
        return Outcome(directory, program, summary, starts)

    # ---------------------------------------------------------------- truth

    def expected(self) -> dict[str, Answers]:
        """The answers of every query, recomputed from the definition."""
        program = self.program
        streams = {stream.name: stream.arrived() for stream in self.streams}
        relations = {relation.name: relation.arrived() for relation in self.relations}
        oracle = Oracle(program, streams, relations)
        return {query.name: oracle.changes(query) for query in program.queries}

    def counts(self) -> dict[str, StreamCounts]:
        """How many rows of each stream that a query reads are accepted, late and rejected."""
        program = self.program
        slacks = {stream.name: stream.slack for stream in program.streams}
        used = {name for query in program.queries for name in stream_names(query.plan)}
        counts = {}
        for stream in self.streams:
            if stream.name in used:
                arrived = stream.arrived()
                accepted = len(arrived.in_time(slacks[stream.name]).ts)
                counts[stream.name] = StreamCounts(accepted, len(arrived.ts) - accepted, stream.rejected)
        return counts

    def check(self, outcome: Outcome) -> None:
        """Assert that the run gave the right answers and lost no row."""
        for name, right in self.expected().items():
            given = outcome.answers(name)
            assert given == right, _difference(name, self.text, given, right)
            answered = sum(sum(rows.values()) for rows in right.values())
            assert outcome.summary.answered[name] == answered, f"{name}: rows counted"
        self.check_rows(outcome)

    def check_rows(self, outcome: Outcome) -> None:
        """Assert that every row of the input was accepted or lies in a side file, once."""
        right = self.counts()
        assert dict(outcome.summary.streams) == right
        for stream in self.streams:
            if stream.name not in right:
                continue
            count = right[stream.name]
            assert count.read == len(stream.rows)
            late = outcome.aside(stream.name, "late")
            rejected = outcome.aside(stream.name, "rejects")
            assert len(late) == count.late
            assert len(rejected) == count.rejected
            places = [(row["source"], row["row"]) for row in (*late, *rejected)]
            assert len(set(places)) == len(places), "a row lies aside twice"


@lru_cache(maxsize=4)
def _bound(text: str) -> Program:
    return bind_program(text)


def _difference(name: str, text: str, given: Answers, right: Answers) -> str:
    """What a person needs to see of a wrong answer: the program and the first instant that is wrong."""
    wrong = min(key for key in given.keys() | right.keys() if given.get(key) != right.get(key))
    return (
        f"{name} is wrong at {wrong[0]} µs, op '{wrong[1]}'\n"
        f"  expected: {dict(right.get(wrong, {}))}\n  got:      {dict(given.get(wrong, {}))}\n{text}"
    )
