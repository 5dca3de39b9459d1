"""A scenario: a program with its input, run for real and held against the oracle.

`Scenario.run` writes the program's files into a directory, runs the text through `run_program` on any
runtime, with any batch size, checkpoint and interruptions, and gives back what the sinks hold.
`Scenario.check` compares that with the answers that the oracle recomputes, and accounts for every row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sash.engine.observe.report import StreamCounts
from sash.lang import Program
from sash.testing.cases import Case
from sash.testing.oracle import Oracle, source_names
from sash.testing.relations import MadeRelation
from sash.testing.rows import Answers, Listed
from sash.testing.runs import Outcome, StopAfter, bound, difference, misplaced, run
from sash.testing.streams import MadeStream

__all__ = ["Outcome", "Scenario", "StopAfter"]


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
        return bound(self.text)

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
        partitions: int | None = None,
        max_driver_groups: int | None = None,
    ) -> Outcome:
        """Run the program in `directory`, which must be new (see `runs.run`)."""
        directory.mkdir(parents=True)
        for source in self.sources:
            source.write(directory)
        return run(
            self.program,
            directory,
            runtime=runtime,
            batch_rows=batch_rows,
            interruptions=interruptions,
            master=master,
            partitions=partitions,
            max_driver_groups=max_driver_groups,
        )

    def case(
        self,
        note: str,
        *,
        batch_rows: int | None = None,
        interruptions: Sequence[int] | None = None,
        partitions: int | None = None,
    ) -> Case:
        """The scenario as a file that people can read; its answers are for the oracle to add."""
        inputs = {name: text for source in self.sources for name, text in source.texts().items()}
        stops = None if interruptions is None else tuple(interruptions)
        return Case(note, self.text, inputs, {}, batch_rows, stops, partitions)

    # ---------------------------------------------------------------- truth

    def expected(self) -> dict[str, Answers]:
        """The answers of every query, recomputed from the definition."""
        return {
            name: {key: Counter(rows) for key, rows in answers.items()}
            for name, answers in self.expected_in_order().items()
        }

    def expected_in_order(self) -> dict[str, Listed]:
        """The same with the rows of an instant in the order in which they must come."""
        program = self.program
        streams = {stream.name: stream.arrived() for stream in self.streams}
        relations = {relation.name: relation.arrived() for relation in self.relations}
        oracle = Oracle(program, streams, relations)
        return {query.name: oracle.listed(query) for query in program.queries}

    def counts(self) -> dict[str, StreamCounts]:
        """How many rows of each stream and feed that a query reads are accepted, late and rejected."""
        program = self.program
        defined = {stream.name: stream for stream in program.streams}
        used = {name for query in program.queries for name in source_names(query.plan)}
        counts = {}
        for stream in self.streams:
            if stream.name in used:
                arrived = stream.arrived()
                known = defined[stream.name]
                judged = Counter(arrived.judged(known.slack, known.max_ahead))
                rejected = stream.rejected + judged["ahead"]
                counts[stream.name] = StreamCounts(judged["accepted"], judged["late"], rejected)
        for relation in self.relations:
            if relation.name in used and relation.clock is not None:
                counts[relation.name] = StreamCounts(len(relation.rows))
        return counts

    def check(self, outcome: Outcome) -> None:
        """Assert that the run gave the right answers in the right order and lost no row."""
        for name, in_order in self.expected_in_order().items():
            right = {key: Counter(rows) for key, rows in in_order.items()}
            given = outcome.answers(name)
            assert given == right, difference(name, self.text, given, right)
            listed = outcome.listed(name)
            assert listed == in_order, misplaced(name, self.text, listed, in_order)
            answered = sum(sum(rows.values()) for rows in right.values())
            assert outcome.summary.answered[name] == answered, f"{name}: rows counted"
        self.check_rows(outcome)

    def check_rows(self, outcome: Outcome) -> None:
        """Assert that every row of the input was accepted or lies in a side file, once."""
        right = self.counts()
        assert dict(outcome.summary.streams) == right, f"rows counted in\n{self.text}"
        for stream in self.streams:
            if stream.name not in right:
                continue
            count = right[stream.name]
            assert count.read == len(stream.rows)
            late = outcome.dead_letters(stream.name, "late")
            rejected = outcome.dead_letters(stream.name, "rejects")
            assert len(late) == count.late
            assert len(rejected) == count.rejected
            places = [(row["source"], row["row"]) for row in (*late, *rejected)]
            assert len(set(places)) == len(places), "a row lies aside twice"
